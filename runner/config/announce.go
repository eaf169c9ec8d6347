package config

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ElsewhereDir is a folder next to the runtime directories of VMs. It contains links to runtime directories in
// other places. The name of a link consists of a hash of its target and the VM's name.
const ElsewhereDir = ".elsewhere"

// hashLength is the length of a hash and the dash after it.
const hashLength = 16 + 1

// A Machine is a VM that was found through its runtime directory.
type Machine struct{ Name, RuntimeDir string }

// Machines returns the runtime directories of this user's VMs that contain a certain file, for example the
// control socket, sorted by the VMs' names. It looks in the places where RuntimeDirectory puts them in different
// environments, and at announcements. It removes an announcement without such a file.
func Machines(env Env, file string) []Machine {
	var found []Machine
	add := func(name, dir string) (there bool) {
		if _, err := os.Lstat(filepath.Join(dir, file)); err != nil || !isOwn(dir) && !madeByRoot(dir) {
			return false
		}
		if m := (Machine{name, dir}); !slices.Contains(found, m) {
			found = append(found, m)
		}
		return true
	}
	for _, base := range RuntimeBases(env) {
		for _, entry := range entriesOf(base) {
			add(entry.Name(), filepath.Join(base, entry.Name()))
		}
		if !isOwn(filepath.Join(base, ElsewhereDir)) {
			continue
		}
		for _, entry := range entriesOf(filepath.Join(base, ElsewhereDir)) {
			link := filepath.Join(base, ElsewhereDir, entry.Name())
			dir, err := os.Readlink(link)
			if err == nil && len(entry.Name()) > hashLength && !add(entry.Name()[hashLength:], dir) {
				_ = os.Remove(link) // its runner was killed
			}
		}
	}
	slices.SortFunc(found, func(a, b Machine) int {
		return strings.Compare(a.Name+"\x00"+a.RuntimeDir, b.Name+"\x00"+b.RuntimeDir)
	})
	return found
}

// Announce makes a VM's runtime directory visible to Machines if it is in an unusual place. The returned function
// withdraws the announcement.
func Announce(env Env, m Machine) (back func() error, err error) {
	var unset Config
	unset.VM.Name = m.Name
	usual := unset.RuntimeDirectory(env)
	if m.RuntimeDir == usual {
		return func() error { return nil }, nil
	}
	folder := filepath.Join(filepath.Dir(usual), ElsewhereDir)
	err = os.MkdirAll(folder, 0o700)
	if base := env.temporaryDir(); err != nil && base != "" { // in a pod only this directory is writable
		folder = filepath.Join(base, ElsewhereDir)
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("announce the VM: %w", err)
	}
	if !isOwn(folder) {
		return nil, fmt.Errorf("announce the VM: %s is not a directory of user %d", folder, os.Geteuid())
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(m.RuntimeDir)) // it never fails
	link := filepath.Join(folder, fmt.Sprintf("%016x-%s", hash.Sum64(), m.Name))
	if err := os.Symlink(m.RuntimeDir, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("announce the VM: %w", err)
	}
	return func() error {
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("withdraw the announcement of the VM: %w", err)
		}
		return nil
	}, nil
}

// RuntimeBases returns the parents of runtime directories:
//
//   - the directories according to the rules in this environment and in an empty environment
//   - the directory that systemd would create for a user
//   - the directory of the unit vmrunner@.service
//   - the directory below TMPDIR, which contains announcements
//
// It omits directories below /tmp that anybody could have created.
func RuntimeBases(env Env) []string {
	var all []string
	add := func(base string) {
		if !slices.Contains(all, base) && (isOwn(base) || rootsAlone(base)) {
			all = append(all, base)
		}
	}
	usual := func(env Env) {
		var c Config
		c.VM.Name = "x"
		add(filepath.Dir(c.RuntimeDirectory(env)))
	}
	usual(env)
	if base := env.temporaryDir(); base != "" {
		add(base)
	}
	env.Getenv = func(string) string { return "" }
	for _, writable := range []bool{true, false} {
		env.Writable = func(string) bool { return writable }
		usual(env)
	}
	add(filepath.Join("/run/user", strconv.Itoa(os.Geteuid()), programDir))
	add(filepath.Join("/run", programDir))
	return all
}

// temporaryDir returns the user's directory below TMPDIR; "" if that isn't set.
func (env Env) temporaryDir() string {
	if dir := env.Getenv("TMPDIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, env.UserName, programDir)
	}
	return ""
}

// entriesOf returns the entries of a directory, or an empty list if it can't be read.
func entriesOf(dir string) []fs.DirEntry {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	return found
}

// isOwn reports whether a directory exists and belongs to this user.
func isOwn(dir string) bool {
	owner, _, ok := statDirectory(dir)
	return ok && owner == os.Geteuid()
}

// madeByRoot reports whether this user is root, and only root can have created the directory. A service with its
// own user has such a directory. It may be a link.
func madeByRoot(dir string) bool { return os.Geteuid() == 0 && rootsAlone(filepath.Dir(dir)) }

// rootsAlone reports whether a directory belongs to root, and only root can create files in it.
func rootsAlone(dir string) bool {
	owner, mode, ok := statDirectory(dir)
	return ok && owner == 0 && mode&0o022 == 0
}
