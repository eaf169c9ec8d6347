package vmstatus

// Cause is the reason for the end of a machine. Programs compare it as well: a manager relies on the cause in the
// status, or in the message that a container leaves.
type Cause string

// The causes.
const (
	CauseGuest Cause = "guest shutdown" // the guest shut itself down
	CauseReset Cause = "guest reset"    // the guest was reset, and QEMU is configured to end at a reset
	CausePanic Cause = "guest panic"
	// CauseTPM means that a reset of the guest had to end the machine, because its TPM was lost. It counts as a
	// failure, so that the service that keeps the VM running starts it again.
	CauseTPM Cause = "guest reset without its TPM"
	// CauseAsked covers every end after a requested stop.
	CauseAsked Cause = "asked"
	// CauseForced means that a stop was requested, and the guest did not shut down in time.
	CauseForced  Cause = "forced"
	CauseCrashed Cause = "crashed" // QEMU crashed
	CauseKilled  Cause = "killed"  // an external signal killed QEMU
	CauseStart   Cause = "start failed"
	// CauseMoved means that the guest was moved to another runner, where it continues.
	CauseMoved Cause = "moved"
	// CauseUnknown means that the machine's pod ended without a report from its runner.
	CauseUnknown Cause = "unknown"
)

// Crash reports whether the machine failed while it was running.
func (c Cause) Crash() bool {
	switch c {
	case CauseCrashed, CauseKilled, CausePanic, CauseTPM:
		return true
	}
	return false
}
