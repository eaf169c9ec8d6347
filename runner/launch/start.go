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
	"vmop/internal/atomicfile"
	"vmop/internal/childprocess"
	"vmop/qmp"
	"vmop/runner/adopt/holders"
	"vmop/runner/adopt/lock"
	"vmop/runner/launch/cleanup"
	"vmop/runner/launch/sockets"
	"vmop/runner/prepare"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// Processes are QEMU and its helpers.
type Processes struct {
	QEMU    *childprocess.Process
	Helpers []*childprocess.Process // the running helpers
	// Monitor is the first session with QEMU's monitor; nil if QEMU was found running.
	Monitor *qmp.Session

	newTPM string // the state file of a newly created TPM; "" if the TPM already had a state
}

// A Launch is the start of one machine. It adds each step to an undo list, so that a failed start can be undone
// as well.
type Launch struct {
	vm   *prepare.VM
	lock *lock.Lock // of the machine; its processes inherit it
	undo *cleanup.List
	log  *slog.Logger
	// Incoming makes QEMU wait for a guest from another QEMU; see AcceptTPM.
	Incoming bool
	seeding  errgroup.Group      // writes the cloud-init image
	files    map[string]*os.File // open descriptors, by their name in the plan
	started  Processes
	// inherited are descriptors that QEMU holds open for others, without knowing about them.
	inherited []*os.File
}

// Begin takes the runtime directory of a VM that has no plan yet. It also starts to write the VM's cloud-init
// image, so that it is written while the plan is computed. held is the machine's lock.
func Begin(vm *prepare.VM, held *lock.Lock, undo *cleanup.List, log *slog.Logger) (*Launch, error) {
	l := &Launch{vm: vm, lock: held, undo: undo, log: log}
	if err := l.takeRuntimeDir(); err != nil {
		return nil, err
	}
	l.seeding.Go(func() error {
		childprocess.Prepare()
		return l.writeSeed()
	})
	undo.AddMachine("writing of the cloud-init image", func() error {
		_ = l.seeding.Wait() // its error was reported, or came too late to matter
		return nil
	})
	return l, nil
}

// writeSeed writes the cloud-init and Sysprep images, if any.
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

// Start executes the plan until QEMU runs, paused.
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
	defer monitor.Close() // QEMU has its own descriptor
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

// makeFiles creates the files of the plan, and removes old sockets.
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

// writeSecrets writes the passwords that QEMU reads only while it starts.
func (l *Launch) writeSecrets() error {
	l.undo.AddMachine("files of passwords", func() error { return cleanup.RemoveSecrets(l.vm) })
	for _, s := range vmtypes.Secrets(l.vm.Spec, l.vm.RuntimeDir) {
		if err := atomicfile.Write(s.Path, []byte(s.Value), 0o600, atomicfile.Volatile); err != nil {
			return fmt.Errorf("write the password of a drive: %w", err)
		}
	}
	return nil
}

// openDescriptors opens the taps and listening sockets.
func (l *Launch) openDescriptors(ctx context.Context) error {
	l.files = map[string]*os.File{}
	for _, t := range l.vm.Plan.Taps {
		tap, err := OpenTap(ctx, t, l.vm.Spec.UUID, l.log)
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
		f, err := listenAt(at.Path)
		if err != nil {
			return fmt.Errorf("listen on socket of %s: %w", at.Name, err)
		}
		l.undo.Add("listener "+at.Name, func() error { return closeOnce(f) })
		l.files[at.Name] = f
	}
	return l.connectClients()
}

// connectClients connects to the listening sockets that are used by helpers of the plan. A connection waits in
// the socket's queue until it is accepted.
func (l *Launch) connectClients() error {
	for _, at := range l.vm.Plan.Listeners {
		name := plan.Client(at.Name)
		if !slices.ContainsFunc(l.vm.Plan.Helpers, func(h plan.Process) bool {
			return slices.Contains(h.Descriptors(), name)
		}) {
			continue
		}
		f, err := dialSocket(at.Path)
		if err != nil {
			return fmt.Errorf("connect with socket of %s: %w", at.Name, err)
		}
		l.undo.Add("client of "+at.Name, func() error { return closeOnce(f) })
		l.files[name] = f
	}
	return nil
}

// closeListeners closes the listening sockets and the connections to them. The processes have inherited them, and
// when a process ends, the process at the other end must notice.
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

// listenAt returns a listening unix socket (mode 0600) as a file.
//
// See docs/decisions/0003-listening-sockets.md.
func listenAt(path string) (*os.File, error) {
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

// openMonitor creates the listening socket of QEMU's monitor and connects to it. Commands that are sent before
// QEMU runs wait in the socket. place keeps the socket reachable when its path is removed (package sockets).
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

// startHelpers starts some of the helpers. If first is true, it starts those that QEMU must find ready, and waits
// until they are ready. Otherwise it starts the rest, which QEMU reaches through a listening socket. They are
// ready sooner than QEMU needs them.
func (l *Launch) startHelpers(ctx context.Context, first bool) error {
	var list []plan.Process
	before := len(l.started.Helpers)
	for i, h := range l.vm.Plan.Helpers {
		if first != isAwaited(h) {
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

// startQEMU starts QEMU, paused, with the monitor on its listening socket. The last descriptor is the place of
// that socket, which QEMU itself does not use.
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

// startProcess starts the process at index place of plan.Processes. args and files are the runner's own
// additions, after the plan's arguments and descriptors.
func (l *Launch) startProcess(
	ctx context.Context, place int, args []string, files []*os.File,
) (*childprocess.Process, error) {
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

// startPlanned starts the process at index place of plan.Processes, confined to what it needs according to the
// plan. named contains the descriptors that have names in the plan.
func startPlanned(vm *prepare.VM, place int, args []string, named map[string]*os.File, files []*os.File,
	log *slog.Logger,
) (*childprocess.Process, error) {
	p := vm.Plan.Processes()[place]
	words := append(p.Argv(), args...)
	if place == len(vm.Plan.Helpers) {
		words = slices.Concat(vm.Sandbox, words)
	}
	spec := childprocess.Spec{
		Name: p.Name, Path: p.Executable, Args: words, Dir: p.Dir, Env: environmentOf(p.Env),
		Rules: vm.ConfinementOf(place).Kernel(), CPUs: p.CPUs,
	}
	for _, name := range p.Descriptors() {
		spec.Files = append(spec.Files, named[name])
	}
	spec.Files = slices.Concat(spec.Files, files)
	return childprocess.Start(spec, log)
}
