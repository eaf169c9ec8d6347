package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"vmop/internal/childprocess"
	"vmop/runner/adopt/holders"
	"vmop/runner/adopt/lock"
	"vmop/runner/adopt/record"
	"vmop/runner/control"
	"vmop/runner/prepare"
	"vmop/vmstatus"
)

// Time limits of Reach and StopAt for the runner.
const (
	pingTime    = 10 * time.Second // for an answer
	socketTime  = 3 * time.Second  // for its socket; the runner creates a removed socket again
	forceTime   = 10 * time.Second // to begin to end the VM by force
	forcedTime  = time.Minute      // to have ended the VM
	reachPeriod = 20 * time.Millisecond
)

// An UnreachableError reports that a VM is running but its runner can't be reached.
type UnreachableError struct {
	// PID is the runner's process.
	PID int
	// Socket is the path that leads to no runner; empty if the runner does not answer.
	Socket string
	// Suspended reports that a signal, such as SIGSTOP, has suspended the runner.
	Suspended bool
}

// Error implements error.
func (e *UnreachableError) Error() string {
	const remedies = "stop the VM by: vmrunner stop NAME, or end it by: vmrunner stop NAME --force"
	switch {
	case e.Suspended:
		return fmt.Sprintf("the VM is running, but its runner (process %d) was suspended by a signal; continue it by: "+
			"kill -CONT %[1]d, or end the VM by: vmrunner stop NAME --force", e.PID)
	case e.Socket != "":
		return fmt.Sprintf("the VM is running (runner: process %d), but its socket %s was removed, and the runner has not "+
			"made it again: the directory may come back when you log in; %s", e.PID, e.Socket, remedies)
	}
	return fmt.Sprintf("the VM is running, but its runner (process %d) did not answer; %s", e.PID, remedies)
}

// Reach connects to the runner of the VM with these directories, and checks that it answers. dataDir may be empty
// if the record in runtimeDir contains it. The error is an *UnreachableError, or control.ErrNotRunning if the VM
// has no runner.
func Reach(ctx context.Context, runtimeDir, dataDir string) (*control.Client, error) {
	socket := filepath.Join(runtimeDir, control.SocketName)
	for begin := time.Now(); ; {
		client, err := control.Dial(ctx, socket)
		if dataDir == "" {
			dataDir = dataDirOf(runtimeDir)
		}
		switch {
		case err == nil:
			return client, checkAnswers(ctx, client, dataDir)
		case !errors.Is(err, control.ErrNotRunning):
			return nil, err
		}
		runner := holders.Runner(dataDir)
		if runner == (childprocess.ID{}) {
			return nil, err
		}
		if runner.Stopped() || time.Since(begin) > socketTime {
			return nil, &UnreachableError{PID: runner.PID, Socket: socket, Suspended: runner.Stopped()}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(reachPeriod):
		}
	}
}

// checkAnswers checks that a runner answers.
func checkAnswers(ctx context.Context, client *control.Client, dataDir string) error {
	asking, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	runner := holders.Runner(dataDir)
	if runner.Stopped() {
		cancel()
	}
	_, err := client.Status(asking)
	if err == nil || errors.As(err, new(*control.AnswerError)) {
		return nil
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case asking.Err() != nil:
		return &UnreachableError{PID: runner.PID, Suspended: runner.Stopped()}
	}
	return nil // it has just ended; the next request reports it
}

// dataDirOf returns the data directory of the VM with a runtime directory; empty if it isn't known.
func dataDirOf(runtimeDir string) string {
	r, _, err := record.Read(runtimeDir)
	if err != nil {
		return ""
	}
	return r.DataDir
}

