package launch

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"vmop/process"
	"vmop/vmtypes/plan"
)

// helperTime is until a helper is ready.
const helperTime = 10 * time.Second

// awaited reports whether a helper must be ready before what needs it is done.
func awaited(h plan.Process) bool { return h.Ready != "" || h.Role == plan.RoleNetwork }

// waitReady waits until a helper is ready.
func waitReady(ctx context.Context, p *process.Process, h plan.Process) error {
	ctx, cancel := context.WithTimeout(ctx, helperTime)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if isReady(p, h) {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			said := tail(p)
			if advice, _ := knownAdvice(said); advice != "" {
				said += "\n" + advice
			}
			return fmt.Errorf("%s ended before it was ready: %s%s", h.Name, p.Exit(), said)
		case <-ctx.Done():
			if h.Ready == "" {
				return fmt.Errorf("%s is not ready after %s%s", h.Name, helperTime, tail(p))
			}
			return fmt.Errorf("%s is not ready after %s: %s does not exist%s", h.Name, helperTime, h.Ready, tail(p))
		}
	}
}

// isReady reports whether a helper is: the path exists that says so, or it has confined
// itself, the last that one for a network does.
func isReady(p *process.Process, h plan.Process) bool {
	if h.Ready != "" {
		_, err := os.Stat(h.Ready)
		return err == nil
	}
	own, known := seccompFilters("self")
	its, there := seccompFilters(strconv.Itoa(p.Pid()))
	return !known || there && its > own
}

// seccompFilters returns how many filters of system calls a process has; Linux tells since
// 5.9.
func seccompFilters(pid string) (n int, known bool) {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, false
	}
	_, after, _ := strings.Cut(string(status), "\nSeccomp_filters:")
	line, _, _ := strings.Cut(after, "\n")
	n, err = strconv.Atoi(strings.TrimSpace(line))
	return n, err == nil
}

// tail returns, indented, the last that a process had to say, for an error.
func tail(p *process.Process) string {
	text := p.Tail()
	if text == "" {
		return ""
	}
	return "\n  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}
