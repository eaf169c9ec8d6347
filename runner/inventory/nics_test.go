package inventory

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/test/wait"
	"vmop/vmspec"
)

func nicRequest(limit time.Duration) NICRequest {
	return NICRequest{VM: "web", Limit: limit, Tell: func(string, string) {}}
}

// attachNIC attaches a network card to the VM web.
func (h *here) attachNIC(n vmspec.Network) NICChange {
	h.t.Helper()
	c, err := h.AttachNIC(h.t.Context(), nicRequest(wait.Longest), n)
	require.NoError(h.t, err)
	return c
}

func (h *here) detachNIC(word string) NICChange {
	h.t.Helper()
	c, err := h.DetachNIC(h.t.Context(), nicRequest(wait.Longest), word)
	require.NoError(h.t, err)
	return c
}

// cards returns the network cards of the VM web.
func (h *here) cards() []NIC {
	h.t.Helper()
	list, err := h.NICs(h.t.Context(), "web")
	require.NoError(h.t, err)
	return list
}

// A running guest receives a network card with its own address. Its link goes down and up again, and the guest releases
// the card. The configuration then equals the original, including comments.
func TestANetworkCardComesAndGoesWhileTheGuestRuns(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	plain := string(text("web", strings.TrimSuffix(boots(t), "drives:\n")))
	before := "# of the office\n" + strings.Replace(plain, "network: []",
		"network: # the first is eth0\n    - {type: user}", 1)
	h.write("user/vmrunner/web.yaml", []byte(before))
	require.NoError(t, h.Start(t.Context(), "web"))
	c := h.console("web")

	got := h.attachNIC(vmspec.Network{Type: vmspec.NetworkUser, Net: "10.3.0.0/24"})
	require.True(t, got.Running)
	require.Empty(t, got.Later)
	mac := vmspec.MAC(h.uuid("web"), 1)
	require.Equal(t, mac, got.NIC.MAC)
	require.Equal(t, strings.Replace(before, "{type: user}\n",
		"{type: user}\n    - type: user\n      mac: "+mac+"\n      net: 10.3.0.0/24\n", 1), h.configured())
	c.Do("until n=$(grep -l " + mac + " /sys/class/net/*/address | cut -d/ -f5) && [ -n \"$n\" ]; " +
		"do usleep 100000; done; ip link set $n up")
	list := h.cards()
	require.Len(t, list, 2)
	require.Equal(t, []string{"", ""}, []string{list[0].Pending, list[1].Pending})
	require.Equal(t, 1, list[1].Place)
	require.NotEmpty(t, list[1].PCI)
	require.Equal(t, "eth1", list[1].Names[0])

	name := list[1].Names[0]
	for _, link := range []vmspec.LinkState{vmspec.LinkDown, vmspec.LinkUp} {
		set, err := h.SetLink(t.Context(), nicRequest(wait.Longest), name, link)
		require.NoError(t, err)
		require.Empty(t, set.Later)
		require.Equal(t, link, h.cards()[1].Link)
		c.Do("until grep -q " + map[vmspec.LinkState]string{vmspec.LinkDown: "0", vmspec.LinkUp: "1"}[link] +
			" /sys/class/net/" + name + "/carrier; do usleep 100000; done")
	}

	later := h.attachNIC(vmspec.Network{Type: vmspec.NetworkPasst})
	require.Contains(t, later.Later, "type passt")
	require.Equal(t, "added at the next start", h.cards()[2].Pending)
	require.Empty(t, h.detachNIC("network[2]").Later)

	gone := h.detachNIC(name)
	require.Empty(t, gone.Later)
	require.Equal(t, mac, gone.NIC.MAC)
	require.Equal(t, before, h.configured())
	require.Nil(t, nicStatus(h.find("web").Status, mac))
	c.Do("while grep -q " + mac + " /sys/class/net/*/address; do usleep 100000; done")

	first := h.detachNIC(h.cards()[0].MAC)
	require.Equal(t, "the VM was started with the card, and has it until it is restarted", first.Later)
	require.Contains(t, h.configured(), "network: []")
	require.Equal(t, "removed at the next start", h.cards()[0].Pending)
	h.stopped("web")
}

// uuid returns the uuid of a VM that has been started.
func (h *here) uuid(name string) string {
	h.t.Helper()
	prepared, err := h.preparedNow(h.t.Context(), h.find(name))
	require.NoError(h.t, err)
	return prepared.Spec.UUID
}

