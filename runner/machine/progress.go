package machine

import (
	"time"
)

// Progress is how far a runner has come with a machine: what the next one must
// know if this one is killed.
type Progress struct {
	// ResetCounter is the one that was seen last.
	ResetCounter *int64 `json:"resetCounter,omitempty"`
	// PasswordSerial counts the passwords that were set.
	PasswordSerial int `json:"passwordSerial"`
	// Generation counts the configurations that were read, or is that of the
	// resource that the last one was made of.
	Generation int64 `json:"generation"`
	// Paused says that the user has paused the VM.
	Paused bool `json:"paused,omitempty"`
	// Stop is the request to stop the VM, if there was one.
	Stop *StopRequest `json:"stop,omitempty"`
	// Shutdown is QEMU's announcement that it ends, if there was one.
	Shutdown *Shutdown `json:"shutdown,omitempty"`
	// Frozen is when the guest agent was asked to freeze the guest's file systems that may be
	// frozen.
	Frozen *time.Time `json:"frozen,omitempty"`
	// TPMReplaced says that the TPM is lost, and QEMU controls a process that was
	// started in the place of the first.
	TPMReplaced bool `json:"tpmReplaced,omitempty"`
}

// A StopRequest is when and why a stop of the VM was requested.
type StopRequest struct {
	// At is the time since the host's start, which no change of the clock moves.
	At    time.Duration `json:"at"`
	Cause string        `json:"cause"`
	// AtOnce says that the guest is not to be asked.
	AtOnce bool `json:"atOnce,omitempty"`
}

// Shutdown is the data of QEMU's SHUTDOWN event; see ShutdownCause in QEMU's QMP reference.
type Shutdown struct {
	Guest  bool   `json:"guest"`
	Reason string `json:"reason"`
}

// keeper has the progress, and has every change of it saved.
type keeper struct {
	*line
	progress Progress
}

func (k *keeper) save() { k.do(Save{k.progress}) }

// setPaused records that the user has paused the VM or resumed it.
func (k *keeper) setPaused(paused bool) {
	if k.progress.Paused != paused {
		k.progress.Paused = paused
		k.save()
	}
}

// setFrozen records since when the guest's file systems may be frozen; zero: they are not.
func (k *keeper) setFrozen(since time.Time) {
	k.progress.Frozen = nil
	if !since.IsZero() {
		k.progress.Frozen = &since
	}
}

// setShutdown records that QEMU has announced its end: a runner that comes while it ends does not
// get the event.
func (k *keeper) setShutdown(s Shutdown) {
	k.progress.Shutdown = &s
	k.save()
}

// requestStop records a stop request, and returns it: the first one counts,
// except that a later one may forbid to ask the guest.
func (k *keeper) requestStop(cause string, atOnce bool, sinceBoot time.Duration) StopRequest {
	before := k.progress.Stop
	request := StopRequest{At: sinceBoot, Cause: cause}
	if before != nil {
		request = *before
	}
	request.AtOnce = request.AtOnce || atOnce
	if before == nil || *before != request {
		k.progress.Stop = &request
		k.save()
	}
	return request
}
