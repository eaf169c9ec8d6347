package migrate

// A Stage is how far a side is.
type Stage string

// The stages of the source.
const (
	Still     Stage = ""          // the guest runs, and stays
	Offering  Stage = "Offering"  // the target is asked
	Copying   Stage = "Copying"   // the guest runs, and is copied
	Switching Stage = "Switching" // the guest is paused, and the rest is copied
	Asking    Stage = "Asking"    // the guest is released: has the target resumed it?
	Gone      Stage = "Gone"      // it has
)

// A Source is the side that has the guest.
type Source struct {
	Stage Stage
	// copied, loaded: QEMU has sent everything, the target has it.
	copied, loaded bool
	ended          bool // QEMU is gone
}

// SourceOf returns the source that a runner finds by its record. Restarted is its next event.
func SourceOf(r Record) Source {
	switch r {
	case Migrating:
		return Source{Stage: Copying}
	case Released:
		return Source{Stage: Asking}
	case Moved:
		return Source{Stage: Gone}
	}
	return Source{}
}

// On returns what a source is after an event, and what is to be done. An event that comes too late, or
// that doesn't concern the stage, changes nothing.
func (s Source) On(e Event) (Source, []Action) {
	if e == QEMUEnded {
		s.ended = true
	}
	switch s.Stage {
	case Still:
		if e == Begin {
			return Source{Stage: Offering}, []Action{record(Migrating), do(Connect)}
		}
	case Offering, Copying, Switching:
		return s.before(e)
	case Asking:
		return s.released(e)
	case Gone:
		if e == Restarted {
			return s, []Action{do(Quit)}
		}
	}
	return s, nil
}

// before is the time in which the guest is the source's, whatever happens.
func (s Source) before(e Event) (Source, []Action) {
	switch e {
	case Cancelled, Failed, Disconnected, Restarted, Fenced, QEMUEnded, Heard(Refuse), Heard(Aborted):
		return s.keep()
	case Connected:
		if s.Stage == Offering {
			return s, []Action{send(Offer)}
		}
	case Heard(Accept):
		if s.Stage == Offering {
			s.Stage = Copying
			return s, []Action{do(Copy)}
		}
	case AtSwitch:
		if s.Stage == Copying {
			s.Stage = Switching
			return s, []Action{do(Switch)}
		}
	case Copied:
		s.copied = true
	case Heard(Loaded):
		s.loaded = true
	}
	if s.Stage == Switching && s.copied && s.loaded {
		s.Stage = Asking
		return s, []Action{record(Released), send(Go)}
	}
	return s, nil
}

// keep ends the migration: the source has never sent Go to the target.
func (s Source) keep() (Source, []Action) {
	if s.ended {
		return Source{}, []Action{send(Abort), record(NoRecord)}
	}
	return Source{}, []Action{send(Abort), do(StopCopying), do(Resume), record(NoRecord)}
}

// released is the time in which the guest may be the target's.
func (s Source) released(e Event) (Source, []Action) {
	switch e {
	case Restarted, Disconnected:
		return s, []Action{do(Connect)}
	case Connected:
		return s, []Action{send(Go)}
	case Heard(Resumed), Fenced: // who is gone may have resumed the guest, and it may have written to disks
		s.Stage = Gone
		return s, []Action{record(Moved), send(Known), do(Quit)}
	case Heard(Aborted):
		if s.ended {
			return Source{}, []Action{record(NoRecord), send(Known)}
		}
		return Source{}, []Action{do(Resume), record(NoRecord), send(Known)}
	}
	return s, nil
}
