package reconcile_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/reconcile"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmtypes/plan"
)

// console is the serial console of the tiny guest, which answers commands.
type console struct {
	t     *testing.T
	conn  net.Conn
	lines chan string
}

func (l *live) console() *console {
	l.t.Helper()
	require.NotEmpty(l.t, l.ask("query-status", nil)) // QEMU is up, and listens
	conn, err := net.Dial("unix", filepath.Join(l.dir, "c"))
	require.NoError(l.t, err)
	l.t.Cleanup(func() { conn.Close() })
	c := &console{l.t, conn, make(chan string, 4096)}
	go func() {
		defer close(c.lines)
		for scan := bufio.NewScanner(conn); scan.Scan(); {
			c.lines <- strings.TrimRight(scan.Text(), "\r")
		}
	}()
	return c
}

// await returns what the next line that matches says.
func (c *console) await(pattern string) string {
	c.t.Helper()
	expected, late := regexp.MustCompile(pattern), wait.Over(c.t)
	var before []string
	for {
		select {
		case text, open := <-c.lines:
			require.True(c.t, open, "the console ended before %q, with:\n%s", pattern, strings.Join(before, "\n"))
			if m := expected.FindStringSubmatch(text); m != nil {
				return m[len(m)-1]
			}
			before = append(before, text)
		case <-late:
			require.FailNow(c.t, "not said in time", "%q, only:\n%s", pattern, strings.Join(before, "\n"))
		}
	}
}

// tells runs a command in the guest, which has to say a line that matches.
func (c *console) tells(command, pattern string) string {
	c.t.Helper()
	_, err := io.WriteString(c.conn, "sh "+command+"\n")
	require.NoError(c.t, err)
	return c.await(pattern)
}

// cd makes an image that begins with a text.
func (l *live) cd(text string) string {
	l.t.Helper()
	path := l.file(text+".iso", 1<<20)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(l.t, err)
	defer f.Close()
	_, err = f.WriteString(text)
	require.NoError(l.t, err)
	return path
}

// A real guest takes part in everything that it has to take part in.
func TestARealGuestFollows(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	image := guest.Tiny(t)
	guest.TakePlace(t)
	disk := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(disk, make([]byte, 1<<20), 0o600))
	l := startQEMU(t, reconcile.Start{Media: map[int]string{1: ""}},
		plan.Rules{fourCPUs(), balloon(), plan.Disk{Drive: 0, Device: "disk0"}, plan.Medium{Drive: 1, Device: "cd0"}},
		"-m", "256M,maxmem=1G", "-smp", "1,maxcpus=4", "-device", "virtio-balloon-pci,id=balloon0",
		"-blockdev", "file,node-name=disk0-file,filename="+disk, "-blockdev",
		"raw,node-name=disk0-format,file=disk0-file",
		"-device", "virtio-blk-pci,id=disk0,drive=disk0-format", "-device", "virtio-scsi-pci,id=scsi0", "-device",
		"scsi-cd,id=cd0,bus=scsi0.0",
		"-object", "memory-backend-ram,id=mem0-ram,size=512M", "-device",
		"virtio-mem-pci,id=mem0,memdev=mem0-ram,block-size=2M",
		"-kernel", image.Kernel, "-initrd", image.Initrd, "-append", guest.CommandLine,
		"-chardev", "socket,id=c,path=DIR/c,server=on,wait=off", "-serial", "chardev:c")
	first, second := l.cd("first"), l.cd("second")
	l.want = reconcile.Desired{
		CPUs: 2, RAM: 256 * mib, Media: map[int]string{1: first}, Sizes: map[int]int64{0: 1 << 20},
		ResetCounter: counter(1),
	}
	l.settles("paused")
	c := l.console()
	l.ask("cont", nil)
	c.await(`TINY \S+ cpus count=2`)
	c.await(`TINY \S+ READY`)

	l.want.CPUs = 4
	l.settles("four CPUs")
	c.await(`hotplug cpu add cpu\d online=0-3`)

	l.want.RAM = 200 * mib
	l.until("the guest gives memory back", func(f reconcile.Facts) bool { return f.RAM == 200*mib })
	l.want.RAM = 256 * mib
	l.until("the guest gets memory back", func(f reconcile.Facts) bool { return f.RAM == 256*mib })

	require.NoError(t, os.Truncate(disk, 3<<20))
	l.want.Sizes = map[int]int64{0: 3 << 20}
	l.settles("a larger disk")
	c.tells("while [ $(cat /sys/block/vda/size) = 2048 ]; do sleep 0.1; done; echo size $(cat /sys/block/vda/size)", "size 6144")

	c.tells("head -c 5 /dev/sr0", "first")
	pid := c.tells("sleep 1000 </dev/sr0 >/dev/null 2>&1 & echo pid=$!", `pid=(\d+)`)
	c.tells("usleep 300000; echo opened", "^opened") // its shell has to open the drive
	l.want.Media = map[int]string{1: second}
	require.True(t, l.complains("waiting for the guest to open the tray").Media[1].Locked)
	c.tells("kill "+pid, "rc=0")
	require.Equal(t, map[int]reconcile.Medium{1: {File: second}}, l.settles("another medium").Media)
	c.tells("head -c 6 /dev/sr0", "second")

	pid = c.tells("sleep 1000 </dev/sr0 >/dev/null 2>&1 & echo pid=$!", `pid=(\d+)`)
	c.tells("usleep 300000; echo opened", "^opened")
	l.want.Media = map[int]string{1: ""}
	l.complains("waiting for the guest to open the tray")
	c.tells("kill "+pid, "rc=0")
	require.Equal(t, map[int]reconcile.Medium{1: {}}, l.settles("no medium").Media)

	l.want.ResetCounter = counter(2)
	l.settles("a reset")
	c.await(`TINY \S+ cpus count=4`)
	c.await(`TINY \S+ READY`)

	follower := l.machine
	l.machine = reconcile.New(plan.Rules{pluggable()}, reconcile.Start{Running: true})
	for _, ram := range []int64{512 * mib, 256 * mib} {
		l.want.RAM = ram
		l.until("memory is plugged", func(f reconcile.Facts) bool { return f.RAM == ram && len(f.Problems) == 0 })
	}
	l.machine = follower

	// Every QEMU can unplug CPUs, but not all survive what comes later.
	l.pretend = map[string]string{"query-kvm": kvm}
	l.want.CPUs = 2
	l.until("two CPUs again", func(f reconcile.Facts) bool { return f.CPUs == 2 && len(f.Problems) == 0 })
	c.await(`hotplug cpu remove cpu\d online=0-1`)
}
