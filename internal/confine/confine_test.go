package confine

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// under calls before, applies the rules and calls f, all in a thread that then ends.
func under(t *testing.T, r *Rules, before, f func()) (held Held) {
	t.Helper()
	require.NotZero(t, ABI(), "this kernel has no Landlock: nothing here can be proved")
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if before != nil {
			before()
		}
		var err error
		if held, _, err = r.Hold(nil); err == nil {
			f()
		}
		done <- err
	}()
	require.NoError(t, <-done)
	return held
}

// canRead, canWrite and canMake report whether the access works.
func canRead(name string) bool { return canOpen(name, os.O_RDONLY) }

func canWrite(name string) bool { return canOpen(name, os.O_WRONLY) }

func canMake(name string) bool { return canOpen(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY) }

func canOpen(name string, flags int) bool {
	f, err := os.OpenFile(name, flags, 0o600)
	if err == nil {
		err = f.Close()
	}
	return err == nil
}

// tree creates files with their folders and returns a function that maps names into the tree.
func tree(t *testing.T, files ...string) func(string) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o700))
		require.NoError(t, os.WriteFile(at(name), []byte(name), 0o600))
	}
	return at
}

// withoutRights removes the calling thread's rights to mount and trace, like most users' processes.
func withoutRights() {
	if err := keepOnly([]string{"dac_override"}); err != nil {
		panic(err)
	}
}

// users returns the test users: root, and a user without a root folder.
func users() map[string]func() { return map[string]func(){"root": nil, "others": withoutRights} }

func TestPaths(t *testing.T) {
	t.Parallel()
	for user, before := range users() {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			at := tree(t, "r/a", "r/w", "r/in/w", "w/a", "no/a", "one", "sockets/a")
			rules := &Rules{Paths: []Path{
				{Name: at("r"), Access: Read},
				{Name: at("r/w"), Access: Write},
				{Name: at("r/in"), Access: Write},
				{Name: at("w"), Access: Write},
				{Name: at("one"), Access: Read},
				{Name: at("sockets"), Access: Sockets},
				{Name: at("absent"), Access: Write},
				{Name: at("made"), Access: Write, Make: true},
			}}
			got := map[string]bool{}
			held := under(t, rules, before, func() {
				expect := func(list map[string]bool, may bool) {
					for name, is := range list {
						got[fmt.Sprintf("%s: %t", name, may)] = is == may
					}
				}
				expect(map[string]bool{
					"read r/a": canRead(at("r/a")), "read r/in/w": canRead(at("r/in/w")),
					"read one": canRead(at("one")),
					"read w/a": canRead(at("w/a")), "write w/a": canWrite(at("w/a")), "write r/w": canWrite(at("r/w")),
					"write r/in/w": canWrite(at("r/in/w")), "make w/b": canMake(at("w/b")),
					"make r/in/b": canMake(at("r/in/b")), "write made": canWrite(at("made")),
					"remove w/a": os.Remove(at("w/a")) == nil, "make a socket": canListen(at("sockets/s")),
				}, true)
				expect(map[string]bool{
					"write r/a": canWrite(at("r/a")), "make r/b": canMake(at("r/b")), "read no/a": canRead(at("no/a")),
					"write one": canWrite(at("one")), "truncate one": os.Truncate(at("one"), 0) == nil,
					"make another": canMake(at("another")), "make absent": canMake(at("absent")),
					"read sockets/a": canRead(at("sockets/a")), "make sockets/b": canMake(at("sockets/b")),
					"remove r/a": os.Remove(at("r/a")) == nil, "list /": canRead("/"),
					"read /etc/passwd": canRead("/etc/passwd"),
				}, false)
			})
			for what, as := range got {
				require.True(t, as, what)
			}
			require.Equal(t, ABI(), held.Landlock)
			require.Equal(t, before == nil, held.Root)
			require.Equal(t, before == nil, len(held.Lacks) == 0, held.Lacks)
			require.True(t, canRead(at("no/a")), "this process still may")
		})
	}
}

func canListen(name string) bool {
	l, err := net.Listen("unix", name)
	if err == nil {
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		err = l.Close()
	}
	return err == nil
}

// A root folder contains the links in the paths of the rules, including links to links.
func TestLinksLeadWhereTheyDid(t *testing.T) {
	t.Parallel()
	at := tree(t, "real/dir/a", "real/b", "other/c")
	require.NoError(t, os.Symlink("real", at("link")))
	require.NoError(t, os.Symlink(at("link/dir"), at("absolute")))
	require.NoError(t, os.Symlink("../link/../absolute", at("other/back")))
	require.NoError(t, os.Symlink("endless", at("endless")))
	var names []bool
	held := under(t, &Rules{Paths: []Path{
		{Name: at("other/back"), Access: Read},
		{Name: at("link/b"), Access: Write},
		{Name: at("endless"), Access: Read},
	}}, nil, func() {
		names = []bool{
			canRead(at("other/back/a")), canRead(at("absolute/a")), canRead(at("real/dir/a")),
			canWrite(at("real/b")), canWrite(at("link/b")),
			!canRead(at("other/c")), !canWrite(at("absolute/a")), !canRead(at("endless")),
		}
	})
	require.True(t, held.Root)
	require.NotContains(t, names, false)
}

