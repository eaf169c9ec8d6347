package attach

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/internal/cli"
	"vmop/runner/control"
	"vmop/test/wait"
)

// echoing is a VM that echoes the input of its console, screen and ports in capitals until the input ends.
type echoing struct {
	fails error
	asked []string // modes and port numbers
	mu    sync.Mutex
}

func (e *echoing) open(how string) (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, how)
	if e.fails != nil {
		return nil, e.fails
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	far, err := l.Accept()
	go func() {
		defer far.Close()
		buf := make([]byte, 100)
		for {
			n, err := far.Read(buf)
			if _, failed := far.Write(bytes.ToUpper(buf[:n])); err != nil || failed != nil {
				return
			}
		}
	}()
	return near, err
}

func (e *echoing) Screenshot(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, "PNG")
	return errors.Join(err, e.fails)
}

func (e *echoing) Console(_ context.Context, mode control.Mode) (net.Conn, error) {
	return e.open(string(mode))
}

func (e *echoing) Screen(_ context.Context, mode control.Mode) (net.Conn, error) {
	return e.open(string(mode))
}

func (e *echoing) SPICE(_ context.Context, _ string, mode control.Mode) (net.Conn, error) {
	return e.open(string(mode))
}

func (e *echoing) Forward(_ context.Context, port int) (net.Conn, error) {
	return e.open(http.StatusText(port))
}

// said collects a command's output and waits for expected text.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *said) find(t *testing.T, pattern string) string {
	t.Helper()
	var found []string
	wait.Until(t, func() bool {
		found = regexp.MustCompile(pattern).FindStringSubmatch(s.String())
		return found != nil
	}, pattern)
	return found[1]
}

// verb returns a command with an input, and a function that interrupts it.
func verb(t *testing.T, in io.Reader) (*cobra.Command, *said, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	cmd, out := &cobra.Command{}, &said{}
	cmd.SetContext(ctx)
	cmd.SetIn(in)
	cmd.SetOut(out)
	cmd.SetErr(out)
	return cmd, out, cancel
}

func TestModes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]control.Mode{
		"": control.Type, "--watch": control.Watch, "--take-over": control.Take, "--watch --take-over": "",
	} {
		var m Modes
		cmd := &cobra.Command{}
		m.Add(cmd, "")
		require.NoError(t, cmd.ParseFlags(strings.Fields(args)))
		mode, err := m.Mode()
		require.Equal(t, want, mode)
		require.Equal(t, want == "", errors.As(err, new(cli.UsageError)))
	}
}

// A console session ends by itself, by the detach key or by a signal. A refusal explains how to take over.
func TestConsole(t *testing.T) {
	t.Parallel()
	vm := &echoing{}
	cmd, _, _ := verb(t, strings.NewReader("root\x1d"))
	require.NoError(t, Console(cmd, vm, control.Watch, ""))
	require.Equal(t, []string{string(control.Watch)}, vm.asked)

	typed, keys := io.Pipe()
	cmd, out, interrupt := verb(t, typed)
	ended := make(chan error, 1)
	go func() { ended <- Console(cmd, vm, control.Type, "connected") }()
	_, err := io.WriteString(keys, "root\r")
	require.NoError(t, err)
	out.find(t, "(ROOT\r)")
	interrupt()
	require.NoError(t, <-ended)

	vm.fails = &control.AnswerError{Code: http.StatusLocked}
	require.ErrorContains(t, Console(cmd, vm, control.Type, ""), "use --watch to only watch, or --take-over")
	vm.fails = &control.AnswerError{Code: http.StatusForbidden}
	require.NotContains(t, Console(cmd, vm, control.Type, "").Error(), "--watch")
}

