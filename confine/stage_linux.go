package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Stage is this program in a user namespace of its own, where it may make a root folder without privileges. There it
// takes the rules and becomes another program. A thread can't enter a user namespace while the program has others.
//
// See user_namespaces(7) and docs/decisions/0178-own-root-without-root.md.
type Stage struct {
	Rules Rules
	Path  string   // of the program that the stage becomes
	Args  []string // with the program's own name
	Dir   string   // working directory, "" for the root folder
}

// stageName is the first argument of this program as a stage; the number of its descriptor follows it.
const stageName = "vmop-confine"

// denied is what Serve got: only such a program can be a stage.
var denied Deny

// CanStage reports whether a process under the rules gets its own root folder only from a stage: the caller lacks
// CAP_SYS_ADMIN, and the process needs no other capability of the host. The program must have called Serve.
func (r *Rules) CanStage() bool {
	if denied == nil {
		return false
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if unix.Capget(&header, &sets[0]) != nil {
		return false
	}
	has := func(n int) bool { return sets[n/32].Effective&(1<<(n%32)) != 0 }
	needs := has(unix.CAP_SYS_ADMIN)
	for _, name := range r.Capabilities {
		n, known := numbers()[name]
		needs = needs || !known || has(n)
	}
	return !needs
}

// answer is what a stage reports before it becomes the program, or in its place. With it goes the file of Hold.
type answer struct {
	Held  Held
	Fault string
	Errno syscall.Errno
}

// largestPacket bounds an order and an answer, in bytes.
const largestPacket = 1 << 20

// Start starts the stage with the attributes of the program, whose Dir must be empty. It returns when the stage has
// become the program, or could not. The file is that of Hold. An error that wraps ErrNoNamespace means that nothing was
// tried.
func (s Stage) Start(attributes os.ProcAttr) (_ *os.Process, held Held, calls *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, held, nil, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), stageName)
	sys := syscall.SysProcAttr{}
	if attributes.Sys != nil {
		sys = *attributes.Sys
	}
	sys.Cloneflags |= unix.CLONE_NEWUSER
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE} // of the namespace; Hold gives them up
	attributes.Sys = &sys
	place := len(attributes.Files)
	attributes.Files = append(attributes.Files[:place:place], theirs)
	p, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], stageName, strconv.Itoa(place)}, &attributes)
	_ = theirs.Close()
	if err != nil {
		return nil, held, nil, fmt.Errorf("%w: %w", ErrNoNamespace, err)
	}
	if held, calls, err = s.converse(pair[0]); err != nil {
		_ = p.Kill()
		_, _ = p.Wait()
		return nil, held, nil, err
	}
	return p, held, calls, nil
}

// ErrNoNamespace means that the kernel, or who has set it up, permits no user namespace.
var ErrNoNamespace = errors.New("no user namespace")

// converse sends the stage its order and returns what it reports. The end of the socket without a fault means that
// the stage has become the program.
func (s Stage) converse(socket int) (held Held, calls *os.File, err error) {
	order, err := json.Marshal(s)
	if err == nil {
		err = unix.Sendmsg(socket, order, nil, nil, unix.MSG_NOSIGNAL)
	}
	if err != nil {
		return held, nil, fmt.Errorf("send the rules: %w", err)
	}
	a, calls, err := receiveAnswer(socket)
	if err == nil && a.Fault == "" {
		held = a.Held
		if a, _, err = receiveAnswer(socket); errors.Is(err, io.EOF) {
			return held, calls, nil
		}
	}
	if calls != nil {
		_ = calls.Close()
	}
	switch {
	case err != nil:
		return held, nil, fmt.Errorf("the process has ended before it took the rules: %w", err)
	case a.Errno != 0:
		return held, nil, &os.PathError{Op: a.Fault, Path: s.Path, Err: a.Errno}
	}
	return held, nil, errors.New(a.Fault)
}

// receiveAnswer receives an answer, and the file that comes with it. The error is io.EOF when the stage has become the
// program, or has ended.
func receiveAnswer(socket int) (a answer, calls *os.File, err error) {
	text, rights := make([]byte, largestPacket), make([]byte, unix.CmsgSpace(4))
	n, rightsLength := 0, 0
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		n, rightsLength, _, _, err = unix.Recvmsg(socket, text, rights, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return a, nil, os.NewSyscallError("recvmsg", err)
	}
	if n == 0 {
		return a, nil, io.EOF
	}
	if messages, err := unix.ParseSocketControlMessage(rights[:rightsLength]); err == nil && len(messages) == 1 {
		if fds, err := unix.ParseUnixRights(&messages[0]); err == nil && len(fds) == 1 {
			calls = os.NewFile(uintptr(fds[0]), "system calls")
		}
	}
	return a, calls, json.Unmarshal(text[:n], &a)
}

// Serve becomes the program that a Stage names if this process was started for that, and doesn't return then. It must
// be called first in main. deny is for Hold.
func Serve(deny Deny) {
	denied = deny
	if len(os.Args) != 3 || os.Args[1] != stageName {
		return
	}
	socket, err := strconv.Atoi(os.Args[2])
	if err != nil {
		os.Exit(1)
	}
	runtime.LockOSThread()
	unix.CloseOnExec(socket)
	text := make([]byte, largestPacket)
	n, err := unix.Read(socket, text)
	var s Stage
	if err == nil && json.Unmarshal(text[:n], &s) == nil {
		_ = send(socket, s.become(socket), nil)
	}
	os.Exit(1)
}

// send sends an answer, with the file if there is one.
func send(socket int, a answer, calls *os.File) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	var rights []byte
	if calls != nil {
		rights = unix.UnixRights(int(calls.Fd()))
	}
	return unix.Sendmsg(socket, text, rights, nil, unix.MSG_NOSIGNAL)
}

// become takes the rules, reports what holds, and becomes the program. It returns why it didn't.
func (s Stage) become(socket int) (a answer) {
	fails := func(what string, err error) answer {
		a.Fault = fmt.Sprintf("%s: %v", what, err)
		if errors.As(err, &a.Errno) {
			a.Fault = what
		}
		return a
	}
	forbidNamespaces()
	held, calls, err := s.Rules.Hold(denied)
	if err != nil {
		return fails("confine it", err)
	}
	a.Held = held
	if s.Dir != "" {
		if err := os.Chdir(s.Dir); err != nil {
			return fails("chdir", err)
		}
	}
	if err := send(socket, a, calls); err != nil {
		return fails("report what holds", err)
	}
	return fails("fork/exec", unix.Exec(s.Path, s.Args, os.Environ()))
}

// forbidNamespaces keeps the process from making user namespaces, in which it would have all capabilities over what
// is in them. It is a limit of this namespace, and without it the rules hold all the same.
func forbidNamespaces() { _ = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0) }
