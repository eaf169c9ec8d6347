package vmspec

import "strings"

// Choices returns the words that the key at a path can be, such as
// "vm.network[].type" or "vm.network[0].type"; none if it is not limited to a few.
func Choices(path string) []string {
	switch withoutIndices(path) {
	case "vm.accelerator":
		return words(AcceleratorAuto, AcceleratorKVM, AcceleratorTCG, AcceleratorNone)
	case "vm.firmware":
		return words(FirmwareBIOS, FirmwareUEFI, FirmwareUEFI4M, FirmwareSecure, FirmwareSecure4M)
	case "vm.rtcClock":
		return []string{"host", "rt", "vm"}
	case "vm.network[].type":
		return words(NetworkTap, NetworkUser, NetworkPasst, NetworkMasquerade)
	case "vm.network[].ports[].protocol":
		return []string{"tcp", "udp"}
	case "vm.drives[].type":
		return words(DriveRaw, DriveIDECD)
	case "vm.drives[].format":
		return []string{"raw", "qcow2"}
	case "vm.drives[].bus":
		return []string{"ide", "scsi"}
	case "vm.display.spice.streamingVideo":
		return []string{"off", "all", "filter"}
	}
	return nil
}

func words[T ~string](values ...T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

// withoutIndices returns "vm.network[].mac" for "vm.network[3].mac".
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