// A card that the runner can't plug in leaves the configuration unchanged. A card that the guest keeps stays until the
// VM ends, but is removed from the configuration.
func TestANetworkCardThatFailsOrStays(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	before := h.rewrite(strings.Replace(h.bare(), "network: []", "network: [{type: user}]", 1))
	require.NoError(t, h.Start(t.Context(), "web"))
	_, err := h.AttachNIC(t.Context(), nicRequest(wait.Longest), vmspec.Network{Type: vmspec.NetworkTap, Bridge: "lo"})
	require.ErrorContains(t, err, "attach a network card to web: ")
	require.ErrorContains(t, err, "the configuration is as it was")
	require.Equal(t, before, h.configured())

	got := h.attachNIC(vmspec.Network{Type: vmspec.NetworkUser})
	dry := nicRequest(wait.Longest)
	dry.DryRun = true
	same := h.configured()
	would, err := h.DetachNIC(t.Context(), dry, got.NIC.MAC)
	require.NoError(t, err)
	require.Equal(t, before, string(would.Text))
	require.Equal(t, same, h.configured())
	for range 2 { // the second attempt waits for the first
		_, err = h.DetachNIC(t.Context(), nicRequest(time.Second), got.NIC.MAC)
		require.ErrorContains(t, err, "the guest still has it after 1s: ")
	}
	require.Equal(t, before, h.configured())
	require.Equal(t, status.NICUnplugging, nicStatus(h.find("web").Status, got.NIC.MAC).State)
	require.Contains(t, h.cards()[1].Pending, "unplugging")
	require.NoError(t, h.End(t.Context(), "web", true))
}

// rewrite replaces the configuration of the VM web.
func (h *here) rewrite(text string) string {
	h.t.Helper()
	h.write("user/vmrunner/web.yaml", []byte(text))
	return text
}

// The configuration of a stopped VM is checked, then changed. The other networks keep their addresses, and a default
// network stays.
func TestNetworkCardsOfAStoppedVM(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	before := h.rewrite(strings.Replace(h.bare(), "network: []", "network:\n    - {type: user}\n    # of the office\n"+
		"    - {type: user, net: 10.3.0.0/24}\n    - type: user # last\n      net: 10.4.0.0/24", 1))
	require.Empty(t, h.cards()[1].MAC, "the VM has no uuid yet")
	const uuid = "1a36b9c7-5b1d-4b0a-8f0e-6a4b8c1e2d3f"
	h.rewrite(strings.Replace(before, "name: web\n", "name: web\n    uuid: "+uuid+"\n", 1))
	gone := h.detachNIC("vm.network[0]")
	require.False(t, gone.Running)
	require.Contains(t, h.configured(), "# of the office")
	list := h.cards()
	require.Equal(t, []string{vmspec.MAC(uuid, 1), vmspec.MAC(uuid, 2)}, []string{list[0].MAC, list[1].MAC})
	added := h.attachNIC(vmspec.Network{Type: vmspec.NetworkUser, Net: "10.5.0.0/24"})
	require.Equal(t, vmspec.MAC(uuid, 3), added.NIC.MAC, "that of the third is taken")

	_, err := h.DetachNIC(t.Context(), nicRequest(wait.Longest), "netwrk[1]")
	require.EqualError(t, err, "web has no network card netwrk[1] (did you mean network[1]?)")
	now := h.configured()
	wrong := vmspec.Network{Type: vmspec.NetworkTap, Net: "10.6.0.0/24"}
	_, err = h.AttachNIC(t.Context(), nicRequest(wait.Longest), wrong)
	require.ErrorContains(t, err, "vm.network[3].net: ")
	require.Equal(t, now, h.configured())
	set, err := h.SetLink(t.Context(), nicRequest(wait.Longest), "network[0]", vmspec.LinkDown)
	require.NoError(t, err)
	require.Equal(t, vmspec.LinkDown, set.NIC.Link)
	require.Equal(t, vmspec.LinkDown, h.cards()[0].Link)
	set, err = h.SetLink(t.Context(), nicRequest(wait.Longest), "network[0]", vmspec.LinkDown)
	require.NoError(t, err)
	require.True(t, set.Unchanged)

	h.rewrite(strings.Replace(h.bare(), "    network: []\n", "", 1))
	only := h.cards()
	require.Len(t, only, 1)
	h.attachNIC(vmspec.Network{Type: vmspec.NetworkUser, Net: "10.3.0.0/24"})
	require.Len(t, h.cards(), 2)
	require.Equal(t, only[0].Network, h.cards()[0].Network)
}
