package drive_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/qmp"
	"vmop/runner/machine"
	"vmop/runner/machine/drive"
	"vmop/runner/machine/reconcile"
	"vmop/runner/status"
	"vmop/test/wait"
	"vmop/vmspec"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// qemu simulates a QEMU with a monitor and a process.
type qemu struct {
	listener net.Listener
	ended    chan struct{}
	signals  chan syscall.Signal

	mu      sync.Mutex
	said    []string
	conn    net.Conn
	replies map[string]string // replaces the default replies
}

func newQEMU(t *testing.T) *qemu {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "m"))
	require.NoError(t, err)
	q := &qemu{listener: l, ended: make(chan struct{}), signals: make(chan syscall.Signal, 8)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			q.mu.Lock()
			q.conn = conn
			q.mu.Unlock()
			go q.serve(conn)
		}
	}()
	return q
}

func (q *qemu) Name() string            { return "qemu" }
func (q *qemu) Done() <-chan struct{}   { return q.ended }
func (q *qemu) Exit() childprocess.Exit { return childprocess.Exit{} }
func (q *qemu) Signal(s syscall.Signal) error {
	q.signals <- s
	return nil
}

// serve greets a client and answers all its commands except "silence".
func (q *qemu) serve(conn net.Conn) {
	fmt.Fprintln(conn, `{"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 1}, "package": ""}, "capabilities": []}}`)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var c struct {
			Execute string
			ID      uint64
		}
		if json.Unmarshal(lines.Bytes(), &c) != nil {
			return
		}
		q.mu.Lock()
		q.said = append(q.said, c.Execute)
		other := q.replies[c.Execute]
		q.mu.Unlock()
		if other != "" {
			fmt.Fprintf(conn, `{"return": %s, "id": %d}`+"\n", other, c.ID)
			continue
		}
		switch c.Execute {
		case "silence":
		case "query-status":
			fmt.Fprintf(conn, `{"return": {"status": "running"}, "id": %d}`+"\n", c.ID)
		case "query-vnc-servers":
			fmt.Fprintf(conn, `{"return": [], "id": %d}`+"\n", c.ID)
		case "query-chardev":
			fmt.Fprintf(conn, `{"return": [{"label": "c", "filename": "disconnected:unix:/run/tpm"}], "id": %d}`+"\n", c.ID)
		case "query-cpus-fast":
			fmt.Fprintf(conn, `{"return": [{"cpu-index": 0, "thread-id": 1}], "id": %d}`+"\n", c.ID)
		case "close":
			conn.Close()
		default:
			fmt.Fprintf(conn, `{"return": {}, "id": %d}`+"\n", c.ID)
		}
	}
}

func (q *qemu) count(command string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, said := range q.said {
		if said == command {
			n++
		}
	}
	return n
}

func (q *qemu) event(name string) {
	q.says(`{"event": "` + name + `", "data": {"guest": true, "reason": "guest-shutdown"}}`)
}

// says sends a line to the client.
func (q *qemu) says(line string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	fmt.Fprintln(q.conn, line)
}

// answers sets QEMU's reply to a command.
func (q *qemu) answers(command, reply string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.replies == nil {
		q.replies = map[string]string{}
	}
	q.replies[command] = reply
}

func (q *qemu) dial(t *testing.T) *qmp.Session {
	t.Helper()
	conn, err := net.Dial("unix", q.listener.Addr().String())
	require.NoError(t, err)
	return qmp.New(conn)
}

// agents simulates the agents of a guest that does everything requested. It has no log-in agent.
type agents struct {
	*driver
	left, closed chan struct{}
	asked        chan string
}

func (a agents) notes(words ...any) { a.asked <- strings.TrimSpace(fmt.Sprintln(words...)) }

func (a agents) SetPort(role string, open, greeted bool) { a.notes("SetPort", role, open, greeted) }
func (a agents) LogIn(user string)                       { a.notes("LogIn", user) }
func (a agents) Leave()                                  { close(a.left) }
func (a agents) Find(limit time.Duration, then func(bool, error)) {
	a.notes("Find", limit)
	go a.Do(func() { then(true, nil) })
}

