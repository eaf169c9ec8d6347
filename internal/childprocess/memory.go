package childprocess

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A MemoryGroup is the control group that limits a process's memory, of version 1 or 2. It remembers how many of the
// group's processes the kernel had killed at the time of the lookup.
type MemoryGroup struct {
	dir   string
	ended int
}

// MemoryGroupOf returns the group of a process. If the process has no group, or if it can't be read, MemoryGroupOf
// returns the zero value, which never reports a killed process.
func MemoryGroupOf(pid int) MemoryGroup {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return MemoryGroup{}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return MemoryGroup{}
	}
	g := MemoryGroup{dir: memoryGroup(groups, mounts)}
	g.ended, _ = g.countKilled()
	return g
}

// OutOfMemory reports whether the kernel has killed a process of the group since the lookup. The message names the
// group.
func (g MemoryGroup) OutOfMemory() (message string, yes bool) {
	if now, ok := g.countKilled(); !ok || now <= g.ended {
		return "", false
	}
	return "the kernel ended a process of the control group " + g.dir + " because memory was short there, or on the host", true
}

// countKilled returns how many processes of the group the kernel has killed.
func (g MemoryGroup) countKilled() (n int, ok bool) {
	if g.dir == "" {
		return 0, false
	}
	for _, name := range []string{"memory.events", "memory.oom_control"} { // of version 2, and 1
		text, err := os.ReadFile(filepath.Join(g.dir, name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(line, "oom_kill "); found {
				n, err := strconv.Atoi(strings.TrimSpace(value))
				return n, err == nil
			}
		}
	}
	return 0, false
}

// memoryGroup returns the folder of a process's group, from the process's file cgroup and the mounts (proc(5),
// cgroups(7)). It prefers version 1 if the process has a group of its memory controller.
func memoryGroup(groups, mounts []byte) string {
	var dir string
	for lines := bufio.NewScanner(bytes.NewReader(groups)); lines.Scan(); {
		parts := strings.SplitN(lines.Text(), ":", 3) // ID, controllers, path
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "" && dir == "":
			dir = mountedAt(mounts, "cgroup2", "", parts[2])
		case parts[1] == "memory":
			dir = mountedAt(mounts, "cgroup", "memory", parts[2])
		}
	}
	return dir
}

// mountedAt returns the place where a path of a file system is mounted. The mount must have the option.
func mountedAt(mounts []byte, kind, option, path string) string {
	for lines := bufio.NewScanner(bytes.NewReader(mounts)); lines.Scan(); {
		mount, what, found := strings.Cut(lines.Text(), " - ")
		at, of := strings.Fields(mount), strings.Fields(what) // … root, point …; type, source, options
		if !found || len(at) < 5 || len(of) < 3 || of[0] != kind ||
			!strings.Contains(","+of[2]+",", ","+option) {
			continue
		}
		below, err := filepath.Rel(at[3], path)
		if err == nil && filepath.IsLocal(below) && !strings.HasPrefix(path, "/..") { // above a namespace's root
			return filepath.Join(at[4], below)
		}
	}
	return ""
}
