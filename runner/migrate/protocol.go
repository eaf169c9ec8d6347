package migrate

// A Message is what one side says to the other. A connection delivers messages in order, or breaks.
type Message string

// Messages of the source.
const (
	Offer Message = "Offer" // with the plan: can the target have the guest?
	Go    Message = "Go"    // the source has released the guest; also a question that can be repeated
	Abort Message = "Abort" // the source keeps the guest
	Known Message = "Known" // the source has recorded the answer to Go, and won't ask again
)

// Messages of the target.
const (
	Accept  Message = "Accept"  // its QEMU waits for the guest
	Refuse  Message = "Refuse"  // it can't have the guest, for a reason
	Loaded  Message = "Loaded"  // its QEMU has all of the guest, and is paused
	Resumed Message = "Resumed" // the guest is the target's
	Aborted Message = "Aborted" // the target has not resumed the guest, and never will
)

// A Record is what survives a runner that is killed. It belongs to one migration, by its id.
type Record string

// The records.
const (
	NoRecord  Record = ""          // there is no migration
	Migrating Record = "Migrating" // source: the guest is its own
	Released  Record = "Released"  // source: the guest may be the target's
	Moved     Record = "Moved"     // source: the guest is the target's
	Expecting Record = "Expecting" // target: the guest is the source's
	Taken     Record = "Taken"     // target: the guest is its own
	Given     Record = "Given"     // target: it never resumes the guest
)

// An Event is what happens to a side.
type Event string

// Events of both sides, besides messages (see Heard).
const (
	Disconnected Event = "Disconnected" // the other side can't be reached now
	Connected    Event = "Connected"    // it can
	QEMUEnded    Event = "QEMUEnded"    // this side's QEMU is gone
	Cancelled    Event = "Cancelled"    // a user, or this side's patience, wants the migration to end
	Restarted    Event = "Restarted"    // the runner is another one than that of the record
	// Fenced: it is certain that nothing of the other side runs, or will run, any more: its host
	// was ended, or its pod is gone with its node.
	Fenced Event = "Fenced"
)

// Events of the source.
const (
	Begin    Event = "Begin"    // a user wants the guest to move
	AtSwitch Event = "AtSwitch" // QEMU waits with the guest paused: MIGRATION status pre-switchover
	Copied   Event = "Copied"   // QEMU has sent all: status completed
	Failed   Event = "Failed"   // QEMU has given up: status failed or cancelled; it may have resumed the guest
)

// Events of the target.
const (
	Suits    Event = "Suits"    // the plan of an offer gives the guest the same hardware
	Differs  Event = "Differs"  // it doesn't
	Listens  Event = "Listens"  // QEMU waits for the guest
	Complete Event = "Complete" // QEMU has all of the guest
	// Continues: QEMU has resumed the guest, or may have. NotResumed: it was gone before it was asked to.
	Continues  Event = "Continues"
	NotResumed Event = "NotResumed"
)

// Heard returns the event that the other side has said something.
func Heard(m Message) Event { return Event("heard " + string(m)) }

// A Do is what a side has QEMU do, or does for it.
type Do string

// What is done.
const (
	Compare     Do = "Compare"     // target: the plans; then Suits or Differs
	Receive     Do = "Receive"     // target: start QEMU paused, waiting for the guest; then Listens
	Copy        Do = "Copy"        // source: disks and memory; then AtSwitch, or Failed
	Switch      Do = "Switch"      // source: end the copies of disks, migrate-continue; then Copied, or Failed
	StopCopying Do = "StopCopying" // source: migrate_cancel, and end the copies of disks
	Resume      Do = "Resume"      // cont, if the guest is not running; then, at the target, Continues or NotResumed
	Quit        Do = "Quit"        // end QEMU
	Connect     Do = "Connect"     // source: reach the target, again and again; then Connected
	Write       Do = "Write"       // the record Note, which is on the disk before the next action
	Say         Do = "Say"         // Message, which is lost if there is no connection
)

// An Action is one step. A side carries out its actions in order, before it learns of another event.
type Action struct {
	Do      Do
	Message Message // for Say
	Note    Record  // for Write
}

func record(r Record) Action { return Action{Do: Write, Note: r} }
func send(m Message) Action  { return Action{Do: Say, Message: m} }
func do(what Do) Action      { return Action{Do: what} }
