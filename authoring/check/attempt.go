package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// An attempt is one start of QEMU with its helpers.
type attempt struct {
	*trial
	args   []plan.Option
	reason string // why a device was lost
	open   map[string]*os.File
	// answering contains the listeners that replace absent helpers.
	answering []net.Listener
	running   []*child
}

// A child is a process of an attempt.
type child struct {
	name   string
	cmd    *exec.Cmd
	stderr bytes.Buffer // may be read after ended is closed
	ended  chan struct{}
}

// runningProcess returns QEMU's process with the replaced options.
func (a *attempt) runningProcess() plan.Process {
	q := a.plan.QEMU
	q.Args = a.args
	return q
}

// startAndInspect starts QEMU and the helpers, inspects the machine, and stops them. It returns the index of an option
// with a missing device of the host, or -1. again means that the trial has changed, and requires another attempt.
func (a *attempt) startAndInspect(ctx context.Context, program string, r *Result) (lost int, again bool) {
	// The kernel ends the processes when this thread ends for any reason.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a.open = map[string]*os.File{}
	defer a.stopProcesses()
	if err := a.startHelpers(ctx); err != nil {
		*r = r.untestable(err)
		return -1, false
	}
	near, far, err := socketPair()
	if err != nil {
		*r = r.untestable(err)
		return -1, false
	}
	session := qmp.New(near)
	defer session.Close()
	qemu, err := a.startQEMU(ctx, program, far)
	far.Close()
	for _, listener := range a.open {
		listener.Close() // otherwise QEMU would wait for a helper that has ended
	}
	if err != nil {
		*r = r.untestable(err)
		return -1, false
	}
	m := inspection{ctx: ctx, session: session, plan: a.plan, args: a.args}
	err = m.examineMachine(r)
	if err == nil {
		err = m.quitQEMU()
	}
	<-qemu.watchExit(err)
	said := strings.TrimSpace(qemu.stderr.String())
	switch {
	case err == nil:
		r.Warnings = a.planWarnings(said)
	case ctx.Err() != nil:
		r.Failures = []Failure{{Message: "QEMU has not created the machine: " + context.Cause(ctx).Error()}}
	case said == "":
		r.Failures = []Failure{{Message: fmt.Sprintf("QEMU ended (%s) without a message: %v",
			qemu.cmd.ProcessState, err)}}
	default:
		if lost := a.lostDeviceOption(said); lost >= 0 {
			return lost, true
		}
		if strings.Contains(said, noMemory) && !a.unreserved {
			a.unreserved = true
			return -1, true
		}
		if what := a.missingHostPart(said); what != "" {
			r.Untried = "it needs " + what
			return -1, false
		}
		r.Failures = []Failure{{Message: said + a.helpersSaid()}}
	}
	return -1, false
}

// noMemory is the text in QEMU's errors if the host does not have enough memory for the guest.
const noMemory = "Cannot allocate memory"

// watchExit returns a channel that is closed when QEMU has ended. It kills QEMU after a failed query.
func (c *child) watchExit(err error) <-chan struct{} {
	if err != nil && !errors.Is(err, qmp.ErrClosed) {
		_ = c.cmd.Process.Kill() // it may already have ended
	}
	return c.ended
}

// lostDeviceOption returns the index of the option with a device of the host that cannot be opened, or -1.
func (a *attempt) lostDeviceOption(said string) int {
	option := a.runningProcess().Blame(said)
	if option == nil || option.Flag != "-device" {
		return -1
	}
	onHost := strings.HasPrefix(option.Value, "vfio-") || strings.HasPrefix(option.Value, "vhost-vsock") ||
		strings.HasPrefix(option.Value, "vhost-scsi")
	if !onHost || !slices.ContainsFunc(cannotOpen,
		func(text string) bool { return strings.Contains(strings.ToLower(said), text) }) {
		return -1
	}
	_, a.reason, _ = strings.Cut(said, optionText(*option)+": ")
	a.reason, _, _ = strings.Cut(a.reason, "\n")
	return slices.IndexFunc(a.args, func(o plan.Option) bool { return optionText(o) == optionText(*option) })
}

// cannotOpen contains texts from QEMU's errors about a device that cannot be opened.
var cannotOpen = []string{
	"no such file", "to open", "permission denied", "no such host device", "no iommu group",
	"inappropriate ioctl",
}

