package control

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Barred are the processes of the VM: QEMU and its helpers. These processes and their descendants must not use
// the control interface, because it can start a program for a guest that has broken out. The zero value bars no
// process.
type Barred struct {
	mu   sync.Mutex
	pids map[int]bool
}

// Add bars a process.
func (b *Barred) Add(pid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pids == nil {
		b.pids = map[int]bool{}
	}
	b.pids[pid] = true
}

// isBarred reports whether the process at the other end of a connection is barred, descends from a barred process, or
// is in its session: each process of a VM leads its own session.
func (b *Barred) isBarred(conn net.Conn) bool {
	if b == nil {
		return false
	}
	cred, err := peerCredentials(conn)
	if err != nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for pid := int(cred.Pid); pid > 1; {
		parent, session := familyOf(pid)
		if b.pids[pid] || b.pids[session] {
			return true
		}
		pid = parent
	}
	return false
}

// familyOf returns the parent and the session of a process from proc_pid_stat(5); 0 if it has ended.
func familyOf(pid int) (parent, session int) {
	const parentField, sessionField = 1, 3 // after the name, which is in parentheses and may contain anything
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= sessionField {
		return 0, 0
	}
	parent, _ = strconv.Atoi(string(fields[parentField]))
	session, _ = strconv.Atoi(string(fields[sessionField]))
	return parent, session
}
