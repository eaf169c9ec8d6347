package supervisor

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// warnOfRest logs the processes that no longer have a runner. If this is the first process of a container, they
// die with it.
func (s *supervisor) warnOfRest() {
	if left := runningChildren(os.Getpid()); len(left) > 0 {
		s.Log.Warn("processes are left without a runner", "processes", strings.Join(left, ", "))
	}
}

// runningChildren returns the running children of a process: "qemu-system-x86 (12)".
func runningChildren(parent int) (found []string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		status, err := os.ReadFile("/proc/" + entry.Name() + "/status")
		if err != nil {
			continue
		}
		if statusField(status, "PPid") == strconv.Itoa(parent) &&
			!strings.HasPrefix(statusField(status, "State"), "Z") {
			found = append(found, fmt.Sprintf("%s (%s)", statusField(status, "Name"), entry.Name()))
		}
	}
	return found
}

// statusField returns the value of a line of /proc/PID/status, "" if there is none.
func statusField(status []byte, name string) string {
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
