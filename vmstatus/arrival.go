package vmstatus

// Progress of a runner that is the target of a migration, in addition to the stages in docs/tasks/migration.md.
const (
	ArrivalWaiting = "Waiting" // the source hasn't offered the guest yet
	ArrivalFailed  = "Failed"  // the runner will never receive the guest
)
