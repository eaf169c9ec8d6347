package status

import (
	"fmt"

	"vmop/vmstatus"
)

// TransitionError is the error of an update to a state that cannot follow the current state.
type TransitionError struct {
	From, To vmstatus.State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("enter state %s from %s: the states don't allow it", e.To, e.From)
}
