package confine

import (
	"os"
	"path/filepath"
	"strings"
)

// adviceFor returns a hint for the user if a kernel setting prevents processes from having their own root folders,
// otherwise "". proc is the path of /proc.
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
		return "; load the AppArmor profile of vmrunner, which permits them: docs/concepts/confinement.md, Ubuntu"
	}
	return ""
}

// isWithoutProfile reports whether AppArmor has no profile for a program. Ubuntu assigns such programs the profile
// unprivileged_userns when they create a user namespace. In containers the container's profile applies.
func isWithoutProfile(label string) bool {
	name, _, _ := strings.Cut(label, " ")
	return name == "unconfined" || name == "unprivileged_userns"
}
