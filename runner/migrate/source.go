package migrate

// A Stage is the progress of a side.
type Stage string

// The stages of the source.
const (
	Still     Stage = ""          // the guest runs, and stays
	Offering  Stage = "Offering"  // the target is asked
	Copying   Stage = "Copying"   // the guest runs, and is copied
	Switching Stage = "Switching" // the guest is paused, and the rest is copied
	Asking    Stage = "Asking"    // the guest is released, and the target is asked whether it has resumed it
	Gone      Stage = "Gone"      // the target has resumed the guest
)

// A Source is the side that has the guest.
type Source struct {
	Stage Stage
	// copied: QEMU has sent everything. loaded: the target has received it.
	copied, loaded bool
	ended          bool // QEMU is gone
}

// SourceOf returns the source in the state of a record that a runner finds. Its next event must be Restarted.
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

// On returns the source after an event, and the resulting actions. It ignores an event that comes too late or
// that does not concern the stage.
func (s Source) On(e Event) (Source, []Action) {
	if e == QEMUEnded {
		s.ended = true
	}
	switch s.Stage {
	case Still:
		if e == Begin {
			return Source{Stage: Offering}, []Action{writeAction(Migrating), plainAction(Connect)}
		}
	case Offering, Copying, Switching:
		return s.beforeRelease(e)
	case Asking:
		return s.afterRelease(e)
	case Gone:
		if e == Restarted {
			return s, []Action{plainAction(Quit)}
		}
	}
	return s, nil
}

// beforeRelease handles events while the source certainly owns the guest.
func (s Source) beforeRelease(e Event) (Source, []Action) {
	switch e {
	case Cancelled, Failed, Disconnected, Restarted, Fenced, QEMUEnded, Heard(Refuse), Heard(Aborted):
		return s.keepGuest()
	case Connected:
		if s.Stage == Offering {
			return s, []Action{sayAction(Offer)}
		}
	case Heard(Accept):
		if s.Stage == Offering {
			s.Stage = Copying
			return s, []Action{plainAction(Copy)}
		}
	case AtSwitch:
		if s.Stage == Copying {
			s.Stage = Switching
			return s, []Action{plainAction(Switch)}
		}
	case Copied:
		s.copied = true
	case Heard(Loaded):
		s.loaded = true
	}
	if s.Stage == Switching && s.copied && s.loaded {
		s.Stage = Asking
		return s, []Action{writeAction(Released), sayAction(Go)}
	}
	return s, nil
}

// keepGuest ends the migration. The source has never sent Go to the target.
func (s Source) keepGuest() (Source, []Action) {
	if s.ended {
		return Source{}, []Action{sayAction(Abort), writeAction(NoRecord)}
	}
	return Source{}, []Action{sayAction(Abort), plainAction(StopCopying), plainAction(Resume), writeAction(NoRecord)}
}

// afterRelease handles events while the target may own the guest.
func (s Source) afterRelease(e Event) (Source, []Action) {
	switch e {
	case Restarted, Disconnected:
		return s, []Action{plainAction(Connect)}
	case Connected:
		return s, []Action{sayAction(Go)}
	case Heard(Resumed), Fenced: // a fenced target may have resumed the guest, which may have written to disks
		s.Stage = Gone
		return s, []Action{writeAction(Moved), sayAction(Known), plainAction(Quit)}
	case Heard(Aborted):
		if s.ended {
			return Source{}, []Action{writeAction(NoRecord), sayAction(Known)}
		}
		return Source{}, []Action{plainAction(Resume), writeAction(NoRecord), sayAction(Known)}
	}
	return s, nil
}
