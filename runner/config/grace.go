package config

import (
	"fmt"
	"strconv"
	"time"
)

// ForcedStop is the time that a runner needs, in addition to its guest's time, until the VM has ended and the end
// is reported:
//
//   - 2 seconds to look for the guest's agent
//   - 10 to make QEMU quit
//   - 5 to end it with SIGTERM, and 5 with SIGKILL
//   - 5 to end helpers
//   - 4 to report the last status
//   - 4 in reserve
const ForcedStop = 35 * time.Second

// GracePeriodVariable of the environment contains the seconds until a pod that is being deleted is killed: its
// terminationGracePeriodSeconds.
const GracePeriodVariable = "POD_GRACE_PERIOD"

// GracePeriod returns the value of the variable; 0 if it is not set, and the runner won't be killed.
func GracePeriod(getenv func(string) string) (time.Duration, error) {
	text := getenv(GracePeriodVariable)
	if text == "" {
		return 0, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("the environment's %s is %q: must be whole seconds", GracePeriodVariable, text)
	}
	return time.Duration(seconds) * time.Second, nil
}
