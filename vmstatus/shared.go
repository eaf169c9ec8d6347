package vmstatus

import (
	"encoding/json"
	"fmt"
	"time"
)

// A Change is a difference between a running VM and its configuration.
type Change struct {
	// Path is the path of the value in the configuration, or below spec in the resource: "vm.maximumCpus".
	Path string `json:"path"`
	// Operation is add, remove or replace.
	Operation string `json:"operation"`
	// CurrentValue is the value of the running VM, and DesiredValue the configured value, in the encoding of
	// encoding/json. nil means that there is no value.
	CurrentValue any `json:"currentValue,omitempty"`
	DesiredValue any `json:"desiredValue,omitempty"`
}

// Now returns CurrentValue as a text for people.
func (c Change) Now() string { return textOf(c.CurrentValue) }

// Then returns DesiredValue as a text for people.
func (c Change) Then() string { return textOf(c.DesiredValue) }

func textOf(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	written, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(written)
}

// An Outcome describes the end of a VM.
type Outcome struct {
	// Cause is the cause of the end.
	Cause Cause `json:"cause"`
	// Reason is QEMU's ShutdownCause, "guest-shutdown", or empty.
	Reason string `json:"reason,omitempty"`
	// ExitCode is the exit code of the runner.
	ExitCode int `json:"exitCode"`
	// Message is a text for people.
	Message string `json:"message,omitempty"`
}

// OSInfo describes the guest's operating system, with the names of QEMU's guest agent (guest-get-osinfo).
// Unreported values are empty.
type OSInfo struct {
	ID            string `json:"id,omitempty"`   // debian
	Name          string `json:"name,omitempty"` // Debian GNU/Linux
	PrettyName    string `json:"pretty-name,omitempty"`
	Version       string `json:"version,omitempty"`
	VersionID     string `json:"version-id,omitempty"` // 12
	Variant       string `json:"variant,omitempty"`
	VariantID     string `json:"variant-id,omitempty"`
	KernelRelease string `json:"kernel-release,omitempty"`
	KernelVersion string `json:"kernel-version,omitempty"`
	Machine       string `json:"machine,omitempty"` // x86_64
}

// A Usage contains the resources that a VM has used from the start of QEMU to a point in time. Differences
// between two points in time result in rates.
type Usage struct {
	At time.Time `json:"at"`
	// CPUSeconds is QEMU's processor time, including the guest's CPUs.
	CPUSeconds float64 `json:"cpuSeconds"`
	// Memory is QEMU's resident memory in bytes.
	Memory int64 `json:"memory"`
	// Read and Written are the bytes of all drives.
	Read    int64 `json:"read"`
	Written int64 `json:"written"`
	// Received and Sent are the bytes of the guest's network interfaces that are taps on the host. They are nil
	// if there is no such interface, because QEMU has no counters for its own networks.
	Received *int64 `json:"received,omitempty"`
	Sent     *int64 `json:"sent,omitempty"`
}

// Progress is the progress of a migration.
type Progress struct {
	// Stage is the stage of one side; see docs/tasks/migration.md.
	Stage string `json:"stage,omitempty"`
	// Transferred, Remaining and Total are bytes of the guest's memory. Only the source knows them.
	Transferred int64 `json:"transferred,omitempty"`
	Remaining   int64 `json:"remaining,omitempty"`
	Total       int64 `json:"total,omitempty"`
	// Throttle is the slowdown of the guest, in percent.
	Throttle int `json:"throttle,omitempty"`
	// DiskCopied and DiskTotal are bytes of the copied disks. Bytes that the guest writes during the migration
	// are added to both.
	DiskCopied int64 `json:"diskCopied,omitempty"`
	DiskTotal  int64 `json:"diskTotal,omitempty"`
}
