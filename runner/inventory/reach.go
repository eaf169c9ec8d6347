package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"vmop/process"
	"vmop/runner/control"
	"vmop/runner/holders"
	"vmop/runner/lock"
	"vmop/runner/prepare"
	"vmop/runner/record"
	"vmop/vmstatus"
)

// Limits for a runner whose VM is reached by Reach.
const (
	pingTime    = 10 * time.Second // for an answer
	socketTime  = 3 * time.Second  // for its socket, which it makes again if it was removed
	forceTime   = 10 * time.Second // to begin to end the VM by force
	forcedTime  = time.Minute      // to have ended it
	reachPeriod = 20 * time.Millisecond
)

// An UnreachableError says that a VM is running, but its runner can't be asked.
type UnreachableError struct {
	// PID is the runner.
	PID int
	// Socket is the path that leads to no runner; empty: the runner does not answer.
	Socket string
	// Suspended says that a signal, such as SIGSTOP, keeps the runner from running.
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
		return fmt.Sprintf("the VM is running (runner: process %d), but its socket %s was removed, and the runner can't make "+
			"it again: the directory may come back when you log in; %s", e.PID, e.Socket, remedies)
	}
	return fmt.Sprintf("the VM is running, but its runner (process %d) did not answer; %s", e.PID, remedies)
}

// Reach connects to the runner of the VM that has some directories, and makes sure that it
// answers. dataDir may be empty: then the record in runtimeDir has it. The error is
// an *UnreachableError, or control.ErrNotRunning if the VM has no runner.
func Reach(ctx context.Context, runtimeDir, dataDir string) (*control.Client, error) {
	socket := filepath.Join(runtimeDir, control.SocketName)
	for begin := time.Now(); ; {
		client, err := control.Dial(ctx, socket)
		if dataDir == "" {
			dataDir = dataDirOf(runtimeDir)
		}
		switch {
		case err == nil:
			return client, answers(ctx, client, dataDir)
		case !errors.Is(err, control.ErrNotRunning):
			return nil, err
		}
		runner := holders.Runner(dataDir)
		if runner == (process.ID{}) {
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

// answers makes sure that a runner answers.
func answers(ctx context.Context, client *control.Client, dataDir string) error {
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
	return nil // it has just ended, as the next request says
}

// dataDirOf returns the data directory of the VM that has a runtime directory; empty if it isn't
// known.
func dataDirOf(runtimeDir string) string {
	r, _, err := record.Read(runtimeDir)
	if err != nil {
		return ""
	}
	return r.DataDir
}

// unanswered notes what there is in place of a runner that answers, and why.
func (vm *VM) unanswered(err error) {
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
	case runner != (process.ID{}) && (socket == "" || began || lost):
		vm.State = StateNoAnswer
		vm.Problem = (&UnreachableError{PID: runner.PID, Socket: socket, Suspended: runner.Stopped()}).Error()
		return
	case socket == "":
		vm.State, vm.Problem = StateNoAnswer, err.Error()
		return
	}
	pid, _ := record.Left(vm.RuntimeDir)
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
		vm.Problem = fmt.Sprintf("the VM is running (QEMU is process %d) but has no runner", pid)
	default:
		vm.Ended = lastEnd(vm.DataDir)
	}
}

// qemuOf returns the QEMU of the machine that had a data directory; 0 if there is none.
func qemuOf(dataDir string) int {
	found, err := holders.Of(dataDir, lock.MachineFile)
	if err != nil {
		return 0
	}
	return holders.FindQEMU(found).PID
}

// lastEnd returns how the last run of a VM that isn't running ended; nil if it isn't known.
func lastEnd(dataDir string) *record.End {
	if end, there, err := record.ReadEnd(dataDir); err == nil && there {
		return &end
	}
	if _, began := record.Linked(dataDir, ""); dataDir == "" || !began {
		return nil
	}
	return &record.End{
		Cause: vmstatus.CauseUnknown,
		Note:  "QEMU and its runner were killed, or the computer was switched off",
	}
}

// StopProcesses stops a VM whose runner can't be asked, by the processes that hold its locks: it asks
// the guest by TERM to the runner, or with force ends all of them. With wait it returns
// when they have ended. The error is control.ErrNotRunning if there are none.
func StopProcesses(ctx context.Context, runtimeDir, dataDir string, force, wait bool) error {
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

// endProcesses ends all processes of a VM, and notes that.
func endProcesses(ctx context.Context, runtimeDir, dataDir string) error {
	end := record.End{
		Cause: vmstatus.CauseForced, Note: "its runner could not be asked, and was killed", At: time.Now(),
	}
	r, _, _ := record.Read(runtimeDir) // what can't be read isn't noted
	end.Began, end.UUID = r.Began, r.UUID
	lost := lock.Lost(dataDir)
	stopped := stopServiceOf(ctx, holders.Runner(dataDir))
	if stopped != nil {
		stopped = fmt.Errorf("the VM has ended, but systemd may start it again: %w", stopped)
	}
	ended, err := holders.End(ctx, dataDir)
	switch {
	case err != nil:
		return err
	case !ended:
		return control.ErrNotRunning
	}
	// What says that the VM runs; the next start removes the rest.
	for _, name := range []string{control.SocketName, prepare.MonitorSocket, prepare.RecordFile} {
		_ = os.Remove(filepath.Join(runtimeDir, name)) // without it the next start is right, too
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
