package config

import (
	"fmt"
	"strconv"
	"time"
)

// ForcedStop is what a runner needs, besides the time of its guest, until the VM has
// ended and that is reported: to look for the guest's agent 2 seconds, to have QEMU
// quit 10, to end it by SIGTERM 5 and by SIGKILL 5, helpers 5, to report the last
// status 4, and 4 to spare.
const ForcedStop = 35 * time.Second

// GracePeriodVariable of the environment has the seconds after which a pod that is
// being deleted is killed: its terminationGracePeriodSeconds.
const GracePeriodVariable = "POD_GRACE_PERIOD"

// GracePeriod returns what the variable says; 0 where it is not set, and no kill is due.
func GracePeriod(getenv func(string) string) (time.Duration, error) {
	text := getenv(GracePeriodVariable)
	if text == "" {
		return 0, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("the environment's %s is %q: want whole seconds", GracePeriodVariable, text)
	}
	return time.Duration(seconds) * time.Second, nil
}
