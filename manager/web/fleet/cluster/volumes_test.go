package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/web/fleet"
	"vmop/test/wait"
)

// parsed parses a resource from JSON.
func parsed[T any](t *testing.T, text string, values ...any) *T {
	t.Helper()
	object := new(T)
	require.NoError(t, json.Unmarshal(fmt.Appendf(nil, text, values...), object))
	return object
}

// A page shows the disks of a VM in the order of its definition, with the manager's data, and updates them.
func TestVolumesOfAVM(t *testing.T) {
	t.Parallel()
	f := many(t, 1)
	disk := func(version int, status string) *v1.VirtualDisk {
		return parsed[v1.VirtualDisk](t, `{"metadata": {"name": "root", "uid": "r", "resourceVersion": "%d"}, "spec": {"persistentVolumeClaim": {"size": "20Gi"},
			"dataSource": {"type": "HTTP", "http": {"url": "https://example.org/debian.qcow2"}}}, "status": %s}`, version, status)
	}
	d, i := f.opts.Volumes.Disks, f.opts.Volumes.Images
	require.NoError(t, d.Listing([]*v1.VirtualDisk{
		disk(1, `{"phase": "Provisioning", "progress": "45%", "message": "it is being imported"}`),
	}, nil, nil, nil))
	image := parsed[v1.VirtualImage](t, `{"metadata": {"name": "tools", "uid": "i"},
		"spec": {"persistentVolumeClaim": {"size": "1Gi"}, "dataSource": {"type": "Upload"}},
		"status": {"phase": "Ready", "capacity": "2Gi"}}`)
	require.NoError(t, i.ListingImages([]*v1.VirtualImage{image}, nil, nil))
	require.NoError(t, f.opts.Store.Put(parsed[v1.VirtualMachine](t, `{
		"metadata": {"name": "web", "uid": "w", "resourceVersion": "9"},
		"spec": {"vm": {"disks": [{"cdrom": {"image": "https://me:canary@x/a.iso"}}, {"virtualDisk": {"name": "gone"}},
			{"volumeClaimTemplate": {"metadata": {"name": "own"}, "spec": {"resources": {"requests": {"storage": "4Gi"}}}}}]},
			"dataSource": {"kind": "VirtualMachineSnapshot", "name": "before"},
			"blockDeviceRefs": [{"kind": "VirtualDisk", "name": "root"}, {"kind": "VirtualImage", "name": "tools"}]}}`)))
	is := func() []fleet.Volume {
		vm, err := f.Get("web")
		require.NoError(t, err)
		return vm.Volumes
	}
	root := fleet.Volume{
		Kind: fleet.VirtualDisk, Name: "root", Size: 20 << 30, State: "Provisioning", Progress: "45%",
		Message: "it is being imported", Source: "https://example.org/debian.qcow2",
	}
	want := []fleet.Volume{
		{Kind: fleet.CDDrive, Name: "drive 0", Source: "https://x/a.iso"},
		{Kind: fleet.VirtualDisk, Name: "gone", State: missing},
		{Kind: fleet.OwnDisk, Name: "own-disk-web-0", Size: 4 << 30, Source: "VirtualMachineSnapshot/before"},
		root,
		{Kind: fleet.VirtualImage, Name: "tools", Size: 2 << 30, State: "Ready", Source: "Upload"},
	}
	require.Equal(t, want, is())

	changed := f.Changed()
	require.NoError(t, d.Learn(disk(2, `{"phase": "Ready", "progress": "100%", "capacity": "20Gi"}`)))
	<-changed
	root.State, root.Progress, root.Message = "Ready", "", ""
	want[3] = root
	require.Equal(t, want, is())
	for _, v := range is() {
		require.Contains(t, append(fleet.VolumeStates(), ""), v.State)
	}
	for _, phase := range []v1.DiskPhase{
		v1.DiskPending, v1.DiskWaiting, v1.DiskUpload, v1.DiskProvisioning, v1.DiskReady, v1.DiskResizing,
		v1.DiskFailed, v1.DiskTerminating,
	} {
		require.Contains(t, fleet.VolumeStates(), string(phase))
	}
	running, err := f.Get("vm-0000")
	require.NoError(t, err)
	require.Equal(t, "Ready", running.Volumes[0].State, "its pod has it")

	changed = f.Changed()
	require.NoError(t, d.Forget(disk(3, `{}`)))
	<-changed
	require.Equal(t, missing, is()[3].State)
}

