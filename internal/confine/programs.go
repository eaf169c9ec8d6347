package confine

// Programs returns the paths that a distribution's programs read to start: the programs, their libraries, and the
// system files that these need.
func Programs() []Path {
	var all []Path
	for _, name := range []string{
		"/usr", "/bin", "/lib", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/proc/meminfo",
		"/proc/sys/vm/overcommit_memory", "/sys/devices/system", "/dev/urandom",
	} {
		all = append(all, Path{Name: name, Access: Read})
	}
	return append(all, Path{Name: "/dev/null", Access: Write})
}