func (a agents) ShutDown(limit time.Duration, then func(error)) {
	a.notes("ShutDown", limit)
	go a.Do(func() { then(errors.New("it refuses")) })
}

func (a agents) Freeze(limit time.Duration, then func(int, bool, error)) {
	a.notes("Freeze", limit)
	go a.Do(func() { then(2, true, nil) })
}
func (a agents) EndFreeze() { a.notes("EndFreeze") }
func (a agents) Thaw(limit time.Duration, then func(int, error)) {
	a.notes("Thaw", limit)
	go a.Do(func() { then(2, nil) })
}
func (a agents) Close() { close(a.closed) }

// driver is a Driver of a VM with a running guest.
type driver struct {
	*drive.Driver
	q       *qemu
	agents  agents
	tracker *status.Tracker
	outcome chan machine.Outcome
	saved   chan machine.Progress
	stop    context.CancelCauseFunc
}

func begin(t *testing.T, first bool, change ...func(*drive.Config)) *driver {
	t.Helper()
	d := &driver{
		q: newQEMU(t), outcome: make(chan machine.Outcome, 1),
		saved:   make(chan machine.Progress, 16),
		tracker: status.NewTracker(time.Now, status.Entered{State: vmstatus.StateStarting}),
	}
	d.agents = agents{d, make(chan struct{}), make(chan struct{}), make(chan string, 64)}
	cfg := drive.Config{
		Machine: machine.Config{
			Plan: &plan.Plan{}, Start: &reconcile.Start{},
			Wish: machine.Wish{Powerdown: time.Hour},
		},
		Monitor: d.q.listener.Addr().String(), QEMU: d.q, Agents: d.agents, Tracker: d.tracker,
		Log: slog.New(slog.DiscardHandler), SinceBoot: func() time.Duration { return time.Minute },
		Save: func(p machine.Progress) error { d.saved <- p; return nil },
	}
	if first {
		cfg.Session = d.q.dial(t)
	} else {
		cfg.Machine.Start = nil
	}
	for _, c := range change {
		c(&cfg)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	d.stop = stop
	d.Driver = drive.New(ctx, cfg)
	go func() { d.outcome <- d.Run(ctx) }()
	t.Cleanup(func() {
		d.Close()
		<-d.Done()
		<-d.agents.closed
	})
	return d
}

// runs lets the guest run.
func (d *driver) runs(t *testing.T, events ...func(qmp.Event)) *driver {
	t.Helper()
	require.NoError(t, d.Settle(t.Context()))
	onEvent := func(qmp.Event) {}
	if len(events) > 0 {
		onEvent = events[0]
	}
	require.NoError(t, d.Release(t.Context(), machine.Booting{}, onEvent))
	require.Equal(t, vmstatus.StateBooting, d.tracker.Status().State)
	return d
}

// The guest runs once its machine is as wanted, and the Driver ends with the VM.
func TestALife(t *testing.T) {
	t.Parallel()
	d := begin(t, true)
	require.NoError(t, d.Save(t.Context()))
	<-d.saved
	seen := make(chan string, 8)
	d.runs(t, func(e qmp.Event) { seen <- e.Name })
	require.Equal(t, "7.2.1", d.tracker.Status().QEMU.Version)
	require.Equal(t, 1, d.q.count("cont"))
	require.Zero(t, d.Dropped())
	d.q.event("MIGRATION")
	require.Equal(t, "MIGRATION", <-seen)
	<-d.Happened()
	d.q.event("SHUTDOWN")
	require.Equal(t, "SHUTDOWN", <-seen)
	d.q.conn.Close()
	close(d.q.ended)
	require.Equal(t, machine.Outcome{Cause: vmstatus.CauseGuest, Reason: "guest-shutdown"}, <-d.outcome)
	_, err := d.Command(t.Context(), qmp.Command{Execute: "query-name"})
	require.ErrorIs(t, err, machine.ErrExited)
	require.ErrorIs(t, d.Pause(t.Context()), machine.ErrExited)
	require.NoError(t, d.Stop(t.Context(), "too late", true))
	d.Sized(nil)
}

// A command waits while the connection is being made, is never sent twice, and returns an error when it is canceled.
func TestRequestsAndTheConnection(t *testing.T) {
	t.Parallel()
	d := begin(t, true).runs(t)
	_, err := d.Command(t.Context(), qmp.Command{Execute: "close"})
	require.ErrorIs(t, err, qmp.ErrClosed, "the command was sent, and perhaps executed")
	reply, err := d.Command(t.Context(), qmp.Command{Execute: "query-uuid"})
	require.NoError(t, err)
	require.Equal(t, "{}", string(reply))
	require.Equal(t, 1, d.q.count("close"))

	impatient, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(errors.New("impatient")) })
	_, err = d.Command(impatient, qmp.Command{Execute: "silence"})
	require.ErrorContains(t, err, "QEMU has not answered: impatient")
	_, err = d.Command(impatient, qmp.Command{Execute: "query-uuid"})
	require.ErrorContains(t, err, "impatient")

	var into []string
	require.ErrorContains(t, d.Query(t.Context(), qmp.Command{Execute: "query-name"}, &into),
		"query-name: reply of QEMU")
	require.NoError(t, d.Pause(t.Context()))
	require.NoError(t, d.Resume(t.Context()))
	require.NoError(t, d.Reset(t.Context()))
	require.Equal(t, 2, d.q.count("cont"))
	_, err = d.Command(t.Context(), qmp.Command{Execute: "x", Arguments: func() {}})
	require.ErrorContains(t, err, "encode the arguments")
}

