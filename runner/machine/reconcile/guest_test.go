package reconcile_test

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/vmtypes/plan"
)

// console is the serial console of the tiny guest, which answers commands.
type console struct{ *guest.Console }

func (l *live) console() *console {
	l.t.Helper()
	require.NotEmpty(l.t, l.ask("query-status", nil)) // QEMU is up and listening
	conn, err := net.Dial("unix", filepath.Join(l.qemu.Dir, "c"))
	require.NoError(l.t, err)
	l.t.Cleanup(func() { conn.Close() })
	return &console{guest.Listen(l.t, conn)}
}

// tells runs a command in the guest and returns the last match from its output.
func (c *console) tells(command, pattern string) string {
	c.Type("sh " + command)
	found := c.Await(pattern)
	return found[len(found)-1]
}

// linux returns the options for QEMU to boot a guest with the console l.console.
func linux(image guest.Image) []string {
	return []string{
		"-m", "256M", "-kernel", image.Kernel, "-initrd", image.Initrd, "-append", guest.CommandLine,
		"-chardev", "socket,id=c,path=DIR/c,server=on,wait=off", "-serial", "chardev:c",
	}
}

// runs runs a guest of linux and returns its console.
func (l *live) runs() *console {
	l.t.Helper()
	c := l.console()
	l.ask("cont", nil)
	c.Await(`TINY \S+ READY`)
	return c
}

// A real guest releases CPUs. Every QEMU can unplug CPUs, but not all versions survive the following steps.
// TestStockTypesRun tests other operations that involve a guest.
func TestARealGuestGivesUpCPUs(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	image := guest.Tiny(t)
	guest.TakePlace(t)
	l := startQEMU(t, reconcile.Start{}, plan.Rules{fourCPUs()}, append(linux(image), "-smp", "1,maxcpus=4")...)
	l.want.CPUs = 4
	l.settles("paused")
	c := l.runs()
	l.pretend = map[string]string{"query-kvm": kvm}
	l.want.CPUs = 2
	l.until("two CPUs", func(f reconcile.Facts) bool { return f.CPUs == 2 && len(f.Problems) == 0 })
	c.Await(`hotplug cpu remove cpu\d online=0-1`)
}
