package reconcile

import (
	"encoding/json"

	"vmop/qmp"
)

// event is an event of QEMU with the data that rules need; see the events in the QEMU QMP Reference Manual.
type event struct {
	name string
	data struct {
		// DEVICE_TRAY_MOVED: the drive's device and the new state of its tray.
		ID       string `json:"id"`
		TrayOpen bool   `json:"tray-open"`
		// MEMORY_DEVICE_SIZE_CHANGE: the bytes that the device ID provides.
		Size int64 `json:"size"`
		// BALLOON_CHANGE: the memory of the guest, in bytes.
		Actual int64 `json:"actual"`
		// DEVICE_UNPLUG_GUEST_ERROR: the device that stays.
		Device string `json:"device"`
		// ACPI_DEVICE_OST: the guest's reaction to a device.
		Info struct {
			Device   string `json:"device"`
			SlotType string `json:"slot-type"`
			Source   int    `json:"source"`
			Status   int    `json:"status"`
		} `json:"info"`
	}
}

// parseEvent returns the event if rules need it. An event that can't be decoded counts as lost.
func parseEvent(e qmp.Event) (event, bool) {
	switch e.Name {
	case "RESUME", "STOP", "SHUTDOWN", "RESET", "DEVICE_TRAY_MOVED", "BALLOON_CHANGE", "MEMORY_DEVICE_SIZE_CHANGE",
		"DEVICE_DELETED", "DEVICE_UNPLUG_GUEST_ERROR", "ACPI_DEVICE_OST":
	default:
		return event{}, false
	}
	parsed := event{name: e.Name}
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &parsed.data) != nil {
		return event{}, false
	}
	return parsed, true
}
