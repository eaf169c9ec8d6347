package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"vmop/cloudinit/disk"
	"vmop/durable"
	"vmop/process"
	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/disks"
	"vmop/runner/drive"
	"vmop/runner/lock"
	"vmop/runner/machine"
	"vmop/runner/service"
	"vmop/runner/status"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// Bounds of the steps of a start.
const (
	helperTime = 10 * time.Second // until a helper is ready
	bootTime   = 60 * time.Second // from QEMU's start until the guest runs
	replyTime  = 10 * time.Second // for one answer of a QEMU that runs
)

// The runner's own name for QEMU's monitor.
const monitorID = "vmop-monitor"

// run is a VM from its start, or its adoption, to its end.
type run struct {
	vm      *VM
	log     *slog.Logger
	undo    *cleanup
	lock    *os.File            // of the machine; its processes inherit it
	files   map[string]*os.File // open descriptors, by their name in the plan
	helpers []*process.Process
	qemu    *process.Process
	session *qmp.Session         // the first one with QEMU's monitor, until the driver has it
	seeding errgroup.Group       // writes the cloud-init image
	adopted bool                 // the machine was found running
	wanted  *VM                  // what it is to be when the driver begins
	driver  *drive.Driver        // looks after the running machine
	outcome chan machine.Outcome // gets how it has ended
	sizes   *disks.Sizes
	// inherited are descriptors that QEMU holds for others, without knowing.
	inherited []*os.File

	file, vmTypes string         // of Options; file is absolute
	policy        *policy.Policy // nil allows everything
	policyFault   error          // of Options
	reread        <-chan struct{}
	grace         time.Duration    // of Options
	began         time.Time        // when the guest was let run
	progress      machine.Progress // where the driver begins

	tracker *status.Tracker         // what is known, for others
	server  *control.Server         // where they ask
	service *service.Service        // gets the status without asking
	cancel  context.CancelCauseFunc // ends the VM
}

// start brings the machine to the point where QEMU runs, paused. Whatever was
// done is noted in m.undo, also when it fails.
func (m *run) start(ctx context.Context) error {
	vm := m.vm
	if err := m.makeWayForSockets(); err != nil {
		return err
	}
	m.noteSockets()
	if err := durable.RemoveTemporary(vm.DataDir, vm.dataFiles()...); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	for _, f := range vm.Plan.Files {
		replaced, err := copyOnce(f)
		if err != nil {
			return fmt.Errorf("make %s: %w", f.To, err)
		}
		if replaced != "" {
			m.log.Warn("file of another kind set aside", "file", f.To, "kept", replaced, "kind", f.Kind)
		}
	}
	if err := m.openDescriptors(ctx); err != nil {
		return err
	}
	monitor, err := m.openMonitor(ctx)
	if err != nil {
		return err
	}
	defer monitor.Close() // QEMU has its own
	if err := m.startHelpers(ctx, true); err != nil {
		return err
	}
	if err := m.seeding.Wait(); err != nil {
		return err
	}
	if err := m.startQEMU(ctx, monitor); err != nil {
		return err
	}
	if err := m.startHelpers(ctx, false); err != nil {
		return err
	}
	return m.closeListeners()
}

// takeRuntimeDir makes the runtime directory, without what an earlier run has
// left in it.
func (m *run) takeRuntimeDir() error {
	dir := m.vm.RuntimeDir
	if err := makePrivateDir(dir); err != nil {
		return fmt.Errorf("make runtime directory: %w", err)
	}
	if err := m.mayTake(dir); err != nil {
		return err
	}
	m.noteRuntimeDir()
	if err := removeIfThere(filepath.Join(m.vm.DataDir, runtimeLink)); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	for _, name := range ownFiles {
		if err := removeIfThere(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what an earlier run left: %w", err)
		}
	}
	return nil
}

// mayTake makes sure that a runtime directory is not that of another VM, which
// runs: it could not be adopted any more.
func (m *run) mayTake(dir string) error {
	var other record
	if there, err := readJSON(filepath.Join(dir, recordFile), &other); err != nil || !there {
		return nil // what can't be read is of no use to anybody
	}
	theirLock, err := os.Open(filepath.Join(other.DataDir, lock.MachineFile))
	if err != nil {
		return nil // its data has gone
	}
	defer theirLock.Close()
	theirs, err := theirLock.Stat()
	if err != nil {
		return err
	}
	ours, err := m.lock.Stat()
	if err != nil || os.SameFile(theirs, ours) {
		return err
	}
	if free, err := lock.Try(theirLock); free || err != nil {
		return err
	}
	return fmt.Errorf("%s is the runtime directory of another VM, which runs, with its data in %s; choose another with runtimeDir", dir, other.DataDir)
}