// Guest ports stay reachable until the command is interrupted.
func TestForwardedPorts(t *testing.T) {
	t.Parallel()
	vm := &echoing{}
	cmd, out, _ := verb(t, strings.NewReader("input"))
	require.NoError(t, Stdio(cmd, vm, 200))
	require.Equal(t, "INPUT", out.String())
	cmd, out, interrupt := verb(t, nil)
	ended := make(chan error, 1)
	go func() { ended <- Ports(cmd, vm, "127.0.0.1", []PortPair{{0, 200}, {0, 404}}) }()
	for port, name := range map[string]string{"200": "OK", "404": "Not Found"} {
		client, err := net.Dial("tcp", out.find(t, `(\S+) is port `+port+` of the guest\n`))
		require.NoError(t, err)
		_, err = io.WriteString(client, "hello")
		require.NoError(t, err)
		require.NoError(t, client.(*net.TCPConn).CloseWrite())
		text, err := io.ReadAll(client)
		require.NoError(t, err)
		require.Equal(t, "HELLO", string(text))
		require.Equal(t, name, vm.asked[len(vm.asked)-1])
	}
	interrupt()
	require.NoError(t, <-ended)
	vm.fails = errors.New("no such port")
	require.ErrorIs(t, Ports(cmd, vm, "127.0.0.1", []PortPair{{0, 22}}), vm.fails)
	require.ErrorIs(t, Stdio(cmd, vm, 22), vm.fails)
	vm.fails = nil
	require.ErrorContains(t, Ports(cmd, vm, "192.0.2.1", []PortPair{{0, 22}}), "forward port 22 of the guest: ")
}

// Each viewer gets its own connection to the screen until the command is interrupted.
func TestScreens(t *testing.T) {
	t.Parallel()
	vm := &echoing{}
	open := func(ctx context.Context) (net.Conn, error) { return vm.Screen(ctx, control.Watch) }
	dir, err := os.MkdirTemp("", "s") // a short path
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "vm.vv")
	for _, show := range []func(*cobra.Command) error{
		func(cmd *cobra.Command) error { return Screens(cmd, "127.0.0.1:0", open) },
		func(cmd *cobra.Command) error { return Screens(cmd, filepath.Join(dir, "vnc"), open) },
		func(cmd *cobra.Command) error {
			return SPICE(cmd, vm, SPICEViewer{Title: "web", Address: "127.0.0.1:0", File: file, TakeOver: true})
		},
	} {
		cmd, out, interrupt := verb(t, nil)
		ended := make(chan error, 1)
		go func() { ended <- show(cmd) }()
		address, network := out.find(t, `(?:VNC|SPICE) on ([^;,]+)[;,].* Ctrl-C stops it\n`), "tcp"
		if strings.Contains(address, "/") {
			network = "unix"
		}
		for range 2 {
			viewer, err := net.Dial(network, address)
			require.NoError(t, err)
			_, err = io.WriteString(viewer, "hello")
			require.NoError(t, err)
			answer := make([]byte, 5)
			_, err = io.ReadFull(viewer, answer)
			require.NoError(t, err)
			require.Equal(t, "HELLO", string(answer))
			require.NoError(t, viewer.Close())
		}
		if text, err := os.ReadFile(file); err == nil {
			require.Regexp(t, `^\[virt-viewer\]\ntype=spice\nhost=127.0.0.1\nport=\d+\ntitle=web\n$`, string(text))
			require.Equal(t, string(control.Take), vm.asked[len(vm.asked)-1])
		}
		interrupt()
		require.NoError(t, <-ended)
		vm.fails = errors.New("no screen")
		require.ErrorIs(t, show(cmd), vm.fails)
		vm.fails = nil
	}
	cmd, _, _ := verb(t, nil)
	require.ErrorContains(t, Screens(cmd, "192.0.2.1:0", open), "listen for VNC viewers: ")
	require.ErrorContains(t, SPICE(cmd, vm, SPICEViewer{Address: "192.0.2.1:0"}), "listen for SPICE viewers: ")
	unwritable := SPICEViewer{Address: "127.0.0.1:0", File: filepath.Join(dir, "none", "vm.vv")}
	require.ErrorContains(t, SPICE(cmd, vm, unwritable), "write the connection file: ")
}