// lacksOfKVM contains texts from QEMU's errors about features that the host's KVM lacks, for example in a virtual
// machine.
var lacksOfKVM = []string{
	"System Management Mode not supported by this hypervisor", "kernel doesn't allow setting HyperV",
}

// missingHostPart returns what this computer lacks, if QEMU reports no other reason.
func (a *attempt) missingHostPart(said string) string {
	if lower := strings.ToLower(said); a.withoutKVM &&
		(strings.Contains(lower, "kvm") || strings.Contains(lower, "kernel irqchip")) {
		return "KVM"
	}
	for _, text := range lacksOfKVM {
		if strings.Contains(said, text) {
			return "a KVM that can do more than this computer's: " + text
		}
	}
	switch _, after, found := strings.Cut(said, "/dev/"); {
	case found && (strings.Contains(after, "No such file") || strings.Contains(after, "Permission denied")):
		return "/dev/" + after[:strings.IndexFunc(after+" ",
			func(r rune) bool { return strings.ContainsRune(" ':,;\n", r) })]
	case strings.Contains(said, noMemory):
		return "more memory than this computer promises (/proc/sys/vm/overcommit_memory)"
	}
	return ""
}

// notOurs are texts in QEMU's warnings that concern the computer or the replacements instead of the plan.
var notOurs = []string{
	"TCG doesn't support requested feature", "hub 9", "hub port", "VHOST_USER_PROTOCOL_F_CONFIG",
}

// planWarnings returns the lines of QEMU's output that concern the plan.
func (a *attempt) planWarnings(said string) []string {
	others := notOurs
	if !a.kvm {
		others = append(slices.Clone(others), "topoext", "doesn't support hyperthreading") // in TCG
	}
	var list []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line != "" && !slices.ContainsFunc(others, func(text string) bool { return strings.Contains(line, text) }) {
			list = append(list, line)
		}
	}
	return list
}