// The end of the context stops the VM. A kill leaves the guest no time.
func TestAStop(t *testing.T) {
	t.Parallel()
	d := begin(t, true).runs(t)
	d.stop(errors.New("enough"))
	<-d.agents.left
	require.Equal(t, &machine.StopRequest{At: time.Minute, Cause: "enough"}, (<-d.saved).Stop)
	wait.Until(t, func() bool { return d.q.count("system_powerdown") == 1 })
	require.Equal(t, "enough", d.tracker.Status().Message)
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the client has gone"))
	require.EqualError(t, d.Stop(gone, "kill", true), "the client has gone")
	require.NoError(t, d.Stop(t.Context(), "kill", true))
	require.NotEmpty(t, d.saved, "a runner that is killed now has left the request to the next")
	wait.Until(t, func() bool { return d.q.count("quit") == 1 })
	d.q.conn.Close()
	close(d.q.ended)
	require.Equal(t, vmstatus.CauseForced, (<-d.outcome).Cause)
}

// The driver connects to an adopted VM and manages it.
func TestAnAdoptedVM(t *testing.T) {
	t.Parallel()
	d := begin(t, false)
	d.Adopt(machine.Booting{Reason: vmstatus.ReasonRunnerRestarted}, func(qmp.Event) {})
	_, err := d.Command(t.Context(), qmp.Command{Execute: "query-uuid"})
	require.NoError(t, err)
	require.Equal(t, vmstatus.ReasonRunnerRestarted, d.tracker.Status().Reason)
	require.Zero(t, d.q.count("cont"))
}

// A start fails with the reason if QEMU ends before its guest runs, or when the caller's timeout expires.
func TestAStartThatFails(t *testing.T) {
	t.Parallel()
	d := begin(t, true)
	require.NoError(t, d.Settle(t.Context()))
	d.q.conn.Close()
	require.ErrorIs(t, d.Release(t.Context(), machine.Booting{}, func(qmp.Event) {}), qmp.ErrClosed)

	silent, conn := net.Pipe()
	t.Cleanup(func() { silent.Close() })
	d = begin(t, true, func(c *drive.Config) { c.Session = qmp.New(conn) })
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("QEMU did not answer"))
	defer cancel()
	require.ErrorContains(t, d.Settle(ctx), "QEMU did not answer")
	require.NoError(t, d.Close())
	<-d.Done()
	require.ErrorIs(t, d.Settle(t.Context()), machine.ErrExited)
	require.ErrorIs(t, d.Save(t.Context()), machine.ErrExited)
}

