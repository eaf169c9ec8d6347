package record

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"vmop/internal/atomicfile"
	"vmop/internal/childprocess"
	"vmop/runner/machine"
	"vmop/runner/prepare"
	"vmop/vmstatus"
)

// An End describes for people how a VM has ended. In a pod it matters if the guest may have to stay off: the
// runner waits for a stop request, and may be killed during the wait, with its container or the whole node. When
// it is started again in the same pod, it must not start the VM, but wait again. In another pod the record has no
// effect.
type End struct {
	Pod    string            `json:"pod"` // its uid; "" outside of a cluster
	At     time.Time         `json:"at"`
	Began  time.Time         `json:"began"`
	UUID   string            `json:"uuid"`
	VMType string            `json:"vmType"`
	Cause  vmstatus.Cause    `json:"cause"`
	Reason string            `json:"reason"`
	Exit   childprocess.Exit `json:"exit"`
	Note   string            `json:"note,omitempty"`
}

// String describes the end for people.
func (e End) String() string {
	return machine.Outcome{Cause: e.Cause, Reason: e.Reason, Exit: e.Exit, Note: e.Note}.String()
}

// Well reports whether the guest or a user has ended the VM, as far as it is known.
func (e End) Well() bool { return !e.Cause.Crash() && e.Cause != vmstatus.CauseUnknown }

// EndFile returns the path of the file that contains how a guest has ended.
func EndFile(dataDir string) string { return filepath.Join(dataDir, prepare.EndedFile) }

// Lost is the end of a VM that no runner recorded.
func Lost() End {
	return End{
		Cause: vmstatus.CauseUnknown,
		Note:  "QEMU and its runner were killed, or the computer was switched off",
	}
}

// Reserve stores Lost in the data directory of a VM that runs. So Write has space for the end even on a full disk.
func Reserve(dataDir string) error { return writeJSON(EndFile(dataDir), Lost(), atomicfile.Volatile) }

// Write stores it in a data directory. On a full disk it overwrites the file of Reserve.
func (e End) Write(dataDir string) error {
	err := writeJSON(EndFile(dataDir), e, atomicfile.Synced)
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	text, failed := json.Marshal(e)
	if failed == nil {
		failed = overwriteFile(EndFile(dataDir), append(text, '\n'))
	}
	if failed != nil {
		return err
	}
	return nil
}

// overwriteFile replaces the content of a file without more space on the disk, up to the size of a block.
func overwriteFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Truncate(int64(len(text))), f.Sync(), f.Close())
}

// ReadEnd reads it, and reports whether it exists.
func ReadEnd(dataDir string) (e End, there bool, err error) {
	there, err = readJSON(EndFile(dataDir), &e)
	return e, there, err
}
