package drive_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"vmop/runner/machine/drive"
	"vmop/test/wait"
	"vmop/vmtypes/plan"
)

// The runner moves only QEMU's own threads, even if a guest has taken over QEMU.
func TestNoThreadOfOthersIsMoved(t *testing.T) {
	t.Parallel()
	d := begin(t, true, func(c *drive.Config) {
		c.Machine.PID = os.Getpid()
		c.Machine.Plan.Rules = plan.Rules{plan.Affinity{CPUs: [][]int{{0}}}}
	}).runs(t)
	refusal := fmt.Sprintf("thread 1 is not one of process %d", os.Getpid())
	wait.Until(t, func() bool {
		return strings.Contains(fmt.Sprint(d.tracker.Status().Problems), refusal)
	})
}
