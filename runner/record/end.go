package record

import (
	"path/filepath"
	"time"

	"vmop/durable"
	"vmop/process"
	"vmop/runner/prepare"
	"vmop/vmstatus"
)

// An End says how the guest has ended that ran in a pod, and may have to stay off. The
// runner waits there for a stop request, and may be killed meanwhile, with its container or
// the whole node: started again in the same pod, it must not start the VM, but wait again.
// In another pod the note means nothing.
type End struct {
	Pod    string         `json:"pod"` // its uid
	Began  time.Time      `json:"began"`
	UUID   string         `json:"uuid"`
	VMType string         `json:"vmType"`
	Cause  vmstatus.Cause `json:"cause"`
	Reason string         `json:"reason"`
	Exit   process.Exit   `json:"exit"`
}

// EndFile is the path of the file that says how a guest has ended.
func EndFile(dataDir string) string { return filepath.Join(dataDir, prepare.EndedFile) }

// Write writes it.
func (e End) Write(dataDir string) error { return writeJSON(EndFile(dataDir), e, durable.Synced) }

// ReadEnd reads it, and reports whether it is there.
func ReadEnd(dataDir string) (e End, there bool, err error) {
	there, err = readJSON(EndFile(dataDir), &e)
	return e, there, err
}
