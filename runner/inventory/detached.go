package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"vmop/runner/control"
)

// largestLog is the size in bytes above which the next start begins a new log; the previous log is kept.
const largestLog = 1 << 20

// longestOutput is how much of a failed runner's log becomes part of the error.
const longestOutput = 4 << 10

// lookInterval is the time between two attempts to connect to a new runner.
const lookInterval = 10 * time.Millisecond

// startDetached starts the VM's runner in its own session, with its output in a file, so that it outlives the
// terminal and this process.
func (inv *Inventory) startDetached(ctx context.Context, vm *VM, interrupted func() context.Context) error {
	if err := os.MkdirAll(vm.DataDir, 0o700); err != nil {
		return fmt.Errorf("start %s: make the data directory: %w", vm.Name, err)
	}
	log, err := openLog(vm.LogFile())
	if err != nil {
		return fmt.Errorf("start %s: open the log: %w", vm.Name, err)
	}
	defer log.Close()
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("start %s: open the log: %w", vm.Name, err)
	}
	cmd := exec.Command(inv.opts.Program, append([]string{"run", "--config", vm.File, "--log-format", "text"},
		inv.opts.Arguments...)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, filepath.Dir(vm.File)
	cmd.Env = append(os.Environ(), vm.Place.Environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", vm.Name, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // cmd.ProcessState has the result
	}()
	err = vm.awaitGuest(ctx, ended)
	if err != nil && ctx.Err() != nil && interrupted != nil {
		end := func(ctx context.Context) error { return vm.giveUp(ctx, cmd, ended) }
		return vm.interruptedStart(ctx, end, interrupted)
	}
	if !errors.Is(err, errEnded) {
		return err
	}
	if cmd.ProcessState.ExitCode() == exitLocked {
		return fmt.Errorf("start %s: %w", vm.Name, ErrRunning)
	}
	return vm.startError(cmd.ProcessState.ExitCode(), logEnd(log, begin))
}

// exitLocked is the runner's exit code if the VM is already running.
const exitLocked = 3

// errEnded reports that the runner has ended.
var errEnded = errors.New("the runner has ended")

// openLog opens the log of a runner. The program's umask does not matter for it.
func openLog(file string) (*os.File, error) {
	if info, err := os.Stat(file); err == nil && info.Size() > largestLog {
		if err := os.Rename(file, file+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(file, os.O_CREATE|os.O_RDWR|os.O_APPEND, fileMode)
}

// logEnd returns the last part of what was written to a log since its size was begin.
func logEnd(log *os.File, begin int64) string {
	info, err := log.Stat()
	if err != nil {
		return ""
	}
	text := make([]byte, min(longestOutput, info.Size()-begin))
	n, _ := log.ReadAt(text, info.Size()-int64(len(text))) // the readable part is sufficient
	return strings.TrimSpace(string(text[:n]))
}

// awaitGuest waits until the guest is running. The error is errEnded if the runner ends earlier.
func (vm *VM) awaitGuest(ctx context.Context, ended <-chan struct{}) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		client, err := vm.Dial(ctx)
		if err == nil {
			running, err := guestRuns(ctx, client)
			if running || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is still starting: %w", vm.Name, context.Cause(ctx))
		case <-ended:
			return errEnded
		case <-tick.C:
		}
	}
}

// guestRuns follows the status of a VM until its guest is running or the runner ends.
func guestRuns(ctx context.Context, client *control.Client) (bool, error) {
	events, err := client.Events(ctx, control.TypeStatus)
	if err != nil {
		return false, nil // it has just ended, or does not serve yet
	}
	defer events.Close()
	for {
		e, err := events.Next()
		switch {
		case err != nil && ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil:
			return false, nil
		case e.Status != nil && e.Status.Started != nil:
			return true, nil
		}
	}
}
