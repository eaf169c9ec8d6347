package vmstatus

// How far a runner is to which a guest is to move, besides the stages of docs/migration.md.
const (
	ArrivalWaiting = "Waiting" // the source hasn't offered the guest yet
	ArrivalFailed  = "Failed"  // it never gets the guest
)