// helper is an ended process.
type helper struct{ *qemu }

func (helper) Name() string            { return "passt" }
func (helper) Exit() childprocess.Exit { return childprocess.Exit{Code: 3} }

// A helper's end is detected.
func TestAHelperEnds(t *testing.T) {
	t.Parallel()
	gone := helper{newQEMU(t)}
	close(gone.ended)
	d := begin(t, true, func(c *drive.Config) {
		c.Machine.Plan.Helpers, c.Machine.Running = []plan.Process{{Name: "passt"}}, []string{"passt"}
		c.Helpers = []drive.Process{gone}
	}).runs(t)
	wait.Until(t, func() bool {
		problems := d.tracker.Status().Problems
		return len(problems) == 1 && strings.Contains(problems[0].Message, "passt has ended: exit status 3")
	})
}

// tpm is a process that emulates a TPM.
type tpm struct{ *qemu }

func (tpm) Name() string { return "swtpm" }

// A reset after the end of the TPM's process is refused, even if the end was not noticed yet. QEMU receives a
// connection to another process, which ends with QEMU.
func TestTheTPMEnds(t *testing.T) {
	t.Parallel()
	first, second := tpm{newQEMU(t)}, tpm{newQEMU(t)}
	read, conn, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { read.Close() })
	d := begin(t, true, func(c *drive.Config) {
		c.Machine.Plan.Helpers = []plan.Process{{Name: "swtpm", Role: plan.RoleTPM, Ready: "/run/tpm"}}
		c.Machine.Running, c.Helpers = []string{"swtpm"}, []drive.Process{first}
		c.StartHelper = func(_ context.Context, name, socket string) (drive.Process, *os.File, error) {
			require.Equal(t, "swtpm /run/tpm", name+" "+socket)
			return second, conn, nil
		}
	}).runs(t)
	close(first.ended)
	require.ErrorContains(t, d.Reset(t.Context()), "its TPM is lost")
	wait.Until(t, func() bool { return d.q.count("add_client") == 1 })
	require.Zero(t, d.q.count("system_reset"))
	_, err = read.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the runner has closed its end")
	d.q.event("SHUTDOWN")
	d.q.conn.Close()
	close(d.q.ended)
	require.Equal(t, syscall.SIGKILL, <-second.signals, "it has not ended with QEMU")
	close(second.ended)
	<-d.outcome
}

// withAgent adds a port for the guest agent.
func withAgent(c *drive.Config) {
	c.Machine.Plan.Sockets = []plan.Socket{{Role: "guestAgent", Path: "/run/agent", Port: "port0"}}
	c.Machine.GuestAgent, c.Machine.Agents = "guestAgent", []string{"guestAgent"}
}

// The driver sends the State's requests to the agents.
func TestTheAgentsAreAsked(t *testing.T) {
	t.Parallel()
	d := begin(t, true, withAgent).runs(t)
	asked := func(want string) {
		t.Helper()
		wait.Until(t, func() bool { return <-d.agents.asked == want }, want)
	}
	d.q.says(`{"event": "VSERPORT_CHANGE", "data": {"id": "port0", "open": true}}`)
	asked("SetPort guestAgent true false")
	a, err := d.Freeze(t.Context(), 10*time.Second)
	require.NoError(t, err)
	asked("Freeze 10s")
	require.Equal(t, 2, a.FileSystems)
	require.NotNil(t, (<-d.saved).Frozen, "the next runner knows it before the agent does")
	_, err = d.Thaw(t.Context())
	require.NoError(t, err)
	asked("Thaw 5s")
	d.Configured(machine.Reading{Wish: machine.Wish{User: "alice", Powerdown: time.Hour}})
	asked("LogIn alice")
	d.stop(errors.New("enough"))
	asked("Find 2s")
	asked("ShutDown 10s")
	wait.Until(t, func() bool { return d.q.count("system_powerdown") == 1 },
		"the agent refuses")
}

