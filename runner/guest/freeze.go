package guest

import (
	"context"
	"fmt"
)

// FreezeState tells whether the guest's file systems stand still.
type FreezeState string

// The states of GuestFsfreezeStatus.
const (
	Thawed FreezeState = "thawed"
	Frozen FreezeState = "frozen"
)

// FreezeFS writes what the guest has not written yet, and lets its file systems
// stand still until ThawFS, for a snapshot of its disks. It returns how many
// stand still; 0 means that the guest has none that can. Until it is thawed the
// agent refuses most commands, and the guest's programs wait: thaw soon, also
// after an error, which may have come late.
func (a *Agent) FreezeFS(ctx context.Context) (int, error) {
	return a.count(ctx, "guest-fsfreeze-freeze")
}

// ThawFS ends what FreezeFS began, and returns how many file systems it has
// thawed: 0 if none stood still.
func (a *Agent) ThawFS(ctx context.Context) (int, error) {
	return a.count(ctx, "guest-fsfreeze-thaw")
}

// FSFreezeStatus asks whether the file systems stand still.
func (a *Agent) FSFreezeStatus(ctx context.Context) (FreezeState, error) {
	const command = "guest-fsfreeze-status"
	var state FreezeState
	if err := a.query(ctx, command, &state); err != nil {
		return "", err
	}
	if state != Thawed && state != Frozen {
		return "", fmt.Errorf("guest agent %s: the state %q is neither thawed nor frozen", command, fit(string(state)))
	}
	return state, nil
}

func (a *Agent) count(ctx context.Context, command string) (int, error) {
	var n int
	if err := a.query(ctx, command, &n); err != nil {
		return 0, err
	}
	if n < 0 {
		return 0, fmt.Errorf("guest agent %s: %d is no number of file systems", command, n)
	}
	return n, nil
}