// Cluster images are shown and offered with the images of the namespace. Their stored images are not shown separately.
// Cluster images are read-only here.
func TestImagesOfTheCluster(t *testing.T) {
	t.Parallel()
	f := many(t, 1)
	d, i := f.opts.Volumes.Disks, f.opts.Volumes.Images
	require.NoError(t, d.Listing(nil, nil, nil, nil))
	const spec = `"spec": {"persistentVolumeClaim": {"size": "3Gi"},
		"dataSource": {"type": "HTTP", "http": {"url": "https://a/%s"}}}`
	image := func(name, owner, url string) *v1.VirtualImage {
		return parsed[v1.VirtualImage](t, `{"metadata": {"name": "%s", "uid": "i", "ownerReferences": [`+owner+
			`]}, `+spec+`, "status": {"phase": "Ready", "capacity": "3Gi", "import": {"virtualSize": 1048576}}}`, name, url)
	}
	require.NoError(t, i.ListingImages([]*v1.VirtualImage{
		image("own", "", "own"), image("cvi-other", "", "other"),
		image("cvi-debian", `{"controller": true, "kind": "ClusterVirtualImage", "name": "debian", "uid": "c"}`,
			"debian"),
	}, nil, nil))
	of := func(name string) *v1.ClusterVirtualImage {
		return parsed[v1.ClusterVirtualImage](t, `{"metadata": {"name": "%s", "uid": "c"}, `+spec+`}`, name, name)
	}
	require.NoError(t, i.ListingClusterImages(of("new"), of("debian"), of("other")))
	all, err := f.Disks(t.Context())
	require.NoError(t, err)
	var shown []string
	for _, v := range all {
		shown = append(shown, string(v.Kind)+"/"+v.Name+" "+v.State)
	}
	require.Equal(t, []string{
		"VirtualImage/cvi-other Ready", "VirtualImage/own Ready", "ClusterVirtualImage/debian Ready",
		"ClusterVirtualImage/new ", "ClusterVirtualImage/other Failed",
	}, shown)
	var offered []string
	for _, v := range f.diskSources().Images {
		offered = append(offered, v.Name+" "+formatQuantity(v.Size))
	}
	require.Equal(t, []string{"cvi-other 1Mi", "own 1Mi", "cvi/debian 1Mi", "cvi/new 3Gi"}, offered)
	require.Equal(t, []string{"vi/cvi-other", "vi/own", "cvi/debian", "cvi/new"}, f.Attachable(t.Context(), nil).Disks)
	var refusal fleet.Refusal
	require.ErrorAs(t, f.Attach(t.Context(), "me", "vm-0", fleet.Attachment{Size: 1 << 30}), &refusal)
	require.ErrorAs(t, f.Grow(t.Context(), "me", "vm-0", "data", 1<<30), &refusal)
	_, err = f.Snapshot(t.Context(), "me", "vm-0", "mine")
	require.ErrorAs(t, err, &refusal)
	source, err := sourceOf(fleet.Disk{From: fleet.FromImage, Of: "cvi/debian"})
	require.NoError(t, err)
	require.Equal(t, &v1.DiskSourceRef{Kind: "ClusterVirtualImage", Name: "debian"}, source.ObjectRef)
	err = f.GrowDisk(t.Context(), "me", fleet.ClusterVirtualImage, "debian", 1<<40)
	require.ErrorContains(t, err, "kubectl edit cvi debian")
	err = f.DeleteDisk(t.Context(), "me", fleet.ClusterVirtualImage, "debian")
	require.ErrorContains(t, err, "is its administrators'")
	require.Equal(t, v1.AttachedDeviceRef{Kind: v1.AttachedClusterImage, Name: "debian"}, deviceOf("cvi/debian"))
}