// The root folder prevents chmod and connections to sockets with a path, which Landlock allows.
func TestWhatIsNotInTheRootFolderCannotBeChanged(t *testing.T) {
	t.Parallel()
	at := tree(t, "r/a", "no/a", "w/a")
	l, err := net.Listen("unix", at("no/socket"))
	require.NoError(t, err)
	defer l.Close()
	var refused []error
	under(t, &Rules{Paths: []Path{{Name: at("r"), Access: Read}, {Name: at("w"), Access: Write}}}, nil, func() {
		conn, dial := net.Dial("unix", at("no/socket"))
		if dial == nil {
			conn.Close()
		}
		refused = []error{dial, os.Chmod(at("no/a"), 0o777), os.Chmod(at("r/a"), 0o777), os.Chmod("/", 0o777)}
	})
	require.ErrorIs(t, refused[0], unix.ENOENT)
	require.ErrorIs(t, refused[1], unix.ENOENT)
	require.ErrorIs(t, refused[2], unix.EROFS)
	require.ErrorIs(t, refused[3], unix.EROFS)
}

func TestPorts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	open := uint16(l.Addr().(*net.TCPAddr).Port)
	connects := func() bool {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			err = conn.Close()
		}
		return err == nil
	}
	for name, c := range map[string]struct {
		ports Ports
		may   bool
	}{
		"none":    {Ports{}, false},
		"any":     {Ports{}.With(0), true},
		"this":    {Ports{}.With(open), true},
		"another": {Ports{}.With(1), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var may bool
			under(t, &Rules{Connect: c.ports}, nil, func() { may = connects() })
			require.Equal(t, c.may, may)
		})
	}
}

// A rule distinguishes ports chosen by the kernel from ports chosen by the process.
func TestFreePorts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := l.Addr().String() // free a moment ago
	require.NoError(t, l.Close())
	listen := func(address string) error {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false) // Landlock has no rules for MPTCP
		l, err := lc.Listen(t.Context(), "tcp", address)
		if err == nil {
			err = l.Close()
		}
		return err
	}
	var kernels, chosen error
	under(t, &Rules{Listen: Ports{Free: true}}, nil, func() { kernels, chosen = listen("127.0.0.1:0"), listen(free) })
	require.NoError(t, kernels)
	require.ErrorIs(t, chosen, unix.EACCES)
}

// A confined process can't reach processes or abstract sockets outside.
func TestSignalsAndAbstractSocketsStayInside(t *testing.T) {
	t.Parallel()
	outside := exec.CommandContext(t.Context(), "cat")
	end, err := outside.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, outside.Start())
	l, err := net.Listen("unix", fmt.Sprintf("@vmop-confine-%d", os.Getpid()))
	require.NoError(t, err)
	defer l.Close()
	reach := func() (signal, socket error) {
		conn, err := net.Dial("unix", l.Addr().String())
		if err == nil {
			err = conn.Close()
		}
		return unix.Kill(outside.Process.Pid, 0), err
	}
	signal, socket := reach()
	require.NoError(t, signal, "nothing else prevents it")
	require.NoError(t, socket, "nothing else prevents it")
	under(t, &Rules{}, nil, func() { signal, socket = reach() })
	if ABI() >= abiScope {
		require.ErrorIs(t, signal, unix.EPERM)
		require.ErrorIs(t, socket, unix.EPERM)
	}
	require.NoError(t, end.Close())
	require.NoError(t, outside.Wait())
}

// The rules use every access right that each kernel supports, and no others.
func TestEachKernelDeniesWhatItKnows(t *testing.T) {
	t.Parallel()
	const (
		tcp    = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		scopes = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	)
	bits := func(from, to uint) uint64 { return 1<<(to+1) - 1<<from }
	for abi, want := range map[int]unix.LandlockRulesetAttr{
		1: {Handled_access_fs: bits(0, 12)},
		2: {Handled_access_fs: bits(0, 13)},
		3: {Handled_access_fs: bits(0, 14)},
		4: {Handled_access_fs: bits(0, 14), Handled_access_net: tcp},
		5: {Handled_access_fs: bits(0, 15), Handled_access_net: tcp},
		6: {Handled_access_fs: bits(0, 15), Handled_access_net: tcp, Scoped: scopes},
		7: {Handled_access_fs: bits(0, 15), Handled_access_net: tcp, Scoped: scopes},
	} {
		require.Equal(t, want, handledRights(abi, &Rules{}), "version %d", abi)
		var held Held
		noteMissingRights(abi, &held)
		require.Len(t, held.Lacks, []int{4, 4, 3, 2, 1, 0, 0}[abi-1], "version %d", abi)
	}
	any := Ports{Any: true}
	require.Zero(t, handledRights(abiTCP, &Rules{Listen: any, Connect: any}).Handled_access_net)
	some := handledRights(abiTCP, &Rules{Connect: any})
	require.EqualValues(t, unix.LANDLOCK_ACCESS_NET_BIND_TCP, some.Handled_access_net)
	some = handledRights(abiTCP, &Rules{Listen: any})
	require.EqualValues(t, unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, some.Handled_access_net)
}

func TestACapabilityThatThereIsNot(t *testing.T) {
	t.Parallel()
	err := keepOnly([]string{"sys_everything"})
	require.ErrorContains(t, err, "sys_everything")
}
