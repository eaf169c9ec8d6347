package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// Cluster images are offered like images of the namespace, as cvi/NAME, and can't be deleted here.
func TestClusterImagesOnPages(t *testing.T) {
	t.Parallel()
	vm := sample("web", fleet.Running)
	vm.Volumes = append(vm.Volumes, fleet.Volume{
		Kind: fleet.ClusterVirtualImage, Name: "drivers", State: "Ready", Attachment: "web-drivers-cvi",
		Detaches: "cvi/drivers",
	})
	p := newPlay(t, vm)
	p.store(
		fleet.Volume{Kind: fleet.VirtualImage, Name: "debian", State: "Ready"},
		fleet.Volume{Kind: fleet.ClusterVirtualImage, Name: "debian", Source: "https://example.org/x"},
		fleet.Volume{Kind: fleet.ClusterVirtualImage, Name: "taken", State: "Failed"},
	)
	_, page := p.call("GET", "/disks", "")
	checkPage(t, "images of the cluster", "en", page)
	for _, part := range []string{
		`<td>Cluster image</td>`, `value="image:debian"`, `value="image:cvi/debian"`, `Image cvi/debian`,
		`<button id="delete-ClusterVirtualImage-debian" class="danger" disabled title="cluster images are managed`,
	} {
		require.Contains(t, page, part)
	}
	require.NotContains(t, page, "image:cvi/taken")
	_, page = p.call("GET", "/vms/web/disks", "")
	for _, part := range []string{
		`<option>vi/debian</option>`, `<option>cvi/debian</option>`, `name="disk" value="cvi/drivers"`,
	} {
		require.Contains(t, page, part)
	}
	require.NotContains(t, page, "cvi/taken")
}
