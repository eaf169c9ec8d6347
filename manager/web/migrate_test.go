package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// moves returns a VM with a movable guest. A number is the progress of its migration.
func moves(progress ...int) *fleet.VM {
	vm := sample("web", fleet.Running)
	vm.Can[fleet.Migrate] = len(progress) == 0
	for _, p := range progress {
		vm.Migration = &fleet.Migration{From: "node-1", To: "node-2", Progress: p, Message: "the guest is being moved"}
	}
	return vm
}

// A guest that can't move has a disabled button with the reason. A moving guest shows its progress.
func TestWhyAGuestDoesNotMove(t *testing.T) {
	t.Parallel()
	fixed := sample("fixed", fleet.Running)
	fixed.Refused = map[fleet.Action]string{fleet.Migrate: "the disk <b>data</b> is on one node"}
	p := newPlay(t, fixed, moves(45), sample("off", fleet.Stopped))
	_, text := p.call("GET", "/vms/fixed", "")
	require.Regexp(t, `id="migrate-fixed"[^>]* disabled[^>]*the disk &lt;b&gt;data&lt;/b&gt; is on one node`, text)
	_, text = p.call("GET", "/vms/web", "")
	require.Contains(t, text, "Migrating from node node-1 to node-2, 45 % complete: the guest is being moved")
	require.Contains(t, text, "Migrating")
	require.NotContains(t, text, "migrate-web")
	_, text = p.call("GET", "/vms/off", "")
	require.NotContains(t, text, "migrate-off")
	_, text = p.call("GET", "/api/v1/vms/web", "")
	require.Contains(t, text, `"migration":{"from":"node-1","to":"node-2","progress":45,`)

	p.Put(moves())
	_, text = p.call("GET", "/vms/web", "")
	require.Contains(t, text, `id="migrate-web"`)
	require.NotRegexp(t, `id="migrate-web"[^>]* disabled`, text)
	p.call("POST", "/vms/web/do", "do=migrate&sure=yes")
	require.Equal(t, []string{"admin migrate web"}, p.done)
}
