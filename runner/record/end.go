package record

import (
	"path/filepath"
	"time"

	"vmop/durable"
	"vmop/process"
	"vmop/runner/machine"
	"vmop/runner/prepare"
	"vmop/vmstatus"
)

// An End says how a VM has ended, for people. In a pod it is that of a guest that may have to stay
// off. The runner waits there for a stop request, and may be killed meanwhile, with its container or
// the whole node: started again in the same pod, it must not start the VM, but wait again.
// In another pod the note means nothing.
type End struct {
	Pod    string         `json:"pod"` // its uid; "" outside of a cluster
	At     time.Time      `json:"at"`
	Began  time.Time      `json:"began"`
	UUID   string         `json:"uuid"`
	VMType string         `json:"vmType"`
	Cause  vmstatus.Cause `json:"cause"`
	Reason string         `json:"reason"`
	Exit   process.Exit   `json:"exit"`
	Note   string         `json:"note,omitempty"`
}

// String describes the end for people.
func (e End) String() string {
	return machine.Outcome{Cause: e.Cause, Reason: e.Reason, Exit: e.Exit, Note: e.Note}.String()
}

// Well reports whether the guest or a user has ended the VM, as far as it is known.
func (e End) Well() bool { return !e.Cause.Crash() && e.Cause != vmstatus.CauseUnknown }

// EndFile is the path of the file that says how a guest has ended.
func EndFile(dataDir string) string { return filepath.Join(dataDir, prepare.EndedFile) }

// Write writes it.
func (e End) Write(dataDir string) error { return writeJSON(EndFile(dataDir), e, durable.Synced) }

// ReadEnd reads it, and reports whether it is there.
func ReadEnd(dataDir string) (e End, there bool, err error) {
	there, err = readJSON(EndFile(dataDir), &e)
	return e, there, err
}