// startHelpers creates the sockets and starts the helpers.
func (a *attempt) startHelpers(ctx context.Context) error {
	answered := maps.Clone(a.answered)
	for _, l := range a.plan.Listeners {
		listener, err := a.listenOn(l.Path)
		if err != nil {
			return err
		}
		if answered[l.Path] {
			delete(answered, l.Path)
			a.answerOn(listener)
			continue
		}
		a.open[l.Name], err = listener.File()
		listener.Close()
		if err != nil {
			return fmt.Errorf("create the socket %s: %w", l.Path, err)
		}
	}
	for path := range answered {
		listener, err := a.listenOn(path)
		if err != nil {
			return err
		}
		a.answerOn(listener)
	}
	for _, h := range a.plan.Helpers {
		if h.Role == plan.RoleNetwork || a.absent[h.Name] {
			continue // a hub replaces the network
		}
		if err := a.startHelper(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// listenOn listens on the replacement of a unix socket.
func (a *attempt) listenOn(path string) (*net.UnixListener, error) {
	place := a.dir.substitutePath(path)
	_ = os.Remove(place) // from an earlier attempt
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: place, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("create the socket %s: %w", path, err)
	}
	listener.SetUnlinkOnClose(false)
	return listener, nil
}

// answerOn answers connections to a listener until the attempt ends.
func (a *attempt) answerOn(l net.Listener) {
	a.answering = append(a.answering, l)
	go answerAll(l)
}

func (a *attempt) startHelper(ctx context.Context, h plan.Process) error {
	path, err := findHelper(h)
	if err != nil {
		what := "the program " + filepath.Base(h.Executable) + ", which is not installed"
		return needsError{What: what, Program: true}
	}
	if h.Dir != "" && !isFolder(h.Dir) {
		if h.Dir, err = a.dir.emptyFolder(h.Dir); err != nil {
			return err
		}
	}
	h.Args = slices.Clone(h.Args)
	for i := range h.Args {
		h.Args[i].Flag = a.helperPath(h.Args[i].Flag)
		h.Args[i].Value = a.helperPath(h.Args[i].Value)
		h.Args[i].Properties = slices.Clone(h.Args[i].Properties)
		for j := range h.Args[i].Properties {
			h.Args[i].Properties[j].Value = a.helperPath(h.Args[i].Properties[j].Value)
		}
	}
	c, err := a.startProcess(ctx, h, path, nil)
	if err != nil || h.Ready == "" {
		return err
	}
	for ready := a.dir.substitutePath(h.Ready); ; {
		if _, err := os.Lstat(ready); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-c.ended:
			return fmt.Errorf("the helper %s ended: %s", h.Name, strings.TrimSpace(c.stderr.String()))
		case <-ctx.Done():
			return fmt.Errorf("the helper %s has not created %s", h.Name, h.Ready)
		case <-time.After(readyInterval):
		}
	}
}

// readyInterval is the polling interval for helpers to become ready.
const readyInterval = 5 * time.Millisecond

// helperPath replaces the path in an argument of a helper with its replacement in the folder, if one exists. A missing
// path becomes an empty folder.
func (a *attempt) helperPath(word string) string {
	lead, path, found := strings.Cut(word, "=/")
	if path = "/" + path; !found {
		lead, path = "", word
	} else {
		lead += "="
	}
	if !filepath.IsAbs(path) || strings.HasPrefix(path, a.dir.path) {
		return word
	}
	if place, known := a.dir.places[path]; known {
		return lead + place
	}
	if _, err := os.Stat(path); err == nil {
		return word
	}
	place, err := a.dir.emptyFolder(path)
	if err != nil {
		return word
	}
	return lead + place
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// startQEMU starts QEMU in the same way as the runner, with its monitor on a socket.
func (a *attempt) startQEMU(ctx context.Context, program string, monitor *os.File) (*child, error) {
	q := a.runningProcess()
	fd := strconv.Itoa(3 + len(q.Descriptors()))
	q.Args = slices.Clone(q.Args)
	if !slices.ContainsFunc(q.Args, func(o plan.Option) bool { return o.Flag == "-display" }) {
		// Without it, QEMU opens a window or a port.
		q.Args = append(q.Args, plan.Option{Flag: "-display", Value: "none"})
	}
	q.Args = append(q.Args, plan.Option{Flag: "-S"},
		plan.Option{Flag: "-chardev", Value: "socket,id=vmrunner-check,fd=" + fd},
		plan.Option{Flag: "-mon", Value: "chardev=vmrunner-check,mode=control"})
	q.Dir = ""
	return a.startProcess(ctx, q, program, monitor)
}

// startProcess starts a process of the plan.
func (a *attempt) startProcess(ctx context.Context, p plan.Process, program string, more *os.File) (*child, error) {
	c := &child{name: p.Name, cmd: exec.CommandContext(ctx, program, p.Argv()...), ended: make(chan struct{})}
	c.cmd.Dir = p.Dir
	if p.Dir == "" {
		c.cmd.Dir = a.dir.runtimeDir()
	}
	c.cmd.Env = os.Environ()
	for _, v := range p.Env {
		c.cmd.Env = append(c.cmd.Env, v.Name+"="+v.Value)
	}
	for _, name := range p.Descriptors() {
		c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, a.open[name])
	}
	if more != nil {
		c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, more)
	}
	c.cmd.Stderr = &bounded{buffer: &c.stderr}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	go func() { _ = c.cmd.Wait(); close(c.ended) }() // the output of the process shows the reason
	a.running = append(a.running, c)
	return c, nil
}

// bounded keeps the first mostSaid bytes of a process's output.
type bounded struct{ buffer *bytes.Buffer }

// mostSaid is the maximum size of the kept output, in bytes.
const mostSaid = 16 << 10

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := mostSaid - b.buffer.Len(); room > 0 {
		b.buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// helpersSaid ends the helpers and returns their output.
func (a *attempt) helpersSaid() string {
	var text strings.Builder
	for _, c := range a.running[:len(a.running)-1] {
		_ = c.cmd.Process.Kill() // it may already have ended
		<-c.ended
		if said := strings.TrimSpace(c.stderr.String()); said != "" {
			text.WriteString("\n" + c.name + ": " + said)
		}
	}
	return text.String()
}

// stopProcesses stops QEMU and the helpers.
func (a *attempt) stopProcesses() {
	for _, c := range slices.Backward(a.running) {
		_ = c.cmd.Process.Kill() // it may already have ended
		<-c.ended
	}
	for _, f := range a.open {
		_ = f.Close() // nothing was written
	}
	for _, l := range a.answering {
		_ = l.Close() // it may already be closed
	}
}

func socketPair() (near net.Conn, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	file := os.NewFile(uintptr(fds[0]), "monitor")
	defer file.Close()
	far = os.NewFile(uintptr(fds[1]), "monitor of QEMU")
	if near, err = net.FileConn(file); err != nil {
		far.Close()
	}
	return near, far, err
}
