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

	"vmop/internal/atomicfile"
	"vmop/internal/childprocess"
	"vmop/runner/prepare"
	"vmop/vmtypes"
)

// ownFiles are the runner's files in the runtime directory. The record is removed first, because without it no
// runner tries to adopt the machine.
var ownFiles = []string{
	prepare.RecordFile, prepare.ProgressFile, prepare.TypeFile, prepare.ConfigFile, prepare.CloudInitImage,
	prepare.SysprepImage,
}

// EmptyRuntimeDir removes the files that an earlier run has left in the runtime directory, and the link to the
// directory.
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

// RemoveSecrets removes the password files.
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

// AddRuntimeDir adds the steps that remove the VM's files from the runtime directory, and the directory itself if
// it is empty.
func (l *List) AddRuntimeDir(vm *prepare.VM) {
	dir, link := vm.RuntimeDir, filepath.Join(vm.DataDir, prepare.RuntimeLink)
	l.AddMachine(link, func() error {
		_ = os.Remove(link) // a leftover link has no effect while the machine isn't locked
		return nil
	})
	l.AddMachine("runtime directory", func() error {
		if syscall.Rmdir(dir) == nil { // works without a file descriptor
			return nil
		}
		if err := atomicfile.RemoveTemporary(dir, ownFiles...); err != nil {
			return err
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			return nil // others use it as well
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

// removeDir removes an empty directory. It ignores an error if a service manager owns the directory, because it
// is a mount or its parent is protected.
func removeDir(dir string) error {
	err := os.Remove(dir)
	for _, kept := range []error{syscall.EBUSY, syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		if errors.Is(err, kept) {
			return nil
		}
	}
	return err
}

// RemoveHalfWritten removes the temporary files in the data directory that an earlier run was writing when it was
// killed.
func RemoveHalfWritten(vm *prepare.VM) error {
	return atomicfile.RemoveTemporary(vm.DataDir, vm.DataFiles()...)
}

// RemoveSockets removes the sockets that an earlier run left.
func RemoveSockets(vm *prepare.VM) error {
	for _, path := range socketPaths(vm) {
		if err := Remove(path); err != nil {
			return fmt.Errorf("remove what an earlier run left: %w", err)
		}
	}
	return nil
}

// AddSockets adds steps that remove the VM's sockets.
func (l *List) AddSockets(vm *prepare.VM) {
	for _, path := range socketPaths(vm) {
		l.AddMachine(path, func() error { return Remove(path) })
	}
}

// socketPaths returns the paths of the plan's sockets and of the monitor.
func socketPaths(vm *prepare.VM) []string {
	paths := []string{filepath.Join(vm.RuntimeDir, prepare.MonitorSocket)}
	for _, l := range vm.Plan.Listeners {
		paths = append(paths, l.Path)
	}
	for _, s := range vm.Plan.Sockets {
		paths = append(paths, s.Path)
	}
	return paths
}

// termTime is how long a process may take to exit after SIGTERM.
const termTime = 5 * time.Second

// AddProcess adds a step that ends a process of the machine if it is still running. The step has its own timeout,
// because the runner's context may already be done.
func (l *List) AddProcess(ctx context.Context, p *childprocess.Process) {
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

// Remove removes a file if it exists.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
