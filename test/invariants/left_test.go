package invariants

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vmop/runner/adopt/lock"
)

const uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

// All leftovers are found, and only leftovers.
func TestWhatIsLeftIsFound(t *testing.T) {
	t.Parallel()
	namespace, err := ns.TempNetNS()
	require.NoError(t, err, "make a network namespace (this test needs root)")
	t.Cleanup(func() { namespace.Close() })
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	require.NoError(t, namespace.Set())
	dir, err := os.MkdirTemp("", "left")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "uuid.txt"), []byte(uuid+"\n"), 0o600))
	require.Empty(t, leftovers(t, dir))

	for want, leave := range map[string]func() (remove func() error){
		"descriptor of " + data + "/uuid.txt": func() func() error {
			file, err := os.Open(filepath.Join(data, "uuid.txt"))
			require.NoError(t, err)
			return file.Close
		},
		"net/unix: ": func() func() error {
			listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
			require.NoError(t, err)
			return listener.Close
		},
		"mountinfo: ": func() func() error {
			require.NoError(t, unix.Mount(data, data, "", unix.MS_BIND, ""))
			return func() error { return unix.Unmount(data, 0) }
		},
		"the lock of the machine": func() func() error {
			machine, err := lock.Machine(data)
			require.NoError(t, err)
			held, err := machine.Try()
			require.NoError(t, err)
			require.True(t, held)
			return machine.Release
		},
		"tap mine": func() func() error {
			link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "mine"}}
			require.NoError(t, netlink.LinkAdd(link))
			require.NoError(t, netlink.LinkSetAlias(link, "vmop:"+uuid))
			return func() error { return netlink.LinkDel(link) }
		},
		"rules of tap gone": func() func() error {
			conn := new(nftables.Conn)
			table := conn.AddTable(&nftables.Table{Name: "vmop-gone", Family: nftables.TableFamilyINet})
			require.NoError(t, conn.Flush())
			return func() error {
				conn.DelTable(table)
				return conn.Flush()
			}
		},
	} {
		remove := leave()
		require.Contains(t, strings.Join(leftovers(t, dir), "\n"), want)
		require.NoError(t, remove())
		require.Empty(t, leftovers(t, dir), want)
	}
}
