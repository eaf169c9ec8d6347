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

// ElsewhereDir is the folder, beside the runtime directories of VMs, of links to
// those that are somewhere else. The name of a link is a hash of where it leads
// and the VM's name.
const ElsewhereDir = ".elsewhere"

// hashLength is that of a hash and the dash that follows.
const hashLength = 16 + 1

// A Machine is a VM that is found by its runtime directory.
type Machine struct{ Name, RuntimeDir string }

// Machines returns the runtime directories of this user's VMs that have a file in
// them, the control socket for example, by the VMs' names: those that are where
// RuntimeDirectory puts them in one environment or another, and those that were
// announced. An announcement without such a file is removed.
func Machines(env Env, file string) []Machine {
	var found []Machine
	add := func(name, dir string) (there bool) {
		if _, err := os.Lstat(filepath.Join(dir, file)); err != nil || !mine(dir) && !madeByRoot(dir) {
			return false
		}
		if m := (Machine{name, dir}); !slices.Contains(found, m) {
			found = append(found, m)
		}
		return true
	}
	for _, base := range RuntimeBases(env) {
		for _, entry := range entries(base) {
			add(entry.Name(), filepath.Join(base, entry.Name()))
		}
		if !mine(filepath.Join(base, ElsewhereDir)) {
			continue
		}
		for _, entry := range entries(filepath.Join(base, ElsewhereDir)) {
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

// Announce makes a VM's runtime directory be found by Machines if it is not where
// others look for it. The function that is returned takes that back.
func Announce(env Env, m Machine) (back func() error, err error) {
	var unset Config
	unset.VM.Name = m.Name
	usual := unset.RuntimeDirectory(env)
	if m.RuntimeDir == usual {
		return func() error { return nil }, nil
	}
	folder := filepath.Join(filepath.Dir(usual), ElsewhereDir)
	err = os.MkdirAll(folder, 0o700)
	if base := env.temporary(); err != nil && base != "" { // in a pod nothing else can be written
		folder = filepath.Join(base, ElsewhereDir)
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("announce the VM: %w", err)
	}
	if !mine(folder) {
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

// RuntimeBases returns the directories in which runners make runtime directories:
// what the rules say in this environment and in a bare one, where systemd would
// have put a user's, and where the unit vmrunner@.service has them; and the one below
// TMPDIR, which has announcements. What anybody could have made, below /tmp, is left out.
func RuntimeBases(env Env) []string {
	var all []string
	add := func(base string) {
		if !slices.Contains(all, base) && (mine(base) || rootsAlone(base)) {
			all = append(all, base)
		}
	}
	usual := func(env Env) {
		var c Config
		c.VM.Name = "x"
		add(filepath.Dir(c.RuntimeDirectory(env)))
	}
	usual(env)
	if base := env.temporary(); base != "" {
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

// temporary returns the user's directory below TMPDIR; "" if that isn't set.
func (env Env) temporary() string {
	if dir := env.Getenv("TMPDIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, env.UserName, programDir)
	}
	return ""
}

// entries returns what is in a directory, nothing if it can't be read.
func entries(dir string) []fs.DirEntry {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	return found
}

// mine reports whether a directory is there and belongs to this user.
func mine(dir string) bool {
	owner, _, ok := directory(dir)
	return ok && owner == os.Geteuid()
}

// madeByRoot reports whether this user is root, and only root can have made the directory: a service, which has its own
// user, has such a directory. It may be a link.
func madeByRoot(dir string) bool { return os.Geteuid() == 0 && rootsAlone(filepath.Dir(dir)) }

// rootsAlone reports whether a directory belongs to root, and only root can
// make anything in it.
func rootsAlone(dir string) bool {
	owner, mode, ok := directory(dir)
	return ok && owner == 0 && mode&0o022 == 0
}
