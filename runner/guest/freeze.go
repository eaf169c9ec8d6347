package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"vmop/qmp"
)

// FreezeState reports whether the guest's file systems are frozen.
type FreezeState string

// The states of GuestFsfreezeStatus.
const (
	Thawed FreezeState = "thawed"
	Frozen FreezeState = "frozen"
)

// ErrUnsent is the error of a FreezeFS that the agent has not received.
var ErrUnsent = errors.New("the guest agent does not answer")

// FreezeFS flushes the guest's file systems and freezes them until ThawFS, for a snapshot of its disks. It
// returns the number of frozen file systems; 0 means that none can be frozen. Until the thaw the agent refuses
// most commands, and programs in the guest block on writes. Thaw soon, even after an error other than ErrUnsent,
// because the error may have occurred after the freeze.
func (a *Agent) FreezeFS(ctx context.Context) (n int, err error) {
	const command = "guest-fsfreeze-freeze"
	var value json.RawMessage
	sent := false
	err = a.runExclusively(ctx, func() error {
		sent = true
		id, err := a.sendCommand(qmp.Command{Execute: command})
		if err != nil {
			return err
		}
		value, err = a.receiveReply(id)
		return err
	})
	switch {
	case err == nil:
		return countOf(command, value)
	case !sent:
		err = fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	return 0, fmt.Errorf("guest agent %s: %w", command, err)
}

// ThawFS thaws the guest's file systems, and returns their number.
func (a *Agent) ThawFS(ctx context.Context) (int, error) {
	const command = "guest-fsfreeze-thaw"
	value, err := a.Run(ctx, qmp.Command{Execute: command})
	if err != nil {
		return 0, err
	}
	return countOf(command, value)
}

// FSFreezeStatus queries whether the guest's file systems are frozen.
func (a *Agent) FSFreezeStatus(ctx context.Context) (FreezeState, error) {
	const command = "guest-fsfreeze-status"
	var state FreezeState
	if err := a.queryAgent(ctx, command, &state); err != nil {
		return "", err
	}
	if state != Thawed && state != Frozen {
		return "", fmt.Errorf("guest agent %s: the state %q is neither thawed nor frozen",
			command, fitText(string(state)))
	}
	return state, nil
}

// countOf parses the number of file systems in a reply.
func countOf(command string, value json.RawMessage) (n int, err error) {
	if err := json.Unmarshal(value, &n); err != nil {
		return 0, fmt.Errorf("guest agent %s: read the reply: %s", command, fitText(err.Error()))
	}
	if n < 0 {
		return 0, fmt.Errorf("guest agent %s: %d is not a number of file systems", command, n)
	}
	return n, nil
}
