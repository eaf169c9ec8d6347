package qemuopt

import (
	"slices"
	"strings"
)

// credentials lists the option properties that contain a credential, with an alternative that hides it.
var credentials = []struct{ flags, property, instead string }{
	{"-blockdev -drive", "cookie", "cookie-secret" + byObject},
	{"-blockdev -drive -iscsi -spice", "password", "password-secret" + byObject},
	{"-object", "data", "file, or encrypt it (keyid)"},
	{"-spice", "x509-key-password", "x509-key-file with a key that has no password"},
}

const byObject = ", with the id of an object secret that reads a file"

// CredentialInstead returns the alternative for a property that would show a credential on the command line,
// where everybody on the host can see it. For "file.cookie" it returns "file.cookie-secret, …". It returns "" for
// a property without a credential.
func CredentialInstead(flag, property, value string) string {
	prefix, name := "", property
	if i := strings.LastIndex(property, "."); i >= 0 {
		prefix, name = property[:i+1], property[i+1:]
	}
	for _, c := range credentials {
		if c.property == name && slices.Contains(strings.Fields(c.flags), flag) {
			return prefix + c.instead
		}
	}
	if (flag == "-blockdev" || flag == "-drive") && hasPassword(value) {
		return "url without it, username and password-secret" + byObject
	}
	return ""
}

// hasPassword reports whether a value is an address with a user and a password.
func hasPassword(value string) bool {
	_, rest, found := strings.Cut(value, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	at := strings.LastIndexByte(rest, '@')
	return found && at >= 0 && strings.Contains(rest[:at], ":")
}
