package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"vmop/cloudinit/disk"
	"vmop/durable"
	"vmop/process"
	"vmop/qmp"
	"vmop/runner/cleanup"
	"vmop/runner/holders"
	"vmop/runner/lock"
	"vmop/runner/prepare"
	"vmop/runner/sockets"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// Processes are QEMU and its helpers.
type Processes struct {
	QEMU    *process.Process
	Helpers []*process.Process // those that run
	// Monitor is the first session with QEMU's monitor; nil if QEMU was found running.
	Monitor *qmp.Session

	newTPM string // the state of a TPM that had none; "" if it had one
}

// A Launch is the start of one machine. Whatever it does is noted to be undone, also
// where it fails.
type Launch struct {
	vm   *prepare.VM
	lock *lock.Lock // of the machine; its processes inherit it
	undo *cleanup.List
	log  *slog.Logger
	// Incoming has QEMU wait for a guest that comes from another one; see AcceptTPM.
	Incoming bool
	seeding  errgroup.Group      // writes the cloud-init image
	files    map[string]*os.File // open descriptors, by their name in the plan
	started  Processes
	// inherited are descriptors that QEMU holds for others, without knowing.
	inherited []*os.File
}

// Begin takes the runtime directory of a VM that has no plan yet, and has its
// cloud-init image written while one is made. The lock that is held is the machine's.
func Begin(vm *prepare.VM, held *lock.Lock, undo *cleanup.List, log *slog.Logger) (*Launch, error) {
	l := &Launch{vm: vm, lock: held, undo: undo, log: log}
	if err := l.takeRuntimeDir(); err != nil {
		return nil, err
	}
	l.seeding.Go(func() error {
		process.Prepare()
		return l.writeSeed()
	})
	undo.AddMachine("writing of the cloud-init image", func() error {
		_ = l.seeding.Wait() // its error has been reported, or came too late to matter
		return nil
	})
	return l, nil
}

// writeSeed writes the images from which the guest configures itself, if there are any.
func (l *Launch) writeSeed() error {
	if l.vm.Answers != nil {
		if err := disk.WriteAnswers(filepath.Join(l.vm.RuntimeDir, prepare.SysprepImage), l.vm.Answers); err != nil {
			return err
		}
	}
	if l.vm.Seed == nil {
		return nil
	}
	return disk.Write(filepath.Join(l.vm.RuntimeDir, prepare.CloudInitImage), *l.vm.Seed)
}

// Start carries the plan out, up to the point where QEMU runs, paused.
func (l *Launch) Start(ctx context.Context) (*Processes, error) {
	if err := l.makeFiles(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Dir(l.vm.CopySocket()), 0o700); err != nil {
		return nil, err
	}
	if err := l.openDescriptors(ctx); err != nil {
		return nil, err
	}
	monitor, place, err := l.openMonitor(ctx)
	if err != nil {
		return nil, err
	}
	defer monitor.Close() // QEMU has its own
	defer place.Close()
	if err := l.startHelpers(ctx, true); err != nil {
		return nil, err
	}
	if err := l.seeding.Wait(); err != nil {
		return nil, err
	}
	if err := l.startQEMU(ctx, monitor, place); err != nil {
		return nil, err
	}
	if err := l.startHelpers(ctx, false); err != nil {
		return nil, err
	}
	if held := l.vm.Held; held != nil && held.Loopback != "" {
		l.log.Warn("the guest reaches the host's loopback addresses", "reason", held.Loopback)
	}
	return &l.started, l.closeListeners()
}

// makeFiles makes the files of the plan, and makes way for its sockets.
func (l *Launch) makeFiles() error {
	if err := cleanup.RemoveSockets(l.vm); err != nil {
		return err
	}
	l.undo.AddSockets(l.vm)
	if err := cleanup.RemoveHalfWritten(l.vm); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	if err := l.writeSecrets(); err != nil {
		return err
	}
	for _, f := range l.vm.Plan.Files {
		replaced, err := copyOnce(f)
		if err != nil {
			return fmt.Errorf("make %s: %w", f.To, err)
		}
		if replaced != "" {
			l.log.Warn("file of another kind set aside", "file", f.To, "kept", replaced, "kind", f.Kind)
		}
	}
	if err := l.vm.KeepBases(); err != nil {
		return err
	}
	return l.findTPM()
}

// writeSecrets writes what QEMU reads only while it starts.
func (l *Launch) writeSecrets() error {
	l.undo.AddMachine("files of passwords", func() error { return cleanup.RemoveSecrets(l.vm) })
	for _, s := range vmtypes.Secrets(l.vm.Spec, l.vm.RuntimeDir) {
		if err := durable.Write(s.Path, []byte(s.Value), 0o600, durable.Volatile); err != nil {
			return fmt.Errorf("write the password of a drive: %w", err)
		}
	}
	return nil
}

// openDescriptors makes the taps and listening sockets.
func (l *Launch) openDescriptors(ctx context.Context) error {
	l.files = map[string]*os.File{}
	for _, t := range l.vm.Plan.Taps {
		tap, err := openTap(ctx, t, l.vm.Spec.UUID, l.log)
		if err != nil {
			return err
		}
		l.undo.AddMachine("tap "+t.Name, tap.Close)
		for i, f := range tap.Files() {
			l.files[plan.Queue(t.Name, i)] = f
		}
		l.inherited = append(l.inherited, tap.Inherit()...)
	}
	for _, at := range l.vm.Plan.Listeners {
		f, err := listen(at.Path)
		if err != nil {
			return fmt.Errorf("listen on socket of %s: %w", at.Name, err)
		}
		l.undo.Add("listener "+at.Name, func() error { return closeOnce(f) })
		l.files[at.Name] = f
	}
	return l.connectClients()
}