// ownFiles are the runner's files in the runtime directory. The record goes
// first: without it there is no machine to be carried on.
var ownFiles = []string{recordFile, progressFile, typeFile, configFile, cloudInitImage}

// noteRuntimeDir notes what to remove at the end: the directory is the VM's.
func (m *run) noteRuntimeDir() {
	dir, link := m.vm.RuntimeDir, filepath.Join(m.vm.DataDir, runtimeLink)
	m.undo.addMachine(link, func() error {
		_ = os.Remove(link) // one that is left means nothing while the machine isn't locked
		return nil
	})
	m.undo.addMachine("runtime directory", func() error {
		if err := durable.RemoveTemporary(dir, ownFiles...); err != nil {
			return err
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			return nil // not ours alone
		}
		return removeDir(dir)
	})
	for _, name := range ownFiles {
		path := filepath.Join(dir, name)
		m.undo.addMachine(path, func() error {
			_ = m.seeding.Wait() // its error has been reported, or came too late to matter
			return removeIfThere(path)
		})
	}
}

// removeDir removes an empty directory, unless it is not the runner's to remove:
// a service manager's, who mounts it or keeps us from its parent.
func removeDir(dir string) error {
	err := os.Remove(dir)
	for _, kept := range []error{syscall.EBUSY, syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		if errors.Is(err, kept) {
			return nil
		}
	}
	return err
}

// dataFiles are the names of files that runners write in the data directory.
func (vm *VM) dataFiles() []string {
	names := []string{config.UUIDFile, pinnedType, pinnedMachines, endedFile}
	for _, f := range vm.Plan.Files {
		names = append(names, filepath.Base(f.To), filepath.Base(f.To)+kindSuffix)
	}
	return names
}

// makeWayForSockets removes sockets that an earlier run left.
func (m *run) makeWayForSockets() error {
	for _, path := range m.sockets() {
		if err := removeIfThere(path); err != nil {
			return fmt.Errorf("remove what an earlier run left: %w", err)
		}
	}
	return nil
}

// noteSockets notes to remove them at the end.
func (m *run) noteSockets() {
	for _, path := range m.sockets() {
		m.undo.addMachine(path, func() error { return removeIfThere(path) })
	}
}

// sockets returns the paths of those of the plan and of the monitor.
func (m *run) sockets() []string {
	paths := []string{filepath.Join(m.vm.RuntimeDir, monitorSocket)}
	for _, l := range m.vm.Plan.Listeners {
		paths = append(paths, l.Path)
	}
	for _, s := range m.vm.Plan.Sockets {
		paths = append(paths, s.Path)
	}
	return paths
}

// makePrivateDir makes a directory that only this user can look into. One that
// is there must be this user's: below /tmp another user may have made it, or a
// folder that leads there, and could exchange what is in it.
func makePrivateDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	if owner, err := ownerOf(path); err != nil || owner != os.Geteuid() {
		return errors.Join(err, fmt.Errorf("%s is not a directory of user %d; choose another with runtimeDir", path,
			os.Geteuid()))
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		parent, err := os.Stat(filepath.Dir(dir))
		if err != nil {
			return err
		}
		if parent.Mode().Perm()&everybodyWrites == 0 {
			continue
		}
		if owner, err := ownerOf(dir); err != nil || owner != os.Geteuid() && owner != 0 {
			return errors.Join(err,
				fmt.Errorf("%s, which leads to %s, is not a directory of user %d; choose another with runtimeDir", dir, path, os.Geteuid()))
		}
	}
	return os.Chmod(path, 0o700)
}

// everybodyWrites is the permission that makes a folder everybody's.
const everybodyWrites = 0o002

