package login

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestName is the maximum length of a user's or role's name, in bytes.
const longestName = 256

// CheckName returns an error if name is not a valid user name.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("no name")
	case len(name) > longestName:
		return fmt.Errorf("more than %d bytes", longestName)
	case !utf8.ValidString(name), strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("characters that are not printable")
	case name != strings.TrimSpace(name):
		return errors.New("spaces around it")
	case isReservedName(name):
		return errors.New("names that begin with system: are Kubernetes' own")
	}
	return nil
}

// isReservedName reports whether a name belongs to Kubernetes, such as system:masters. A log-in never yields a reserved
// name.
func isReservedName(name string) bool { return strings.HasPrefix(name, "system:") }

// Target returns the path to open after a log-in: next if it is a path of this server, otherwise "/". It never
// leads to another host.
func Target(next string) string {
	u, err := url.Parse(next)
	switch {
	case err != nil, u.IsAbs(), u.Host != "", u.User != nil, u.Opaque != "":
		return "/"
	case !strings.HasPrefix(next, "/"), len(next) > 2000:
		return "/"
	case strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }):
		return "/" // browsers treat \ as /, and ignore tabs and line breaks
	case strings.HasPrefix(u.Path, "//"):
		return "/" // includes the spelling /%2f
	}
	return next
}
