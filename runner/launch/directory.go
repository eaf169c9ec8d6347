package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"vmop/internal/childprocess"
	"vmop/runner/adopt/lock"
	"vmop/runner/adopt/record"
	"vmop/runner/launch/cleanup"
	"vmop/runner/prepare"
)

// takeRuntimeDir creates the runtime directory, or empties what an earlier run has left there.
func (l *Launch) takeRuntimeDir() error {
	dir := l.vm.RuntimeDir
	if err := MakePrivateDir(dir); err != nil {
		return fmt.Errorf("make runtime directory: %w", err)
	}
	if err := l.mayTake(dir); err != nil {
		return err
	}
	l.undo.AddRuntimeDir(l.vm)
	return cleanup.EmptyRuntimeDir(l.vm)
}

// mayTake returns an error if a running VM uses the runtime directory. That VM could not be adopted any more.
func (l *Launch) mayTake(dir string) error {
	other, there, err := record.Read(dir)
	if err != nil || !there {
		return mayTakeSocket(dir)
	}
	theirs, err := os.Stat(other.DataDir)
	if err != nil {
		return nil // the data of that VM no longer exists
	}
	ours, err := os.Stat(l.vm.DataDir)
	if err != nil || os.SameFile(theirs, ours) {
		return err
	}
	if runs, err := lock.Runs(other.DataDir); !runs || err != nil {
		return err
	}
	return fmt.Errorf("%s is the runtime directory of another VM, which runs, with its data in %s; choose another with runtimeDir", dir, other.DataDir)
}

// mayTakeSocket returns an error if a QEMU has its monitor in a runtime directory without a usable record. The VM
// that is being started has no process yet.
func mayTakeSocket(dir string) error {
	path := filepath.Join(dir, prepare.MonitorSocket)
	if _, err := os.Lstat(path); err != nil {
		return nil // the usual case
	}
	running, err := childprocess.SocketHolders(path)
	if err != nil || len(running) == 0 {
		return err
	}
	return fmt.Errorf("%s is the runtime directory of another VM, which runs (process %d); choose another with runtimeDir",
		dir, running[0].PID)
}

// MakePrivateDir creates a directory that only this user can access. An existing directory must belong to this
// user. Below /tmp another user may have created it, or one of its parents, and could replace its contents.
func MakePrivateDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	path, err := followOwnLink(path)
	if err != nil {
		return err
	}
	if owner, err := directoryOwner(path); err != nil || owner != os.Geteuid() {
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
		if owner, err := directoryOwner(dir); err != nil || owner != os.Geteuid() && owner != 0 {
			return errors.Join(err,
				fmt.Errorf("%s, which leads to %s, is not a directory of user %d; choose another with runtimeDir", dir, path, os.Geteuid()))
		}
	}
	return os.Chmod(path, 0o700)
}

// followOwnLink resolves a path that is a link. systemd creates the directories of units with DynamicUser in a
// private folder and links to them. The link must belong to root or this user, because another owner could change
// it later.
func followOwnLink(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSymlink {
		return path, err
	}
	if link, ok := info.Sys().(*syscall.Stat_t); !ok || int(link.Uid) != os.Geteuid() && link.Uid != 0 {
		return "", fmt.Errorf("%s is a link of another user; choose another with runtimeDir", path)
	}
	return filepath.EvalSymlinks(path)
}

// everybodyWrites is the permission bit that lets every user write to a folder.
const everybodyWrites = 0o002

// directoryOwner returns the user ID of the owner of the directory path, or -1 if path is not a directory.
func directoryOwner(path string) (int, error) {
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
