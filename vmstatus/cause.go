package vmstatus

// Cause says what ended a machine. Programs compare it, too: a manager goes by the
// cause in the status, or in the message that a container leaves.
type Cause string

// The causes.
const (
	CauseGuest Cause = "guest shutdown" // the guest shut itself down
	CauseReset Cause = "guest reset"    // the guest was reset, and QEMU ends at a reset
	CausePanic Cause = "guest panic"
	// CauseTPM is a guest's reset that had to end the machine because its TPM was
	// lost; it counts as a failure, so that what keeps the VM running starts it anew.
	CauseTPM Cause = "guest reset without its TPM"
	// CauseAsked covers everything that the runner did because a stop was requested.
	CauseAsked Cause = "asked"
	// CauseForced: a stop was requested, and the guest did not shut down in time.
	CauseForced  Cause = "forced"
	CauseCrashed Cause = "crashed" // QEMU crashed
	CauseKilled  Cause = "killed"  // QEMU was killed by a signal from elsewhere
	CauseStart   Cause = "start failed"
	// CauseMoved: the guest was moved to another runner, where it continues.
	CauseMoved Cause = "moved"
	// CauseUnknown: the machine's pod ended without any report of its runner.
	CauseUnknown Cause = "unknown"
)

// Crash reports whether a cause is that of a machine that had been running, and has failed.
func (c Cause) Crash() bool {
	switch c {
	case CauseCrashed, CauseKilled, CausePanic, CauseTPM:
		return true
	}
	return false
}
