package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/status"
	programs "vmop/test/program"
	"vmop/test/wait"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// TestVerbs runs the scripts below testdata/verbs with the real program and control servers of simulated VMs.
//
//	vm NAME [DIR]     starts a VM, in DIR or where runners keep their VMs
//	tell NAME WHAT    changes it: paused, pending, reset, silent, dead
//	greeting PATH X   connects to a Unix socket that must send X as its first line
func TestVerbs(t *testing.T) {
	t.Parallel()
	bin := alone(t, build(t))
	root, err := os.MkdirTemp("", "v") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "verbs"), WorkdirRoot: root,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("XDG_RUNTIME_DIR", filepath.Join(env.WorkDir, "run"))
			env.Values["vms"] = map[string]*playedVM{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"vm": func(ts *testscript.TestScript, _ bool, args []string) {
				dir := filepath.Join(ts.Getenv("XDG_RUNTIME_DIR"), "vmrunner", args[0])
				if len(args) > 1 {
					dir = ts.MkAbs(args[1])
				}
				vm, err := play(t.Context(), args[0], dir)
				ts.Check(err)
				ts.Defer(vm.end)
				ts.Value("vms").(map[string]*playedVM)[args[0]] = vm
			},
			"greeting": func(ts *testscript.TestScript, _ bool, args []string) {
				line, err := firstLine(t, ts.MkAbs(args[0]))
				ts.Check(err)
				if line != args[1] {
					ts.Fatalf("the greeting is %q", line)
				}
			},
			"tell": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Value("vms").(map[string]*playedVM)[args[0]].tell(args[1]))
			},
		},
	})
}

// firstLine connects to a socket as soon as it exists.
func firstLine(t *testing.T, path string) (string, error) {
	var conn net.Conn
	wait.Until(t, func() (ok bool) {
		var err error
		conn, err = net.Dial("unix", path)
		return err == nil
	})
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

// alone returns a folder with a vmrunner that does not see the user's own VMs, because it has its own /run and its own
// folder below /tmp. It needs root.
func alone(t *testing.T, bin string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := `#!/bin/sh
exec unshare --mount sh -c '
mount -t tmpfs none /run
folder=/tmp/$(id -un)
[ ! -d "$folder" ] || mount -t tmpfs none "$folder"
exec "$0" "$@"' ` + filepath.Join(bin, "vmrunner") + ` "$@"
`
	// A process that another test forks at the same time would inherit the script open for writing, and such a file
	// can't be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vmrunner"), []byte(script), 0o755))
	return dir
}

// build builds the program once for all scripts.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, programs.Build(t.Context(), filepath.Join(dir, "vmrunner"), "vmop/cmd/vmrunner"))
	return dir
}

// playedVM is a VM that consists only of its control socket.
type playedVM struct {
	dir     string
	server  *control.Server
	tracker *status.Tracker
	plan    plan.Plan
	guest   net.Conn
	screen  net.Listener
	handed  *os.File // through add-fd
	ctx     context.Context
}

