package soak_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vmop/test/wait"
)

// processes returns the processes of the VM by program name: all processes that use a file of its folder.
func (m *soakVM) processes() (map[string]int, error) {
	found := map[string]int{}
	proc, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, entry := range proc {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || !m.uses(pid) {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // it has ended
		}
		program, _, _ := strings.Cut(string(text), "\x00")
		found[filepath.Base(program)] = pid
	}
	return found, nil
}

func (m *soakVM) uses(pid int) bool {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false // the only possible error is a malformed pattern
	}
	for _, link := range append(links, fmt.Sprintf("/proc/%d/cwd", pid)) {
		if path, err := os.Readlink(link); err == nil && strings.HasPrefix(path, m.dir+"/") {
			return true
		}
	}
	return false
}

// kill kills a process of the VM, and waits until the kernel has ended it.
func (m *soakVM) kill(program string) error {
	all, err := m.processes()
	if err != nil {
		return err
	}
	pid, ok := all[program]
	if !ok {
		return fmt.Errorf("%s does not run, only %v", program, all)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", program, err)
	}
	return until(func() (bool, error) {
		all, err := m.processes()
		return all[program] != pid, err
	})
}

// nothingLeft requires that all processes and runtime directories are gone.
func (m *soakVM) nothingLeft() error {
	var left map[string]int
	err := until(func() (gone bool, err error) {
		left, err = m.processes()
		return len(left) == 0, err
	})
	if err != nil {
		return fmt.Errorf("processes are left: %v: %w", left, err)
	}
	if _, err := os.Stat(m.path("run")); !errors.Is(err, os.ErrNotExist) {
		return errors.New("the runtime directory is left")
	}
	return nil
}

// destroy ends all processes that a failed walk has left.
func (m *soakVM) destroy() {
	all, err := m.processes()
	for err == nil && len(all) > 0 {
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		time.Sleep(10 * time.Millisecond)
		all, err = m.processes()
	}
}

// until waits until done returns true.
func until(done func() (bool, error)) error {
	for end := wait.Deadline(); ; time.Sleep(50 * time.Millisecond) {
		ok, err := done()
		switch {
		case err != nil || ok:
			return err
		case time.Now().After(end):
			return errors.New("waited in vain")
		}
	}
}