// connectClients connects with the listening sockets whose clients are processes of the
// plan; a connection waits there until it is accepted.
func (l *Launch) connectClients() error {
	for _, at := range l.vm.Plan.Listeners {
		name := plan.Client(at.Name)
		if !slices.ContainsFunc(l.vm.Plan.Helpers, func(h plan.Process) bool {
			return slices.Contains(h.Descriptors(), name)
		}) {
			continue
		}
		f, err := dial(at.Path)
		if err != nil {
			return fmt.Errorf("connect with socket of %s: %w", at.Name, err)
		}
		l.undo.Add("client of "+at.Name, func() error { return closeOnce(f) })
		l.files[name] = f
	}
	return nil
}

// closeListeners closes the listening sockets and the connections with them, which the
// processes have inherited: when the process at one end has ended, the other must see it.
func (l *Launch) closeListeners() error {
	var errs []error
	for _, at := range l.vm.Plan.Listeners {
		errs = append(errs, closeOnce(l.files[at.Name]))
		if f := l.files[plan.Client(at.Name)]; f != nil {
			errs = append(errs, closeOnce(f))
		}
	}
	return errors.Join(errs...)
}

func closeOnce(f *os.File) error {
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// listen returns a listening unix socket (mode 0600) as a file.
//
// See docs/decisions/0003-listening-sockets.md.
func listen(path string) (*os.File, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	err = errors.Join(err, l.Close())
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// openMonitor makes the listening socket of QEMU's monitor and connects to it:
// what is said before QEMU runs waits in the socket. place keeps the socket reachable when its
// path is removed (package sockets).
func (l *Launch) openMonitor(ctx context.Context) (monitor, place *os.File, err error) {
	path := filepath.Join(l.vm.RuntimeDir, prepare.MonitorSocket)
	if monitor, err = qmp.Listen(path); err != nil {
		return nil, nil, err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("connect to QEMU's monitor: %w", err), monitor.Close())
	}
	if place, err = sockets.Open(path); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("keep QEMU's monitor: %w", err), conn.Close(), monitor.Close())
	}
	l.started.Monitor = qmp.New(conn, qmp.WithTrace(l.log))
	l.undo.Add("monitor", l.started.Monitor.Close)
	return monitor, place, nil
}

// startHelpers starts the helpers that QEMU must find ready, and waits until
// they are; or it starts the others, which QEMU finds at a listening socket: QEMU
// takes longer to get there than they do to come up.
func (l *Launch) startHelpers(ctx context.Context, first bool) error {
	var list []plan.Process
	before := len(l.started.Helpers)
	for i, h := range l.vm.Plan.Helpers {
		if first != awaited(h) {
			continue
		}
		list = append(list, h)
		p, err := l.startProcess(ctx, i, nil, l.lock.Files())
		if err != nil {
			return err
		}
		l.started.Helpers = append(l.started.Helpers, p)
	}
	if !first {
		return nil
	}
	for i, h := range list {
		if err := waitReady(ctx, l.started.Helpers[before+i], h); err != nil {
			return err
		}
	}
	return nil
}

// startQEMU starts QEMU, paused, with the monitor on its listening socket. The last descriptor is
// the place of that; QEMU doesn't know of it.
func (l *Launch) startQEMU(ctx context.Context, monitor, place *os.File) error {
	q := l.vm.Plan.QEMU
	fd := 3 + len(q.Descriptors())
	own := []string{
		"-S",
		"-chardev", "socket,id=" + holders.MonitorID + ",fd=" + strconv.Itoa(fd) + ",server=on,wait=off",
		"-mon", holders.MonitorOption,
	}
	if l.Incoming {
		own = append(own, "-incoming", "defer")
	}
	files := slices.Concat([]*os.File{monitor}, l.lock.Files(), l.inherited, []*os.File{place})
	var err error
	l.started.QEMU, err = l.startProcess(ctx, len(l.vm.Plan.Helpers), own, files)
	return err
}

// startProcess starts the process with a place in plan.Processes, with arguments and
// descriptors of the runner's own after those of the plan.
func (l *Launch) startProcess(
	ctx context.Context, place int, args []string, files []*os.File,
) (*process.Process, error) {
	started, err := startPlanned(l.vm, place, args, l.files, files, l.log)
	if err != nil {
		return nil, err
	}
	l.undo.AddProcess(ctx, started)
	planned := l.vm.Plan.Processes()[place]
	l.recordHeld(planned, started.Held())
	if err := started.Misplaced(); err != nil {
		text := fmt.Sprintf("%s does not run on the CPUs %s of the host alone: %s", planned.Name,
			plan.CPUList(planned.CPUs), err)
		l.vm.Misplaced = append(l.vm.Misplaced, text)
		l.log.Warn(text)
	}
	return started, nil
}

// startPlanned starts the process with a place in plan.Processes, held to what the plan
// says that it needs; named are the descriptors that the plan has names for.
func startPlanned(vm *prepare.VM, place int, args []string, named map[string]*os.File, files []*os.File,
	log *slog.Logger,
) (*process.Process, error) {
	p := vm.Plan.Processes()[place]
	words := append(p.Argv(), args...)
	if place == len(vm.Plan.Helpers) {
		words = slices.Concat(vm.Sandbox, words)
	}
	spec := process.Spec{
		Name: p.Name, Path: p.Executable, Args: words, Dir: p.Dir, Env: environment(p.Env),
		Rules: vm.ConfinementOf(place).Kernel(), CPUs: p.CPUs,
	}
	for _, name := range p.Descriptors() {
		spec.Files = append(spec.Files, named[name])
	}
	spec.Files = slices.Concat(spec.Files, files)
	return process.Start(spec, log)
}
