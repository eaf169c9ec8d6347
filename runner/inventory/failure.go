package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// A StartError reports that a VM was not started, with the reason.
type StartError struct {
	Name string
	// ExitCode is the runner's exit code, see cmd/vmrunner; 0 if no runner was started.
	ExitCode int
	// Cause is one sentence, with the remedy as far as it is known.
	Cause string
}

func (e *StartError) Error() string {
	return fmt.Sprintf("cannot start %s: %s", e.Name, e.Cause)
}

// noteFailed records a failure for people who look at the VM later. A runner that came far enough has recorded a
// better cause.
func (vm *VM) noteFailed(cause string) {
	if err := os.MkdirAll(vm.DataDir, 0o700); err == nil {
		failure := record.StartFailure{At: time.Now().UTC().Truncate(time.Second), Message: cause}
		_ = failure.Write(vm.DataDir) // the caller also returns the cause
	}
}

// startError returns the error of a start after its runner has given up. said is the end of the runner's log.
func (vm *VM) startError(code int, said string) error {
	note, noted, err := record.ReadStartFailure(vm.DataDir)
	if err != nil || !noted {
		note.Message = lastError(said)
		vm.noteFailed(note.Message)
	}
	return &StartError{Name: vm.Name, ExitCode: code, Cause: note.Message}
}

// lastError returns the last error message in a program's output.
func lastError(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for i := range lines {
		if text, is := strings.CutPrefix(lines[i], "vmrunner: "); is {
			return text
		}
	}
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return "the runner has ended without a message"
}

// lastStart marks a stopped VM as failed if its last start has failed.
func (vm *VM) lastStart() {
	if vm.State != vmstatus.StateStopped && vm.State != StateFailed || vm.Place == nil || vm.Fault != nil {
		return
	}
	if note, failed, err := record.ReadStartFailure(vm.DataDir); failed && err == nil {
		vm.State, vm.Problem = StateFailed, note.Message
	}
}

// sharesDisk returns an error if another running VM uses a disk of the VM.
func (inv *Inventory) sharesDisk(vm *VM) error {
	own := drivesOf(vm.Config, vm.File)
	for _, m := range inv.runningMachines() {
		if m.Name == vm.Name {
			continue
		}
		for _, theirs := range inv.drivesOf(m) {
			for i, d := range own {
				if d.ReadOnly && theirs.ReadOnly || d.File == "" || theirs.File == "" {
					continue
				}
				a, err := os.Stat(d.File)
				b, e := os.Stat(theirs.File)
				if errors.Join(err, e) != nil || !os.SameFile(a, b) {
					continue
				}
				cause := fmt.Sprintf("vm.drives[%d].file: the VM %s is running with the disk %s: stop it with \"vmrunner stop %s --wait\", "+
					"or give each VM a separate disk", i, m.Name, d.File, m.Name)
				vm.noteFailed(cause)
				return &StartError{Name: vm.Name, Cause: cause}
			}
		}
	}
	return nil
}

// drivesOf returns the drives with absolute paths, and without the files of drives that aren't disks.
func drivesOf(cfg *config.Config, file string) (list []vmspec.Drive) {
	if cfg == nil {
		return nil
	}
	list = cfg.VM.WithDefaults().Within(filepath.Dir(file)).Drives
	for i := range list {
		if list[i].Type != vmspec.DriveRaw {
			list[i].File = ""
		}
	}
	return list
}

// drivesOf returns the disks of a running VM: the disks that it was started with, and the disks in its current
// configuration.
func (inv *Inventory) drivesOf(m config.Machine) (list []vmspec.Drive) {
	if r, there, err := record.Read(m.RuntimeDir); err == nil && there {
		if cfg, _, err := config.Parse(r.ConfigFile, []byte(r.Config)); err == nil {
			list = drivesOf(cfg, r.ConfigFile)
		}
	}
	if vm, is := inv.readConfigured(m.Name); is && vm.RuntimeDir == m.RuntimeDir {
		list = append(list, drivesOf(vm.Config, vm.File)...)
	}
	return list
}

// UnusedSources returns warnings about disks that exist and were not created from the source in the
// configuration.
func (vm *VM) UnusedSources() (warnings []string) {
	if vm.Config == nil {
		return nil
	}
	origins, err := prepare.ReadOrigins(vm.DataDir)
	if err != nil {
		return nil // the runner reports it
	}
	drives := vm.Spec().Within(filepath.Dir(vm.File)).Drives
	for _, f := range prepare.UnusedSources(vm.Name, drives, origins) {
		warnings = append(warnings, f.Path+": "+f.Message)
	}
	return warnings
}
