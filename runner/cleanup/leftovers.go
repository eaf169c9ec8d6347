package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"vmop/durable"
	"vmop/process"
	"vmop/runner/prepare"
	"vmop/vmtypes"
)

// ownFiles are the runner's files in the runtime directory. The record goes
// first: without it there is no machine to be carried on.
var ownFiles = []string{
	prepare.RecordFile, prepare.ProgressFile, prepare.TypeFile, prepare.ConfigFile, prepare.CloudInitImage,
	prepare.SysprepImage,
}

// EmptyRuntimeDir removes what an earlier run has left of itself in the runtime
// directory, and its link there.
func EmptyRuntimeDir(vm *prepare.VM) error {
	if err := Remove(filepath.Join(vm.DataDir, prepare.RuntimeLink)); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	for _, name := range ownFiles {
		if err := Remove(filepath.Join(vm.RuntimeDir, name)); err != nil {
			return fmt.Errorf("remove what an earlier run left: %w", err)
		}
	}
	if err := os.RemoveAll(filepath.Dir(vm.CopySocket())); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	return RemoveSecrets(vm)
}

// RemoveSecrets removes the files of passwords.
func RemoveSecrets(vm *prepare.VM) error {
	entries, err := os.ReadDir(vm.RuntimeDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the passwords of drives: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), vmtypes.SecretPrefix) {
			if err := Remove(filepath.Join(vm.RuntimeDir, e.Name())); err != nil {
				return fmt.Errorf("remove the password of a drive: %w", err)
			}
		}
	}
	return nil
}

// AddRuntimeDir notes what to remove of the runtime directory: it is the VM's.
func (l *List) AddRuntimeDir(vm *prepare.VM) {
	dir, link := vm.RuntimeDir, filepath.Join(vm.DataDir, prepare.RuntimeLink)
	l.AddMachine(link, func() error {
		_ = os.Remove(link) // one that is left means nothing while the machine isn't locked
		return nil
	})
	l.AddMachine("runtime directory", func() error {
		if syscall.Rmdir(dir) == nil { // which needs no descriptor
			return nil
		}
		if err := durable.RemoveTemporary(dir, ownFiles...); err != nil {
			return err
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			return nil // not ours alone
		}
		return removeDir(dir)
	})
	copies := filepath.Dir(vm.CopySocket())
	l.AddMachine(copies, func() error { return os.RemoveAll(copies) })
	for _, name := range ownFiles {
		path := filepath.Join(dir, name)
		l.AddMachine(path, func() error { return Remove(path) })
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

// RemoveHalfWritten removes the files in the data directory that an earlier run was
// writing when it was killed.
func RemoveHalfWritten(vm *prepare.VM) error {
	return durable.RemoveTemporary(vm.DataDir, vm.DataFiles()...)
}

// RemoveSockets removes sockets that an earlier run left.
func RemoveSockets(vm *prepare.VM) error {
	for _, path := range sockets(vm) {
		if err := Remove(path); err != nil {
			return fmt.Errorf("remove what an earlier run left: %w", err)
		}
	}
	return nil
}

// AddSockets notes to remove the sockets of the VM.
func (l *List) AddSockets(vm *prepare.VM) {
	for _, path := range sockets(vm) {
		l.AddMachine(path, func() error { return Remove(path) })
	}
}

// sockets returns the paths of those of the plan and of the monitor.
func sockets(vm *prepare.VM) []string {
	paths := []string{filepath.Join(vm.RuntimeDir, prepare.MonitorSocket)}
	for _, l := range vm.Plan.Listeners {
		paths = append(paths, l.Path)
	}
	for _, s := range vm.Plan.Sockets {
		paths = append(paths, s.Path)
	}
	return paths
}

// termTime is what a process has to end that gets SIGTERM.
const termTime = 5 * time.Second

// AddProcess notes to end a process of the machine that is left when everything
// else has been done. Its time is its own: the runner's may be over then.
func (l *List) AddProcess(ctx context.Context, p *process.Process) {
	ctx = context.WithoutCancel(ctx)
	l.AddMachine(p.Name(), func() error {
		ctx, cancel := context.WithTimeout(ctx, 2*termTime)
		defer cancel()
		if err := p.Terminate(ctx, termTime); err != nil {
			return fmt.Errorf("end %s: %w", p.Name(), err)
		}
		return nil
	})
}

// Remove removes a file, if it is there.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
