package config

// foreignKey returns the path by which a key goes here that has another name in
// the original's sample file or in its custom resource, or "".
func foreignKey(path string) string {
	switch path {
	case "vm.machineUuid":
		return "vm.uuid"
	case "vm.networks":
		return "vm.network"
	case "vm.disks":
		return "vm.drives"
	case "vm.cpuSockets":
		return "vm.sockets"
	case "vm.coresPerSocket":
		return "vm.coresPerDie"
	case "runnerTemplate":
		return "vmType"
	}
	return ""
}
