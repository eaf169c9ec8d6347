package launch

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"vmop/internal/childprocess"
	"vmop/vmtypes/plan"
)

// helperTime is how long a helper may take to become ready.
const helperTime = 10 * time.Second

// isAwaited reports whether a helper must be ready before the processes that need it start.
func isAwaited(h plan.Process) bool { return h.Ready != "" || h.Role == plan.RoleNetwork }

// waitReady waits until a helper is ready.
func waitReady(ctx context.Context, p *childprocess.Process, h plan.Process) error {
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
			said := outputTail(p)
			if advice, _ := knownAdvice(said); advice != "" {
				said += "\n" + advice
			}
			return fmt.Errorf("%s ended before it was ready: %s%s", h.Name, p.Exit(), said)
		case <-ctx.Done():
			if h.Ready == "" {
				return fmt.Errorf("%s is not ready after %s%s", h.Name, helperTime, outputTail(p))
			}
			return fmt.Errorf("%s is not ready after %s: %s does not exist%s", h.Name, helperTime, h.Ready,
				outputTail(p))
		}
	}
}

// isReady reports whether a helper is ready. A helper with a Ready path is ready when the path exists. A network
// helper is ready when it has installed its seccomp filter, which is its last step.
func isReady(p *childprocess.Process, h plan.Process) bool {
	if h.Ready != "" {
		_, err := os.Stat(h.Ready)
		return err == nil
	}
	own, known := seccompFilters("self")
	its, there := seccompFilters(strconv.Itoa(p.Pid()))
	return !known || there && its > own
}

// seccompFilters returns the number of seccomp filters of a process. Linux reports it since version 5.9.
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

// outputTail returns the last output of a process, indented, for an error message.
func outputTail(p *childprocess.Process) string {
	text := p.Tail()
	if text == "" {
		return ""
	}
	return "\n  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}
