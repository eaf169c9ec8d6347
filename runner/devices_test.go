package runner_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/hardware"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/vmstatus"
)

// deviceNamed returns the only device of the machine with a name in the guest, with its PCI address, and whether the
// agent has answered.
func (v *vm) deviceNamed(word string) (hardware.Device, bool) {
	v.t.Helper()
	report, err := v.client().Devices(v.t.Context())
	require.NoError(v.t, err)
	found, err := report.Find(word)
	require.NoError(v.t, err)
	require.Len(v.t, found, 1, word)
	return found[0], report.Agent
}

// slotOf returns the PCI address at which the guest finds a device, by its folder in /sys/class.
func (c *console) slotOf(folder string) string {
	c.t.Helper()
	c.Type("sh echo SLOT $(readlink -f /sys/class/" + folder + "/device | grep -o '0000:..:...[0-7]' | tail -n 1)")
	return c.Await(`^SLOT (\S+)`)[1]
}

// Names of disks and network cards in the guest lead to QEMU's devices and to the fields of the configuration, even
// without an agent, and for a disk that was attached while the guest was running. The guest's own addresses prove it.
func TestNamesInTheGuest(t *testing.T) {
	t.Parallel()
	defer guest.TakePlace(t)()
	section := append(boots(guest.Tiny(t).With(t, "/usr/sbin/qemu-ga"), ""),
		"network: [{type: user}, {type: user, mac: '52:54:00:00:00:02'}]")
	v := newVM(t, "standard")
	drives := []string{"{file: " + v.path("a.img") + "}", "{file: " + v.path("b.img") + ", serial: second}"}
	with := func(drives ...string) []string {
		return append(section, "drives: ["+strings.Join(drives, ", ")+"]")
	}
	for _, name := range []string{"a.img", "b.img", "c.img"} {
		require.NoError(t, os.WriteFile(v.path(name), make([]byte, 4<<20), 0o600))
	}
	v.configure("standard", nil, with(drives...)...)
	c := attach(v)
	v.runs()
	c.Await(`READY`)

	for name, want := range map[string][2]string{
		"block/vda": {"disk0", "vm.drives[0]"}, "block/vdb": {"disk1", "vm.drives[1]"},
		"net/eth0": {"nic0", "vm.network[0]"}, "net/eth1": {"nic1", "vm.network[1]"},
	} {
		slot := c.slotOf(name)
		for _, word := range []string{name[strings.Index(name, "/")+1:], slot, strings.TrimPrefix(slot, "0000:")} {
			d, answers := v.deviceNamed(word)
			require.False(t, answers, "no agent is running")
			require.Equal(t, want, [2]string{d.ID, d.Field}, "%s at %s", word, slot)
			require.Equal(t, slot, d.PCI)
			require.Regexp(t, `^config\.yaml:\d+$`, d.Place)
			require.Contains(t, d.Lines[0].Origin, "@vmtypes//")
		}
	}

	c.Do("mkdir -p /m /var/run; mke2fs /dev/vdb >/dev/null; mount -t ext4 /dev/vdb /m")
	c.Do("/usr/sbin/qemu-ga -d -m virtio-serial -t /tmp -f /tmp/ga.pid -p " + portOf("guest_agent"))
	v.becomes("booted", func(s status.Status) bool {
		return s.State == vmstatus.StateBooted && s.Guest != nil && len(s.Guest.Interfaces) > 1
	})
	for word, want := range map[string]string{"/dev/vda": "disk0", "vdb": "disk1", "/m": "disk1", "eth1": "nic1"} {
		d, answers := v.deviceNamed(word)
		require.True(t, answers)
		require.Equal(t, want, d.ID, word)
	}

	v.configure("standard", nil, with(append(drives, "{file: "+v.path("c.img")+", serial: late}")...)...)
	v.has(1, status.DriveAttached)
	c.Do("until [ -b /dev/vdc ]; do usleep 10000; done")
	slot := c.slotOf("block/vdc")
	for _, word := range []string{"/dev/vdc", "late", slot} {
		d, _ := v.deviceNamed(word)
		require.Equal(t, "vm.drives[2]", d.Field, word)
		require.True(t, d.Attached)
		require.Equal(t, slot, d.PCI)
		require.Contains(t, d.Lines[0].Text, "rule disks ")
	}
	last := len(section) - 1
	section[last] = strings.Replace(section[last], "]", ", {type: user, mac: '52:54:00:00:00:03'}]", 1)
	v.configure("standard", nil, with(append(drives, "{file: "+v.path("c.img")+", serial: late}")...)...)
	v.becomes("plugged", nicState("52:54:00:00:00:03", status.NICPlugged, ""))
	c.Do("until [ -e /sys/class/net/eth2 ]; do usleep 10000; done")
	for _, word := range []string{"eth2", "52:54:00:00:00:03", c.slotOf("net/eth2")} {
		d, _ := v.deviceNamed(word)
		require.Equal(t, "vm.network[2]", d.Field, word)
		require.Equal(t, "virtio-net-pci", d.Driver)
		require.True(t, d.Attached)
		require.Contains(t, d.Lines[0].Text, "rule nics ")
	}
	c.Do("kill $(cat /tmp/ga.pid)")
	v.becomes("the agent has gone", func(s status.Status) bool { return s.Guest == nil })
	d, answers := v.deviceNamed("/dev/vdc")
	require.False(t, answers)
	require.Equal(t, slot, d.PCI, "Linux names an attached disk after the others")
	v.ends()
}
