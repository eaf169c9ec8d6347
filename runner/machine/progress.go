package machine

import (
	"time"
)

// Progress is a runner's progress with a machine: what the next runner must know if this runner is killed.
type Progress struct {
	// ResetCounter is the last value seen.
	ResetCounter *int64 `json:"resetCounter,omitempty"`
	// PasswordSerial counts the passwords that were set.
	PasswordSerial int `json:"passwordSerial"`
	// Generation counts the configurations that were read. In a cluster it is the generation of the last
	// configuration's resource.
	Generation int64 `json:"generation"`
	// Paused reports whether the user has paused the VM.
	Paused bool `json:"paused,omitempty"`
	// Stop is the request to stop the VM, or nil.
	Stop *StopRequest `json:"stop,omitempty"`
	// Shutdown is QEMU's announcement of its end, or nil.
	Shutdown *Shutdown `json:"shutdown,omitempty"`
	// Frozen is when the guest agent was asked to freeze the guest's file systems; nil if they are not frozen.
	Frozen *time.Time `json:"frozen,omitempty"`
	// TPMReplaced reports that the TPM is lost and QEMU is connected to a replacement process.
	TPMReplaced bool `json:"tpmReplaced,omitempty"`
}

// A StopRequest records when and why a stop of the VM was requested.
type StopRequest struct {
	// At is the time since the host's start, which is independent of changes of the clock.
	At    time.Duration `json:"at"`
	Cause string        `json:"cause"`
	// AtOnce reports that the guest must not be asked.
	AtOnce bool `json:"atOnce,omitempty"`
}

// Shutdown is the data of QEMU's SHUTDOWN event; see ShutdownCause in QEMU's QMP reference.
type Shutdown struct {
	Guest  bool   `json:"guest"`
	Reason string `json:"reason"`
}

// keeper contains the progress, and saves each change.
type keeper struct {
	*line
	progress Progress
}

func (k *keeper) saveProgress() { k.addAction(Save{k.progress}) }

// setPaused records whether the user has paused the VM.
func (k *keeper) setPaused(paused bool) {
	if k.progress.Paused != paused {
		k.progress.Paused = paused
		k.saveProgress()
	}
}

// setFrozen records since when the guest's file systems may be frozen; zero means that they are not.
func (k *keeper) setFrozen(since time.Time) {
	k.progress.Frozen = nil
	if !since.IsZero() {
		k.progress.Frozen = &since
	}
}

// setShutdown records that QEMU has announced its end. A runner that starts while QEMU ends does not receive the
// event.
func (k *keeper) setShutdown(s Shutdown) {
	k.progress.Shutdown = &s
	k.saveProgress()
}

// requestStop records a stop request and returns the effective request. The first request counts, except that a
// later request may set AtOnce.
func (k *keeper) requestStop(cause string, atOnce bool, sinceBoot time.Duration) StopRequest {
	before := k.progress.Stop
	request := StopRequest{At: sinceBoot, Cause: cause}
	if before != nil {
		request = *before
	}
	request.AtOnce = request.AtOnce || atOnce
	if before == nil || *before != request {
		k.progress.Stop = &request
		k.saveProgress()
	}
	return request
}
