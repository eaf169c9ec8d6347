package runner_test

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/vmstatus"
)

// stockGuest is a guest on a machine of a stock type, with the expected results.
type stockGuest struct {
	vmType      string
	image       func(testing.TB) guest.Image
	commandLine string
	firmware    string   // BIOS by default
	section     []string // additional lines of the vm section
	reports     []string // patterns of the guest's reports about its machine
	fixedCPUs   bool     // CPUs can't be plugged
	noBalloon   bool
	fixedDisks  bool // the guest does not see that a disk has grown
}

// Each guest finds its devices, sees the live changes that the rules allow, and powers off on request.
func TestStockTypesRun(t *testing.T) {
	t.Parallel()
	const nothing = `tpm none`
	guests := []stockGuest{
		{
			vmType: "cloud", image: guest.Tiny,
			reports: []string{
				`block sd[ab] bytes=8388608 ro=0 serial=disk`, `block sd[ab] bytes=\d+ ro=1 serial=cloud-init`,
				`block sr0 bytes=65536 ro=1`,
				`nocloud device=/dev/sd[ab] files=.*user-data`, `net eth0 mac=\S+ carrier=1`,
				`port name=org.qemu.guest_agent.0`, nothing,
			},
		},
		{
			vmType: "cloud", image: guest.Tiny, firmware: "uefi-4m",
			reports: []string{`block sd[ab] bytes=8388608 ro=0 serial=disk`, `firmware efi=1 secureboot=0`},
		},
		{
			vmType: "microvm", image: guest.Tiny, commandLine: "tsc_early_khz=" + frequency(t), fixedCPUs: true,
			reports: []string{
				`block vda bytes=8388608 ro=0 serial=disk\b`, `block vdb bytes=\d+ ro=1`, `block sr0 bytes=65536 ro=1`,
				`nocloud device=/dev/vdb files=.*user-data`, `net eth0 mac=\S+ carrier=1`,
				`port name=org.qemu.guest_agent.0`, nothing,
			},
		},
		{
			vmType: "microvm", image: guest.Tiny, commandLine: "tsc_early_khz=" + frequency(t), fixedCPUs: true,
			section: []string{"options: {pcie: true}"},
			reports: []string{
				`block vda bytes=8388608 ro=0 serial=disk\b`, `block vdb bytes=\d+ ro=1`, `block sr0 bytes=65536 ro=1`,
				`nocloud device=/dev/vdb files=.*user-data`, `net eth0 mac=\S+ carrier=1`,
				`port name=org.qemu.guest_agent.0`, nothing,
			},
		},
		{
			vmType: "pc", image: guest.PC, noBalloon: true, fixedDisks: true,
			reports: []string{
				`block sd[ab] bytes=8388608 ro=0 serial=disk`, `block sd[ab] bytes=\d+ ro=0 serial=cloud-init`,
				`block sr0 bytes=65536 ro=1`,
				`nocloud device=/dev/sd[ab] files=.*user-data`, `net eth0 mac=\S+ carrier=1`, nothing,
			},
		},
		{
			vmType: "pc", image: guest.Tiny,
			section: []string{"options: {diskBus: virtio, networkCard: virtio-net-pci, virtio: true}"},
			reports: []string{
				`block vda bytes=8388608 ro=0 serial=disk\b`, `block vdb bytes=\d+ ro=1`, `block sr0 bytes=65536 ro=1`,
				`nocloud device=/dev/vdb files=.*user-data`, `net eth0 mac=\S+ carrier=1`,
				`port name=org.qemu.guest_agent.0`, nothing,
			},
		},
	}
	for _, g := range guests {
		t.Run(strings.Join(append([]string{g.vmType, g.firmware}, g.section...), " "), func(t *testing.T) {
			if g.vmType == "pc" || g.firmware != "" || g.section != nil {
				tier.Deep(t)
			}
			t.Parallel()
			g.run(t)
		})
	}
}

func (g stockGuest) run(t *testing.T) {
	defer guest.TakePlace(t)()
	v := newVM(t, g.vmType)
	disk := v.image("disk.img", 8<<20)
	v.write("a.iso", strings.Repeat("a", 64<<10))
	v.write("b.iso", strings.Repeat("b", 64<<10))
	boot := append(boots(g.image(t), g.commandLine), g.section...)
	if g.firmware != "" {
		boot[1] = "firmware: " + g.firmware
	}
	wants := func(cpus int, ram, medium string) {
		v.configure(g.vmType, []string{"cloudInit: {}"}, append(slices.Clone(boot),
			"maximumCpus: 4", "currentCpus: "+strconv.Itoa(cpus), "currentRam: "+ram, "network: [{type: user}]",
			"drives: [{file: disk.img}, {type: ide-cd, file: "+medium+"}]", "powerdownTimeout: 240")...)
	}
	wants(2, "256 MiB", "a.iso")
	c := attach(v)
	v.runs()
	c.Await(`READY`)
	for _, pattern := range append(g.reports, `cpus count=2 `) {
		require.Regexp(t, `TINY \S+ `+pattern, c.Text())
	}
	require.NotContains(t, c.Text(), "error=")
	if g.vmType == "cloud" {
		require.Regexp(t, `SeaBIOS|\x1b\[01;01H`, c.Text(), "firmware uses the console")
	}

	ram := "256 MiB"
	if !g.noBalloon {
		ram = "192 MiB"
	}
	wants(3, ram, "b.iso")
	if g.fixedCPUs {
		r := v.log.await(t, v.ended, "changes need a restart of the VM")
		require.Equal(t, []any{"vm.currentCpus"}, r["paths"])
	} else {
		c.Type("sh until [ $(nproc) = 3 ]; do usleep 100000; done; echo three")
		c.Await(`^three$`)
	}
	if !g.noBalloon {
		c.Type("sh until [ $(awk '/MemTotal/ { print $2 }' /proc/meminfo) -lt 196608 ]; do usleep 100000; done; echo less")
		c.Await(`^less$`)
	}
	c.Type(`sh until [ "$(head -c 4 /dev/sr0)" = bbbb ]; do usleep 100000; done 2>/dev/null; echo another`)
	c.Await(`^another$`)
	c.Type("sh for d in /sys/block/[sv]d?; do [ $(cat $d/size) = 16384 ] && echo written >/dev/${d##*/}; done; sync; echo synced")
	c.Await(`^synced$`)
	if !g.fixedDisks {
		require.NoError(t, os.Truncate(disk, 12<<20))
		v.touch()
		c.Type("sh until grep -qx 24576 /sys/block/[sv]d?/size; do usleep 100000; done; echo grown")
		c.Await(`grown$`)
	}
	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, machine.Outcome{Cause: vmstatus.CauseAsked, Reason: "guest-shutdown"}, outcome.Outcome)
	content, err := os.ReadFile(disk)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(content, []byte("written\n")))
	v.nothingLeft()
}

// frequency returns this machine's CPU frequency in kHz, for a guest that can't measure it.
func frequency(t *testing.T) string {
	t.Helper()
	info, err := os.ReadFile("/proc/cpuinfo")
	require.NoError(t, err)
	if found := regexp.MustCompile(`(?m)^cpu MHz\s*: (\d+)\.(\d{3})$`).FindSubmatch(info); found != nil {
		return string(found[1]) + string(found[2])
	}
	return "2000000"
}
