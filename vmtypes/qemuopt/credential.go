package qemuopt

import "strings"

// CredentialInstead returns the property by which QEMU reads from an object what a
// property of an option would show to everybody on the host, who see command lines:
// "file.cookie-secret" for "file.cookie". It is "" for a property that is no credential.
func CredentialInstead(flag, property string) string {
	prefix, name := "", property
	if i := strings.LastIndex(property, "."); i >= 0 {
		prefix, name = property[:i+1], property[i+1:]
	}
	switch {
	case name == "cookie" && (flag == "-blockdev" || flag == "-drive"):
		return prefix + "cookie-secret"
	case name == "password" && (flag == "-blockdev" || flag == "-drive" || flag == "-spice"):
		return prefix + "password-secret"
	}
	return ""
}