// ownerOf returns the number of the user whose directory path is, or -1 if it
// is none.
func ownerOf(path string) (int, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return -1, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok {
		return -1, nil
	}
	return int(owner.Uid), nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeSeed writes the cloud-init image, if there is one.
func (m *run) writeSeed() error {
	if m.vm.seed == nil {
		return nil
	}
	return disk.Write(filepath.Join(m.vm.RuntimeDir, cloudInitImage), *m.vm.seed)
}

// openDescriptors makes the taps and listening sockets.
func (m *run) openDescriptors(ctx context.Context) error {
	m.files = map[string]*os.File{}
	for _, t := range m.vm.Plan.Taps {
		tap, err := openTap(ctx, t, m.vm.Spec.UUID, m.log)
		if err != nil {
			return err
		}
		m.undo.addMachine("tap "+t.Name, tap.Close)
		m.files[t.Name] = tap.File()
		m.inherited = append(m.inherited, tap.Inherit()...)
	}
	for _, l := range m.vm.Plan.Listeners {
		f, err := listen(l.Path)
		if err != nil {
			return fmt.Errorf("listen on socket of %s: %w", l.Name, err)
		}
		m.undo.add("listener "+l.Name, func() error { return closeOnce(f) })
		m.files[l.Name] = f
	}
	return nil
}

// closeListeners closes the listening sockets, which the processes have
// inherited: when the process that serves one ends, connections must end, too.
func (m *run) closeListeners() error {
	var errs []error
	for _, l := range m.vm.Plan.Listeners {
		errs = append(errs, closeOnce(m.files[l.Name]))
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
// what is said before QEMU runs waits in the socket.
func (m *run) openMonitor(ctx context.Context) (*os.File, error) {
	path := filepath.Join(m.vm.RuntimeDir, monitorSocket)
	f, err := qmp.Listen(path)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to QEMU's monitor: %w", err), f.Close())
	}
	m.session = qmp.New(conn, qmp.WithTrace(m.log))
	m.undo.add("monitor", m.session.Close)
	return f, nil
}

// startHelpers starts the helpers that QEMU must find ready, and waits until
// they are; or it starts the others, which QEMU finds at a listening socket: QEMU
// takes longer to get there than they do to come up.
func (m *run) startHelpers(ctx context.Context, awaited bool) error {
	var list []plan.Process
	for _, h := range m.vm.Plan.Helpers {
		if awaited == (h.Ready != "") {
			list = append(list, h)
		}
	}
	first := len(m.helpers)
	for _, h := range list {
		p, err := m.startProcess(ctx, h, nil, []*os.File{m.lock}, nil)
		if err != nil {
			return err
		}
		m.helpers = append(m.helpers, p)
	}
	if !awaited {
		return nil
	}
	for i, h := range list {
		if err := waitReady(ctx, m.helpers[first+i], h); err != nil {
			return err
		}
	}
	return nil
}

// waitReady waits for the path that exists when a helper is ready.
func waitReady(ctx context.Context, p *process.Process, h plan.Process) error {
	ctx, cancel := context.WithTimeout(ctx, helperTime)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !exists(h.Ready) {
		select {
		case <-tick.C:
		case <-p.Done():
			return fmt.Errorf("%s ended before it was ready: %s%s", h.Name, p.Exit(), tail(p))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %s does not exist%s", h.Name, helperTime, h.Ready, tail(p))
		}
	}
	return nil
}

// tail returns, indented, the last that a process had to say, for an error.
func tail(p *process.Process) string {
	text := p.Tail()
	if text == "" {
		return ""
	}
	return "\n  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

// startQEMU starts QEMU, paused, with the monitor on its listening socket.
func (m *run) startQEMU(ctx context.Context, monitor *os.File) error {
	q := m.vm.Plan.QEMU
	fd := 3 + len(q.Descriptors())
	own := []string{
		"-S",
		"-chardev", "socket,id=" + monitorID + ",fd=" + strconv.Itoa(fd) + ",server=on,wait=off",
		"-mon", "chardev=" + monitorID + ",mode=control",
	}
	// Taps are the runner's: a guest that breaks out of QEMU must not have by them the
	// network that they are in, which may be a node's.
	drop := []int{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW}
	var err error
	m.qemu, err = m.startProcess(ctx, q, own, append([]*os.File{monitor, m.lock}, m.inherited...), drop)
	return err
}

// startProcess starts a process of the plan, with arguments and descriptors of
// the runner's own after those of the plan, and without some capabilities.
func (m *run) startProcess(ctx context.Context, p plan.Process, args []string, files []*os.File,
	drop []int,
) (*process.Process, error) {
	spec := process.Spec{Name: p.Name, Path: p.Executable, Args: append(p.Argv(), args...), Dir: p.Dir, Drop: drop}
	if len(p.Env) > 0 {
		spec.Env = os.Environ()
		for _, v := range p.Env {
			spec.Env = append(spec.Env, v.Name+"="+v.Value)
		}
	}
	for _, name := range p.Descriptors() {
		spec.Files = append(spec.Files, m.files[name])
	}
	spec.Files = slices.Concat(spec.Files, files)
	started, err := process.Start(spec, m.log)
	if err != nil {
		return nil, err
	}
	m.noteProcess(ctx, started)
	return started, nil
}

// noteProcess notes to end a process of the machine, if it doesn't by itself.
func (m *run) noteProcess(ctx context.Context, p *process.Process) {
	m.undo.addMachine(p.Name(), func() error { return endProcess(ctx, p) })
}
