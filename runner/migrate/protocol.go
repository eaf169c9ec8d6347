package migrate

// A Message is what one side sends to the other. A connection delivers messages in order, or breaks.
type Message string

// Messages of the source.
const (
	Offer Message = "Offer" // with the plan: asks whether the target accepts the guest
	Go    Message = "Go"    // the source has released the guest; also a question that can be repeated
	Abort Message = "Abort" // the source keeps the guest
	Known Message = "Known" // the source has recorded the answer to Go, and won't ask again
)

// Messages of the target.
const (
	Accept  Message = "Accept"  // the target's QEMU waits for the guest
	Refuse  Message = "Refuse"  // the target can't accept the guest, with a reason
	Loaded  Message = "Loaded"  // the target's QEMU has the complete guest, paused
	Resumed Message = "Resumed" // the target owns the guest
	Aborted Message = "Aborted" // the target has not resumed the guest, and never will
)

// A Record is the state that survives a killed runner. It belongs to one migration.
type Record string

// The records.
const (
	NoRecord  Record = ""          // there is no migration
	Migrating Record = "Migrating" // source: the source owns the guest
	Released  Record = "Released"  // source: the target may own the guest
	Moved     Record = "Moved"     // source: the target owns the guest
	Expecting Record = "Expecting" // target: the source owns the guest
	Taken     Record = "Taken"     // target: the target owns the guest
	Given     Record = "Given"     // target: the target never resumes the guest
)

// An Event is something that happens to a side.
type Event string

// Events of both sides, in addition to messages (see Heard).
const (
	Disconnected Event = "Disconnected" // the other side can't be reached at the moment
	Connected    Event = "Connected"    // the other side can be reached
	QEMUEnded    Event = "QEMUEnded"    // this side's QEMU is gone
	Cancelled    Event = "Cancelled"    // a user cancels the migration, or a timeout of this side
	Restarted    Event = "Restarted"    // the record was written by another runner
	// Fenced: everything of the other side has certainly ended for good, because its host was shut down, or its
	// pod is gone with its node.
	Fenced Event = "Fenced"
)

// Events of the source.
const (
	Begin    Event = "Begin"    // a user starts to move the guest
	AtSwitch Event = "AtSwitch" // QEMU waits with the guest paused: MIGRATION status pre-switchover
	Copied   Event = "Copied"   // QEMU has sent everything: status completed
	Failed   Event = "Failed"   // QEMU has given up: status failed or cancelled; it may have resumed the guest
)

// Events of the target.
const (
	Suits    Event = "Suits"    // the plan of an offer gives the guest the same hardware
	Differs  Event = "Differs"  // the hardware differs
	Listens  Event = "Listens"  // QEMU waits for the guest
	Complete Event = "Complete" // QEMU has the complete guest
	// Continues: QEMU has resumed the guest, or may have. NotResumed: QEMU ended before it could resume the
	// guest.
	Continues  Event = "Continues"
	NotResumed Event = "NotResumed"
)

// Heard returns the event that the other side has sent a message.
func Heard(m Message) Event { return Event("heard " + string(m)) }

// A Do is the kind of an Action.
type Do string

// The kinds of actions.
const (
	Compare     Do = "Compare"     // target: compare the plans; then Suits or Differs
	Receive     Do = "Receive"     // target: start QEMU paused, waiting for the guest; then Listens
	Copy        Do = "Copy"        // source: copy disks and memory; then AtSwitch, or Failed
	Switch      Do = "Switch"      // source: end the copies of disks, migrate-continue; then Copied, or Failed
	StopCopying Do = "StopCopying" // source: migrate_cancel, and end the copies of disks
	Resume      Do = "Resume"      // cont, if the guest is not running; then, at the target, Continues or NotResumed
	Quit        Do = "Quit"        // end QEMU
	Connect     Do = "Connect"     // source: connect to the target, with retries; then Connected
	Write       Do = "Write"       // write the record Note, and sync it to disk before the next action
	Say         Do = "Say"         // send Message, which is lost without a connection
)

// An Action is one step. A side carries out its actions in order, before it processes another event.
type Action struct {
	Do      Do
	Message Message // for Say
	Note    Record  // for Write
}

func writeAction(r Record) Action { return Action{Do: Write, Note: r} }
func sayAction(m Message) Action  { return Action{Do: Say, Message: m} }
func plainAction(what Do) Action  { return Action{Do: what} }
