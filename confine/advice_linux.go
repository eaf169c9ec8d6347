package confine

import (
	"os"
	"path/filepath"
	"strings"
)

// adviceFor returns what to do where a setting of the kernel keeps a process from its own root folder, "" if none does.
// proc is /proc.
func adviceFor(proc string) string {
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(proc, name))
		return strings.TrimSpace(string(text))
	}
	switch {
	case read("sys/user/max_user_namespaces") == "0":
		return "; permit user namespaces: sysctl user.max_user_namespaces=1000"
	case read("sys/kernel/unprivileged_userns_clone") == "0":
		return "; permit user namespaces: sysctl kernel.unprivileged_userns_clone=1"
	case read("sys/kernel/apparmor_restrict_unprivileged_userns") == "1" && isWithoutProfile(read("self/attr/current")):
		return "; load the AppArmor profile of vmrunner, which permits them: docs/security.md, Ubuntu"
	}
	return ""
}

// isWithoutProfile reports whether AppArmor has no profile for a program: Ubuntu gives such programs the profile
// unprivileged_userns when they create a user namespace. In containers a profile of the container holds.
func isWithoutProfile(label string) bool {
	name, _, _ := strings.Cut(label, " ")
	return name == "unconfined" || name == "unprivileged_userns"
}
