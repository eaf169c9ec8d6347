package migrate

// The stages of the target, which begins with Still.
const (
	Comparing Stage = "Comparing" // an offer is judged
	Preparing Stage = "Preparing" // QEMU is started
	Receiving Stage = "Receiving" // the guest comes
	Holding   Stage = "Holding"   // all of it is here, paused
	Resuming  Stage = "Resuming"  // it is recorded that it is the target's, and QEMU is asked to resume it
	Running   Stage = "Running"   // it is the target's
	Refused   Stage = "Refused"   // it never will be
)

// A Target is the side that gets the guest.
type Target struct{ Stage Stage }

// TargetOf returns the target that a runner finds by its record. Restarted is its next event.
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

// On returns what a target is after an event, and what is to be done.
func (t Target) On(e Event) (Target, []Action) {
	switch t.Stage {
	case Still:
		switch e {
		case Heard(Offer):
			return Target{Comparing}, []Action{do(Compare)}
		case Cancelled:
			return Target{Refused}, nil
		case Heard(Go): // of a migration that isn't known here
			return t.giveUp(Aborted)
		}
	case Comparing, Preparing, Receiving, Holding:
		return t.before(e)
	case Resuming:
		switch e {
		case Continues:
			return Target{Running}, []Action{send(Resumed)}
		case NotResumed:
			return t.giveUp(Aborted)
		}
	case Running:
		switch e {
		case Restarted: // if QEMU is gone, no runner knows any more what the guest has done
			return t, []Action{do(Resume), send(Resumed)}
		case Heard(Go):
			return t, []Action{send(Resumed)}
		case Heard(Known):
			return t, []Action{record(NoRecord)}
		}
	case Refused:
		switch e {
		case Heard(Known), Heard(Abort): // whoever says Abort will not say Go
			return t, []Action{record(NoRecord)}
		case Restarted:
			return t, []Action{do(Quit)}
		case Heard(Go):
			return t, []Action{send(Aborted)}
		}
	}
	return t, nil
}

// before is the time in which the guest is the source's.
func (t Target) before(e Event) (Target, []Action) {
	switch e {
	case Heard(Abort), Cancelled, Restarted, QEMUEnded:
		return t.giveUp(Aborted)
	case Differs:
		return t.giveUp(Refuse)
	case Suits:
		if t.Stage == Comparing {
			return Target{Preparing}, []Action{record(Expecting), do(Receive)}
		}
	case Listens:
		if t.Stage == Preparing {
			return Target{Receiving}, []Action{send(Accept)}
		}
	case Complete:
		if t.Stage == Receiving {
			return Target{Holding}, []Action{send(Loaded)}
		}
	case Heard(Go), Fenced:
		if t.Stage == Holding {
			return Target{Resuming}, []Action{record(Taken), do(Resume)}
		}
		return t.giveUp(Aborted) // Go: it can't be; a source that is gone: half of the guest is nothing
	}
	return t, nil
}

// giveUp makes sure that the guest is never resumed here, and says so.
func (t Target) giveUp(because Message) (Target, []Action) {
	return Target{Refused}, []Action{record(Given), do(Quit), send(because)}
}