// A disk that is being attached to a running guest is shown with its progress.
func TestAttachedVolumes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.define("web", small)
	p.Apply(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: data}, spec: {persistentVolumeClaim: {size: 1Gi}}}`,
		`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineBlockDeviceAttachment, metadata: {name: web-data},
  spec: {virtualMachineName: web, blockDeviceRef: {kind: VirtualDisk, name: data}}}`)
	last := func(state string) {
		p.await("web", "the disk is "+state, func(vm *fleet.VM) bool {
			v := vm.Volumes[len(vm.Volumes)-1]
			return v.Name == "data" && v.Attachment == "web-data" && v.State == state && v.Size == 1<<30
		})
	}
	last("Pending")
	patch := func(kind, name, status string) {
		p.Kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", `{"status": `+status+`}`)
	}
	patch("vmbda", "web-data", `{"phase": "InProgress", "reason": "ExportStarting", "message": "it starts"}`)
	last("InProgress")
	patch("vd", "data", `{"phase": "Ready", "attachedToVirtualMachines": [{"name": "web"}]}`)
	patch("vmbda", "web-data", `{"phase": "Attached"}`)
	last("Ready")
	patch("vd", "data", `{"phase": "Resizing"}`)
	last("Resizing")
	p.Kubectl("delete", "vmbda", "web-data")
	p.await("web", "it is detached", func(vm *fleet.VM) bool { return len(vm.Volumes) == 1 })
}

// A VM and its disks are created together or not at all.
func TestNewVMWithDisks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx := t.Context()
	p.Apply(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: data}, spec: {persistentVolumeClaim: {size: 1Gi}}}`,
		`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualImage, metadata: {name: debian}, spec: {persistentVolumeClaim: {size: 4Gi},
  dataSource: {type: Upload}}}`)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status": {"phase": "Ready", "import": {"virtualSize": 3221225472, "format": "qcow2"}}}`))
	image := &v1.VirtualImage{}
	image.Name, image.Namespace = "debian", p.Name
	require.NoError(t, p.admin.Status().Patch(ctx, image, patch))
	offered := func() (images, disks []string) {
		offer, err := p.Offer(ctx)
		require.NoError(t, err)
		require.NotNil(t, offer.Sources)
		for _, v := range offer.Sources.Images {
			images = append(images, fmt.Sprint(v.Name, " ", v.Size))
		}
		for _, v := range offer.Sources.Disks {
			disks = append(disks, v.Name)
		}
		return images, disks
	}
	wait.Until(t, func() bool {
		images, disks := offered()
		return len(images) == 1 && images[0] == "debian 3221225472" && len(disks) == 1 && disks[0] == "data"
	})

	draft := &fleet.Draft{
		Name: "web", CPUs: 1, RAM: 1 << 30, Disks: []fleet.Disk{
			{From: fleet.FromImage, Of: "debian", Size: 3 << 30},
			{Size: 1 << 30},
			{
				From: fleet.FromURL, Of: "https://example.org/a.qcow2", Checksum: strings.Repeat("AB", 32),
				Size: 5 << 30, Class: "fast",
			},
			{From: fleet.FromDisk, Of: "data"},
			{From: fleet.FromBlank, Size: 1 << 30},
		},
	}
	text, err := p.Draft(ctx, draft)
	require.NoError(t, err)
	check, err := p.Check(ctx, "web", &fleet.Definition{Text: text})
	require.NoError(t, err)
	require.Empty(t, check.Faults)
	var none v1.VirtualDiskList
	require.NoError(t, p.admin.List(ctx, &none, client.InNamespace(p.Name)))
	require.Len(t, none.Items, 1, "they were only checked")
	require.NoError(t, p.Create(ctx, "alice", "web", "# by hand\n---\n"+text, ""))
	disk := func(name string) *v1.VirtualDisk {
		d := &v1.VirtualDisk{}
		require.NoError(t, p.admin.Get(ctx, client.ObjectKey{Namespace: p.Name, Name: name}, d))
		return d
	}
	ref := disk("web-system").Spec.DataSource.ObjectRef
	require.Equal(t, &v1.DiskSourceRef{Kind: "VirtualImage", Name: "debian"}, ref)
	from := disk("web-disk3")
	require.Equal(t, "https://example.org/a.qcow2", from.Spec.DataSource.HTTP.URL)
	require.Equal(t, strings.Repeat("ab", 32), from.Spec.DataSource.HTTP.Checksum.SHA256)
	require.Equal(t, "fast", *from.Spec.PersistentVolumeClaim.StorageClassName)
	require.Nil(t, disk("web-disk5").Spec.DataSource)
	vm := p.resource("web")
	require.Equal(t, "[{VirtualDisk web-system <nil>} {VirtualDisk web-disk3 <nil>} {VirtualDisk data <nil>} {VirtualDisk web-disk5 <nil>}]",
		fmt.Sprint(vm.Spec.BlockDeviceRefs))
	require.Len(t, vm.Spec.VM.Disks, 1)
	require.Equal(t, []string{"Create: alice has requested: create"}, p.events("web"))
	wait.Until(t, func() bool {
		_, disks := offered()
		return len(disks) == 0
	}, "a VM names them all")
}