func TestPicture(t *testing.T) {
	t.Parallel()
	vm := &echoing{}
	cmd, out, _ := verb(t, nil)
	file := filepath.Join(t.TempDir(), "screen.png")
	require.NoError(t, Picture(t.Context(), cmd, vm, "-"))
	require.NoError(t, Picture(t.Context(), cmd, vm, file))
	require.Equal(t, "PNG"+file+"\n", out.String())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "PNG", string(text))
	require.ErrorContains(t, Picture(t.Context(), cmd, vm, filepath.Join(file, "x")), "save the screenshot: ")
	vm.fails = errors.New("no screen")
	require.ErrorIs(t, Picture(t.Context(), cmd, vm, filepath.Join(t.TempDir(), "none")), vm.fails)
}

// The first installed viewer shows the screen, and the command returns its exit code.
func TestViewers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	screen, _ := net.Pipe()
	require.ErrorContains(t, View(t.Context(), screen, "run this"), "for any other VNC viewer: run this")
	require.ErrorContains(t, SPICE(must(verb(t, nil)), &echoing{}, SPICEViewer{Address: "127.0.0.1:0"}),
		"remote-viewer is not installed (Debian package virt-viewer); -o FILE writes")
	for i, v := range []struct{ name, pattern string }{
		{"vncviewer", `127.0.0.1::[1-9]*`}, {"remote-viewer", `vnc://127.0.0.1:[1-9]*`}, {"xtigervncviewer", `/*/vnc`},
	} {
		script := "#!/bin/sh\ncase $1 in " + v.pattern + ") exit " + string(rune('3'+i)) + ";; esac\nexit 9\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, v.name), []byte(script), 0o700))
		require.Equal(t, cli.ExitError{Code: 3 + i}, View(t.Context(), screen, ""))
	}
	script := "#!/bin/sh\nread line <\"$1\"; [ \"$line\" = '[virt-viewer]' ]\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "remote-viewer"), []byte(script), 0o700))
	vm := &echoing{}
	require.NoError(t, SPICE(must(verb(t, nil)), vm, SPICEViewer{Address: "127.0.0.1:0"}))
	require.Equal(t, []string{string(control.Type)}, vm.asked)
	require.EqualError(t, Run("scp", nil), "scp is not installed; on Debian: apt-get install openssh-client")
	require.EqualError(t, Run("x", nil), "x is not installed; on Debian: apt-get install x")
}

func must(cmd *cobra.Command, _ *said, _ func()) *cobra.Command { return cmd }

func TestSSH(t *testing.T) {
	t.Parallel()
	const always = "-o|ProxyCommand='a b' 'c'|-o|HostKeyAlias=web|-o|StrictHostKeyChecking=accept-new"
	for want, s := range map[string]SSH{
		"": {}, "|-o|UserKnownHostsFile=\"/k%%\"": {KnownHosts: "/k%"}, "|-o|User=me": {User: "me"},
	} {
		s.Alias, s.Proxy = "web", []string{"a b", "c"}
		require.Equal(t, always+want, strings.Join(s.Options(), "|"))
	}
	alias := func(name string) string { return "vm-" + name }
	for args, want := range map[string]string{
		"web:/a b":             "|web|vm-web:/a b",
		"b me@web:/a me@web:c": "me|web|b vm-web:/a vm-web:c",
		"a b":                  "no file belongs to a VM: use NAME:PATH",
		"./a:b c":              "no file belongs to a VM: use NAME:PATH",
		"web:/a db:/b":         "web and db: all remote files must be of one VM and user",
		"me@web:/a web:/b":     "web and web: all remote files must be of one VM and user",
	} {
		user, name, all, err := RemotePaths(strings.Fields(args), alias)
		got := user + "|" + name + "|" + strings.Join(all, " ")
		if err != nil {
			got = err.Error()
		}
		require.Equal(t, want, got)
	}
}