// A guest is not frozen if the freeze can't be recorded, because the next runner would leave it frozen.
func TestAFreezeThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	d := begin(t, true, withAgent, func(c *drive.Config) {
		c.Save = func(machine.Progress) error { return errors.New("the disk is full") }
	}).runs(t)
	d.q.says(`{"event": "VSERPORT_CHANGE", "data": {"id": "port0", "open": true}}`)
	for <-d.agents.asked != "SetPort guestAgent true false" {
	}
	a, err := d.Freeze(t.Context(), time.Second)
	require.NoError(t, err)
	require.False(t, a.Frozen)
	require.Contains(t, a.Message, "it cannot be recorded: the disk is full")
	require.Empty(t, d.agents.asked)
}

// The free space of a full disk is measured, but not if the disk's file has changed.
func TestAFullDiskIsMeasured(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	for file, want := range map[string]string{
		image: "no space left for it, though its file system has some", t.TempDir(): "no space", "/nowhere": "no space",
	} {
		d := begin(t, true).runs(t)
		d.q.answers("query-status", `{"status": "io-error"}`)
		d.q.answers("query-block", `[{"qdev": "disk0", "io-status": "nospace", "inserted": {"node-name": "x", "file": "`+file+`"}}]`)
		d.q.says(`{"event": "STOP"}`)
		wait.Until(t, func() bool {
			problems := d.tracker.Status().Problems
			if len(problems) != 1 || !strings.Contains(problems[0].Message, "; the VM is paused; next attempt at ") {
				return false
			}
			return strings.Contains(problems[0].Message, want) == (file == image)
		}, "%s: %v", file, d.tracker.Status().Problems)
	}
}

// An attached disk is opened for QEMU. Failure to open it is the disk's failure.
func TestDisksAreOpened(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(image, make([]byte, 1<<20), 0o600))
	d := begin(t, true, func(c *drive.Config) {
		c.Machine.Plan.Rules = plan.Rules{plan.Disks{Driver: "virtio-blk-pci", Buses: []string{"port0"}}}
	})
	d.q.answers("query-named-block-nodes", "[]")
	d.q.answers("query-block", "[]")
	d.q.answers("qom-list", "[]")
	d.runs(t)
	wants := func(file string) {
		d.Configured(machine.Reading{Wish: machine.Wish{Powerdown: time.Hour, Desired: reconcile.Desired{
			Drives: []reconcile.Drive{{Drive: vmspec.Drive{
				Type: vmspec.DriveRaw, File: file, Format: "raw", Serial: "data",
			}}},
		}}})
	}
	wants("/nowhere/disk.img")
	wait.Until(t, func() bool {
		drives := d.tracker.Status().Drives
		return len(drives) == 1 && strings.Contains(drives[0].Message, "open /nowhere/disk.img")
	})
	wants(image)
	wait.Until(t, func() bool { return d.q.count("blockdev-add") > 0 })
}

// Concurrent requests are free of data races.
func TestManyAskAtOnce(t *testing.T) {
	t.Parallel()
	d := begin(t, true).runs(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				_, err := d.Command(t.Context(), qmp.Command{Execute: "query-uuid"})
				require.NoError(t, err)
				require.NoError(t, d.Pause(t.Context()))
				require.NoError(t, d.Resume(t.Context()))
				d.Configured(machine.Reading{Err: "no"})
				d.AwaitRestart(status.Pending{}, nil)
				d.q.event("RESUME")
			}
		})
	}
	go func() {
		for range d.saved {
		}
	}()
	all.Wait()
	d.stop(errors.New("enough"))
}
