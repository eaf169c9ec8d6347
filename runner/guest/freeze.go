package guest

import (
	"context"
	"fmt"
)

// FreezeState reports whether the guest's file systems are frozen.
type FreezeState string

// The states of GuestFsfreezeStatus.
const (
	Thawed FreezeState = "thawed"
	Frozen FreezeState = "frozen"
)

// FreezeFS flushes the guest's file systems and freezes them until ThawFS, for a snapshot
// of its disks. It returns how many are frozen; 0 means that the guest has none that can
// be. Until the thaw the agent refuses most commands, and programs in the guest block on
// writes: thaw soon, also after an error, which may have occurred after the freeze.
func (a *Agent) FreezeFS(ctx context.Context) (int, error) {
	return a.count(ctx, "guest-fsfreeze-freeze")
}

// ThawFS thaws the guest's file systems, and returns how many: 0 if none was frozen.
func (a *Agent) ThawFS(ctx context.Context) (int, error) {
	return a.count(ctx, "guest-fsfreeze-thaw")
}

// FSFreezeStatus queries whether the guest's file systems are frozen.
func (a *Agent) FSFreezeStatus(ctx context.Context) (FreezeState, error) {
	const command = "guest-fsfreeze-status"
	var state FreezeState
	if err := a.query(ctx, command, &state); err != nil {
		return "", err
	}
	if state != Thawed && state != Frozen {
		return "", fmt.Errorf("guest agent %s: the state %q is neither thawed nor frozen",
			command, fit(string(state)))
	}
	return state, nil
}

func (a *Agent) count(ctx context.Context, command string) (int, error) {
	var n int
	if err := a.query(ctx, command, &n); err != nil {
		return 0, err
	}
	if n < 0 {
		return 0, fmt.Errorf("guest agent %s: %d is not a number of file systems", command, n)
	}
	return n, nil
}