func play(ctx context.Context, name, dir string) (*playedVM, error) {
	vm := &playedVM{ctx: context.WithoutCancel(ctx), dir: dir, plan: plan.Plan{Type: "standard", Sockets: []plan.Socket{
		{Role: "console", Path: filepath.Join(dir, "console.sock")},
		{Role: "vnc", Path: filepath.Join(dir, "vnc.sock")},
	}}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	vm.tracker = status.NewTracker(time.Now,
		status.Described{
			Name: name, UUID: "6e5b0a51-0000-4000-8000-000000000000", VMType: "standard",
			Runner: status.Runner{Version: "1.0", PID: 7},
		},
		status.Entered{State: vmstatus.StateBooted}, status.Process{PID: 42, Version: "7.2.22"},
		status.RunState("running"),
		status.CPUs(2), status.RAM(1536<<20), status.Read{Generation: 1}, status.Applied(1),
		status.GuestOS{Info: &status.OSInfo{PrettyName: "Debian \x1b[31mGNU/Linux 12"}},
		status.Interfaces{{Name: "eth0", MAC: "02:00:00:00:00:01", Addresses: []string{"10.0.2.15/24"}}})
	var err error
	if vm.server, err = control.Start(ctx, control.Options{
		Dir: dir, Backend: vm, Tracker: vm.tracker,
		Log: slog.New(slog.DiscardHandler),
	}); err != nil {
		return nil, err
	}
	if vm.screen, err = net.Listen("unix", vm.plan.Socket("vnc")); err != nil {
		return nil, err
	}
	go vm.show()
	ours, theirs := net.Pipe()
	vm.guest = ours
	vm.server.Console().Attach(theirs)
	go vm.talk()
	return vm, nil
}

// end ends the VM, if it has not ended.
func (vm *playedVM) end() {
	_ = vm.screen.Close()
	_ = vm.guest.Close()
	_ = vm.server.Close(vm.ctx)
	_ = os.RemoveAll(vm.dir)
}

// talk is the guest at its serial port: it greets, answers, and ends at "bye".
func (vm *playedVM) talk() {
	fmt.Fprint(vm.guest, "web login: ")
	in := bufio.NewReader(vm.guest)
	for {
		line, err := in.ReadString('\r')
		line = strings.Trim(line, "\r\n")
		if err != nil || line == "bye" {
			_ = vm.guest.Close()
			return
		}
		fmt.Fprintf(vm.guest, "you said %s\r\n", line)
	}
}

// show is QEMU's VNC server: it greets and waits.
func (vm *playedVM) show() {
	for {
		conn, err := vm.screen.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(conn, "RFB 003.008\n")
		go func() {
			_, _ = conn.Read(make([]byte, 100))
			_ = conn.Close()
		}()
	}
}

// tell simulates an event.
func (vm *playedVM) tell(what string) error {
	switch what {
	case "paused":
		return vm.tracker.Update(status.RunState("paused"))
	case "silent": // its QEMU hangs
		return vm.tracker.Update(status.Unresponsive(true))
	case "pending":
		return vm.tracker.Update(
			status.Pending{
				Changes: []status.Change{
					{Path: "vm.firmware", CurrentValue: "uefi", DesiredValue: "secure", Operation: "replace"},
				},
				Arguments: []string{"- -drive a", "+ -drive b"},
			},
			status.Problems{{Path: "vm.currentCpus", Message: "QEMU has slots for 2"}})
	case "reset":
		vm.server.Event(qmp.Event{Name: "RESET", Data: json.RawMessage(`{"guest": true}`), Time: time.Now()})
		return nil
	case "dead": // its runner was killed
		if err := vm.server.Close(vm.ctx); err != nil {
			return err
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(vm.dir, control.SocketName), Net: "unix"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		return l.Close()
	}
	return fmt.Errorf("tell what? %s", what)
}

// Act implements control.Backend.
func (vm *playedVM) Act(_ context.Context, what control.Action, _ string) error {
	switch what {
	case control.Stop:
		return vm.tracker.Update(status.Entered{State: vmstatus.StateTerminating},
			status.Ended{Cause: "asked", Reason: "guest-shutdown"})
	case control.Kill:
		return vm.tracker.Update(status.Ended{Cause: "forced", Reason: "host-qmp-quit"})
	case control.Pause:
		return vm.tell("paused")
	case control.Resume:
		return vm.tracker.Update(status.RunState("running"))
	}
	return control.Refusal("swtpm has ended: a reset would end the VM")
}

// Run implements control.Backend.
func (vm *playedVM) Run(_ context.Context, c qmp.Command) (json.RawMessage, error) {
	switch c.Execute {
	case "query-commands":
		return json.RawMessage(`[{"name":"query-status"},{"name":"cont"},{"name":"query-spice"}]`), nil
	case "query-status":
		return json.RawMessage(`{"status":"running","singlestep":false}`), nil
	case "add-fd":
		vm.handed = c.File
		return json.RawMessage(`{"fdset-id": 3}`), nil
	case "screendump":
		if name := c.Arguments.(map[string]string)["filename"]; name != "/dev/fdset/3" {
			return nil, fmt.Errorf("a confined QEMU may not make %s", name)
		}
		return json.RawMessage(`{}`), png.Encode(vm.handed, image.NewGray(image.Rect(0, 0, 2, 2)))
	case "remove-fd":
		return json.RawMessage(`{}`), nil
	case "echo":
		return c.Arguments.(json.RawMessage), nil
	}
	return nil, &qmp.Error{Class: qmp.CommandNotFound, Desc: "The command " + c.Execute + " has not been found"}
}

// Plan implements control.Backend.
func (vm *playedVM) Plan() *plan.Plan { return &vm.plan }

// Dropped implements control.Backend.
func (vm *playedVM) Dropped() uint64 { return 0 }
