package migrate

// The stages of the target, which begins with Still.
const (
	Comparing Stage = "Comparing" // an offer is being checked
	Preparing Stage = "Preparing" // QEMU is being started
	Receiving Stage = "Receiving" // the guest is arriving
	Holding   Stage = "Holding"   // the complete guest is here, paused
	Resuming  Stage = "Resuming"  // the target's ownership is recorded, and QEMU is asked to resume the guest
	Running   Stage = "Running"   // the target owns the guest
	Refused   Stage = "Refused"   // the target will never own the guest
)

// A Target is the side that receives the guest.
type Target struct{ Stage Stage }

// TargetOf returns the target in the state of a record that a runner finds. Its next event must be Restarted.
func TargetOf(r Record) Target {
	switch r {
	case Expecting:
		return Target{Receiving}
	case Taken:
		return Target{Running}
	case Given:
		return Target{Refused}
	}
	return Target{}
}

// On returns the target after an event, and the resulting actions.
func (t Target) On(e Event) (Target, []Action) {
	switch t.Stage {
	case Still:
		switch e {
		case Heard(Offer):
			return Target{Comparing}, []Action{plainAction(Compare)}
		case Cancelled:
			return Target{Refused}, nil
		case Heard(Go): // of a migration that is unknown here
			return t.giveUp(Aborted)
		}
	case Comparing, Preparing, Receiving, Holding:
		return t.beforeGo(e)
	case Resuming:
		switch e {
		case Continues:
			return Target{Running}, []Action{sayAction(Resumed)}
		case NotResumed:
			return t.giveUp(Aborted)
		}
	case Running:
		switch e {
		case Restarted: // if QEMU is gone, its guest's activity is unknown to all runners
			return t, []Action{plainAction(Resume), sayAction(Resumed)}
		case Heard(Go):
			return t, []Action{sayAction(Resumed)}
		case Heard(Known):
			return t, []Action{writeAction(NoRecord)}
		}
	case Refused:
		switch e {
		case Heard(Known), Heard(Abort): // after Abort the source does not send Go
			return t, []Action{writeAction(NoRecord)}
		case Restarted:
			return t, []Action{plainAction(Quit)}
		case Heard(Go):
			return t, []Action{sayAction(Aborted)}
		}
	}
	return t, nil
}

// beforeGo handles events while the source owns the guest.
func (t Target) beforeGo(e Event) (Target, []Action) {
	switch e {
	case Heard(Abort), Cancelled, Restarted, QEMUEnded:
		return t.giveUp(Aborted)
	case Differs:
		return t.giveUp(Refuse)
	case Suits:
		if t.Stage == Comparing {
			return Target{Preparing}, []Action{writeAction(Expecting), plainAction(Receive)}
		}
	case Listens:
		if t.Stage == Preparing {
			return Target{Receiving}, []Action{sayAction(Accept)}
		}
	case Complete:
		if t.Stage == Receiving {
			return Target{Holding}, []Action{sayAction(Loaded)}
		}
	case Heard(Go), Fenced:
		if t.Stage == Holding {
			return Target{Resuming}, []Action{writeAction(Taken), plainAction(Resume)}
		}
		return t.giveUp(Aborted) // Go can't happen here; if the source is gone, an incomplete guest is useless
	}
	return t, nil
}

// giveUp records that the guest is never resumed here, and reports it.
func (t Target) giveUp(because Message) (Target, []Action) {
	return Target{Refused}, []Action{writeAction(Given), plainAction(Quit), sayAction(because)}
}
