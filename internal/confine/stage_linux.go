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

// A Stage is this program in a new user namespace, where it can create a root folder without privileges. There it
// applies the rules to itself and becomes another program. It is a process because a thread can't enter a user
// namespace while its program has other threads.
//
// See user_namespaces(7) and docs/decisions/0178-own-root-without-root.md.
type Stage struct {
	Rules Rules
	Path  string   // the program that the stage becomes
	Args  []string // with the program's own name
	Dir   string   // working directory; "" means the root folder
}

// stageName is the first argument of this program as a stage. The second is the number of its descriptor.
const stageName = "vmop-confine"

// denied is the argument of Serve. Only a program that has called Serve can be a stage.
var denied Deny

// CanStage reports whether a process under the rules needs a stage to get its own root folder: the caller lacks
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
		n, known := capabilityNumbers()[name]
		needs = needs || !known || has(n)
	}
	return !needs
}

// answer is a stage's report, before it becomes the program or after a failure. Hold's file is attached to it.
type answer struct {
	Held  Held
	Fault string
	Errno syscall.Errno
}

// largestPacket is the maximum size of an order and an answer, in bytes.
const largestPacket = 1 << 20

// Start starts the stage with the attributes of the program. attributes.Dir must be empty. It returns after the
// stage has become the program, or has failed. It returns Hold's file. If the error wraps ErrNoNamespace, the kernel
// refused the process, and the caller can try another way.
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
	sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE} // only in the namespace; Hold drops them
	attributes.Sys = &sys
	place := len(attributes.Files)
	attributes.Files = append(attributes.Files[:place:place], theirs)
	p, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], stageName, strconv.Itoa(place)}, &attributes)
	_ = theirs.Close()
	if err != nil {
		return nil, held, nil, fmt.Errorf("%w: %w", ErrNoNamespace, err)
	}
	if held, calls, err = s.converseWith(pair[0]); err != nil {
		_ = p.Kill()
		_, _ = p.Wait()
		return nil, held, nil, err
	}
	return p, held, calls, nil
}

// ErrNoNamespace means that the kernel or its administrator doesn't permit user namespaces.
var ErrNoNamespace = errors.New("no user namespace")

// converseWith sends the stage its order and returns its report. If the socket ends without an error report, the stage
// has become the program.
func (s Stage) converseWith(socket int) (held Held, calls *os.File, err error) {
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

// receiveAnswer receives an answer and its attached file. The error is io.EOF if the stage has become the program,
// or has ended.
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

// Serve turns this process into the program of a Stage if the process was started for that; it returns only
// otherwise. Call it first in main. deny is passed to Hold.
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
		_ = sendReport(socket, s.becomeProgram(socket), nil)
	}
	os.Exit(1)
}

// sendReport sends an answer, with the file if it isn't nil.
func sendReport(socket int, a answer, calls *os.File) error {
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

// becomeProgram applies the rules, reports the restrictions that apply, and becomes the program. It returns only after
// a failure, with the reason.
func (s Stage) becomeProgram(socket int) (a answer) {
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
	if err := sendReport(socket, a, calls); err != nil {
		return fails("report what holds", err)
	}
	return fails("fork/exec", unix.Exec(s.Path, s.Args, os.Environ()))
}

// forbidNamespaces keeps the process from creating user namespaces, where it would have all capabilities over the
// resources inside. The limit applies to this namespace. It is optional: the rules also apply without it.
func forbidNamespaces() { _ = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0) }
