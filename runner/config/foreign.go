package config

import (
	"slices"
	"strings"

	"vmop/vmspec"
)

// foreignKey returns the local path of a key with another name in the original's sample file or its custom
// resource, or a hint how to replace the key.
func foreignKey(path string) (called, hint string) {
	switch path {
	case "vm.machineUuid":
		return "vm.uuid", ""
	case "vm.networks":
		return "vm.network", ""
	case "vm.disks":
		return "vm.drives", ""
	case "vm.cpuSockets":
		return "vm.sockets", ""
	case "vm.coresPerSocket":
		return "vm.coresPerDie", ""
	case "runnerTemplate":
		return "vmType", ""
	case "vm.display.spice.ticket":
		return "", "write the password to the file display-password next to the configuration, for its owner alone to read"
	}
	at := strings.LastIndexByte(path, '.')
	switch parent, key := path[:max(at, 0)], path[at+1:]; {
	case slices.Contains(vmspec.Choices(parent+".type"), key): // network: [{user: {…}}], as in the custom resource
		return "", "give type: " + key + " here, and its keys next to it"
	case key == "cdrom" && vmspec.Choices(parent+".bus") != nil:
		return "", "give type: ide-cd, and file for its image"
	}
	return "", ""
}