// Errors in the disks of a new VM are reported together with errors in the VM, at the disk.
func TestFaultsOfDisks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx := t.Context()
	p.Apply(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: data}, spec: {persistentVolumeClaim: {size: 1Gi}}}`)
	_, err := p.Draft(ctx, &fleet.Draft{Name: "web", Disks: []fleet.Disk{{From: fleet.FromURL, Checksum: "no"}}})
	require.ErrorContains(t, err, "VirtualDisk web-system.spec.dataSource.http.checksum: ")
	const vm = "apiVersion: vmoperator.jdrupes.org/v1\nkind: VirtualMachine\nmetadata: {name: web}\nspec:\n  vm:\n    maximumCpus: 2\n"
	disk := func(name, spec string) string {
		return "apiVersion: vmoperator.jdrupes.org/v1\nkind: VirtualDisk\nmetadata: {name: " + name + "}\nspec: " +
			spec + "\n---\n"
	}
	const size = "persistentVolumeClaim: {size: 1Gi}"
	secret := disk("a", "{"+size+", dataSource: {type: HTTP, http: {url: 'https://x/y', secretRef: {name: s}}}}")
	small := disk("a", "{persistentVolumeClaim: {size: 1}}")
	const named = "line 3: VirtualDisk "
	for text, want := range map[string]string{
		small + vm + "    currentCpus: 3\n": "line 4: VirtualDisk a.spec.persistentVolumeClaim.size: must be a size such as " +
			"10Gi or 512Mi, at least 1Mi; a number without a unit counts bytes\nline 12: spec.vm.currentCpus: ",
		disk("a", "{"+size+", image: 1}") + vm: "line 4: VirtualDisk a.spec.image: there is no such field",
		disk("data", "{"+size+"}") + vm:        named + "data.metadata.name: a VirtualDisk with this name",
		disk("''", "{"+size+"}") + vm:          named + ".metadata.name: must not be empty",
		secret + vm: "line 4: VirtualDisk a.spec.dataSource.http.secretRef: a disk that is created here can't use a " +
			"Secret",
		"---\n" + vm + "---\n" + vm: "line 10: kind: there is another VM above",
		disk("a, namespace: other", "{}") + vm: named +
			"a.metadata.namespace: must be " + p.Name,
		strings.Replace(disk("a", "{}"), "VirtualDisk", "Pod", 1) + vm: "line 2: kind: must be VirtualMachine",
	} {
		check, err := p.Check(ctx, "web", &fleet.Definition{Text: text})
		require.NoError(t, err, text)
		require.True(t, strings.HasPrefix(check.Faults.Error(), want), "%s\n%s\nis not\n%s", text, check.Faults, want)
		require.NotContains(t, check.Faults.Error(), "did you mean", "a field of a VM")
	}
	_, err = p.Check(ctx, "web", &fleet.Definition{Text: disk("a", "{persistentVolumeClaim: {size: 1Gi}}")})
	require.Equal(t, "the definition has no VirtualMachine", refused(t, err))
	_, err = p.Check(ctx, "web", &fleet.Definition{Text: strings.Repeat(disk("a", "{}"), mostDisks+1) + vm})
	require.Contains(t, refused(t, err), "create at most 16")

	// The quota allows one more disk, and the VM requests two. Each alone can be created, but not both. The test writes
	// the status that the quota controller would write.
	const disks = "count/virtualdisks.vmoperator.jdrupes.org"
	hard := corev1.ResourceList{disks: resource.MustParse("2")}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Name, Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	}
	require.NoError(t, p.admin.Create(ctx, quota))
	status := corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{disks: resource.MustParse("1")}}
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the API server also updates the count
		if err := p.admin.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		quota.Status = status
		return p.admin.Status().Update(ctx, quota)
	}))
	two := disk("a", "{persistentVolumeClaim: {size: 1Gi}}") + disk("b", "{persistentVolumeClaim: {size: 1Gi}}") + vm
	wait.For(t, "the quota to be known", func() error {
		check, err := p.Check(ctx, "web", &fleet.Definition{Text: two})
		if err == nil && len(check.Faults) > 0 {
			err = check.Faults
		}
		return err
	})
	require.ErrorContains(t, p.Create(ctx, "alice", "web", two, ""), "exceeded quota")
	var left v1.VirtualDiskList
	require.NoError(t, p.admin.List(ctx, &left, client.InNamespace(p.Name)))
	require.Len(t, left.Items, 1, "the first was removed again")
	err = p.admin.Get(ctx, client.ObjectKey{Namespace: p.Name, Name: "web"}, &v1.VirtualMachine{})
	require.True(t, apierrors.IsNotFound(err))
}
