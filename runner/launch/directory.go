package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"vmop/process"
	"vmop/runner/cleanup"
	"vmop/runner/lock"
	"vmop/runner/prepare"
	"vmop/runner/record"
)

// takeRuntimeDir makes the runtime directory, without what an earlier run has
// left in it.
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

// mayTake makes sure that a runtime directory is not that of another VM, which
// runs: it could not be adopted any more.
func (l *Launch) mayTake(dir string) error {
	other, there, err := record.Read(dir)
	if err != nil || !there {
		return mayTakeSocket(dir)
	}
	theirs, err := os.Stat(other.DataDir)
	if err != nil {
		return nil // its data has gone
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

// mayTakeSocket makes sure that no QEMU has its monitor in a runtime directory whose record
// says nothing. This VM has no process.
func mayTakeSocket(dir string) error {
	path := filepath.Join(dir, prepare.MonitorSocket)
	if _, err := os.Lstat(path); err != nil {
		return nil // as a rule
	}
	running, err := process.SocketHolders(path)
	if err != nil || len(running) == 0 {
		return err
	}
	return fmt.Errorf("%s is the runtime directory of another VM, which runs (process %d); choose another with runtimeDir",
		dir, running[0].PID)
}

// MakePrivateDir makes a directory that only this user can look into. One that
// is there must be this user's: below /tmp another user may have made it, or a
// folder that leads there, and could exchange what is in it.
func MakePrivateDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	path, err := followOwnLink(path)
	if err != nil {
		return err
	}
	if owner, err := ownerOf(path); err != nil || owner != os.Geteuid() {
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
		if owner, err := ownerOf(dir); err != nil || owner != os.Geteuid() && owner != 0 {
			return errors.Join(err,
				fmt.Errorf("%s, which leads to %s, is not a directory of user %d; choose another with runtimeDir", dir, path, os.Geteuid()))
		}
	}
	return os.Chmod(path, 0o700)
}

// followOwnLink returns where a path leads. systemd makes directories of units with DynamicUser in a private folder,
// and links to them. A link must belong to root or to this user: another user could change it later.
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

// everybodyWrites is the permission that makes a folder everybody's.
const everybodyWrites = 0o002

// ownerOf returns the number of the user whose directory path is, or -1 if it
// is none.
func ownerOf(path string) (int, error) {
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
