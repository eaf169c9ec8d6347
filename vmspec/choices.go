package vmspec

import "strings"

// Choices returns the allowed words for the key at a path, such as "vm.network[].type" or "vm.network[0].type".
// The result is empty if the key accepts other values.
func Choices(path string) []string {
	switch withoutIndices(path) {
	case "vm.accelerator":
		return wordsOf(AcceleratorAuto, AcceleratorKVM, AcceleratorTCG, AcceleratorNone)
	case "vm.firmware":
		return wordsOf(FirmwareBIOS, FirmwareUEFI, FirmwareUEFI4M, FirmwareSecure, FirmwareSecure4M)
	case "vm.rtcClock":
		return []string{"host", "rt", "vm"}
	case "vm.network[].type":
		return wordsOf(NetworkTap, NetworkUser, NetworkPasst, NetworkMasquerade)
	case "vm.network[].link":
		return wordsOf(LinkUp, LinkDown)
	case "vm.network[].ports[].protocol":
		return []string{"tcp", "udp"}
	case "vm.drives[].type":
		return wordsOf(DriveRaw, DriveIDECD)
	case "vm.drives[].format":
		return []string{"raw", "qcow2"}
	case "vm.drives[].bus":
		return []string{"ide", "scsi"}
	case "vm.drives[].cache":
		return []string{"none", "writeback", "writethrough", "directsync", "unsafe"}
	case "vm.drives[].aio":
		return []string{"threads", "native", "io_uring"}
	case "vm.drives[].discard":
		return []string{"unmap", "ignore"}
	case "vm.drives[].detectZeroes":
		return []string{"off", "on", "unmap"}
	case "vm.display.spice.streamingVideo":
		return []string{"off", "all", "filter"}
	}
	return nil
}

func wordsOf[T ~string](values ...T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

// withoutIndices removes the indices from a path: "vm.network[3].mac" becomes "vm.network[].mac".
func withoutIndices(path string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(path, "[")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		b.WriteString("[")
		path = strings.TrimLeft(rest, "0123456789")
	}
}