// noteUnanswered sets the state of a VM without a runner that answers, and the reason.
func (vm *VM) noteUnanswered(err error) {
	if vm.DataDir == "" {
		vm.DataDir = dataDirOf(vm.RuntimeDir)
	}
	runner := holders.Runner(vm.DataDir)
	lost := vm.DataDir != "" && lock.Lost(vm.DataDir)
	socket := ""
	if errors.Is(err, control.ErrNotRunning) {
		socket = filepath.Join(vm.RuntimeDir, control.SocketName)
	}
	_, began := record.Linked(vm.DataDir, "")
	switch {
	case runner != (childprocess.ID{}) && (socket == "" || began || lost):
		vm.State = StateNoAnswer
		vm.Problem = (&UnreachableError{PID: runner.PID, Socket: socket, Suspended: runner.Stopped()}).Error()
		return
	case socket == "":
		vm.State, vm.Problem = StateNoAnswer, err.Error()
		return
	}
	pid, file := record.Left(vm.RuntimeDir)
	if pid == 0 && lost {
		pid = qemuOf(vm.DataDir)
	}
	switch {
	case pid != 0 && lost:
		vm.State, vm.lost = StateNoRunner, true
		vm.Problem = fmt.Sprintf("the VM is running (QEMU is process %d), but has no runner, and its data directory %s was "+
			"removed or renamed; put the directory back and start the VM, or end it by: vmrunner stop %s --force", pid,
			vm.DataDir, vm.Name)
	case pid != 0:
		vm.State = StateNoRunner
		begin := "start " + vm.Name
		if vm.Place == nil {
			begin = "run -c " + cmp.Or(file, "FILE")
		}
		vm.Problem = fmt.Sprintf("the VM is running (QEMU is process %d) but has no runner; start one by: vmrunner %s, "+
			"or end the VM by: vmrunner stop %s --force", pid, begin, vm.Name)
	default:
		vm.Ended = lastEnd(vm.DataDir)
	}
}

// qemuOf returns the process of QEMU of the machine that had a data directory; 0 if it doesn't exist.
func qemuOf(dataDir string) int {
	found, err := holders.Of(dataDir, lock.MachineFile)
	if err != nil {
		return 0
	}
	return holders.FindQEMU(found).PID
}

// lastEnd returns how the last run of a stopped VM ended; nil if it isn't known.
func lastEnd(dataDir string) *record.End {
	if end, there, err := record.ReadEnd(dataDir); err == nil && there {
		return &end
	}
	if _, began := record.Linked(dataDir, ""); dataDir == "" || !began {
		return nil
	}
	lost := record.Lost()
	return &lost
}

// stopProcesses stops a VM with an unreachable runner through the processes that hold its locks. It sends TERM to
// the runner, which asks the guest. With force it ends all processes. With wait it returns when they have ended.
// The error is control.ErrNotRunning if there are no such processes.
func stopProcesses(ctx context.Context, runtimeDir, dataDir string, force, wait bool) error {
	if dataDir == "" {
		dataDir = dataDirOf(runtimeDir)
	}
	if dataDir == "" {
		return fmt.Errorf("the data directory of the VM is not known: %w", control.ErrNotRunning)
	}
	if force {
		return endProcesses(ctx, runtimeDir, dataDir)
	}
	runner, err := holders.AskGuest(dataDir)
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return fmt.Errorf("%w: it has no runner", control.ErrNotRunning)
	case err != nil:
		return err
	case runner.Stopped():
		return &UnreachableError{PID: runner.PID, Suspended: true}
	case !wait:
		return nil
	}
	return runner.Await(ctx)
}

// endProcesses ends all processes of a VM, and records the end.
func endProcesses(ctx context.Context, runtimeDir, dataDir string) error {
	end := record.End{
		Cause: vmstatus.CauseForced, Note: "its runner could not be asked, and was killed", At: time.Now(),
	}
	r, _, _ := record.Read(runtimeDir) // unreadable parts of the record stay empty
	end.Began, end.UUID = r.Began, r.UUID
	lost := lock.Lost(dataDir)
	runner := holders.Runner(dataDir)
	stopped := stopServiceOf(ctx, runner)
	if stopped != nil {
		stopped = fmt.Errorf("the VM has ended, but systemd may start it again: %w", stopped)
	}
	ended, err := holders.End(ctx, dataDir)
	switch {
	case err != nil:
		return err
	case !ended && runner == (childprocess.ID{}):
		return control.ErrNotRunning
	case !ended: // systemd has continued the runner, which has ended the VM
		return stopped
	}
	// Remove the files that mark the VM as running; the next start removes the rest.
	for _, name := range []string{control.SocketName, prepare.MonitorSocket, prepare.RecordFile} {
		_ = os.Remove(filepath.Join(runtimeDir, name)) // even if it fails, the next start works
	}
	if lost {
		return stopped
	}
	_ = os.Remove(filepath.Join(dataDir, prepare.RuntimeLink))
	if err := end.Write(dataDir); err != nil {
		return errors.Join(stopped, fmt.Errorf("the VM has ended, but that can't be noted: %w", err))
	}
	return stopped
}
