package vmspec

import (
	"net/url"
	"strings"
)

// Credentials returns a web address without the user and the password in it, and these.
// What is no web address stays as it is.
func Credentials(file string) (bare, user, password string) {
	scheme, rest, ok := strings.Cut(file, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return file, "", ""
	}
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	at := strings.LastIndexByte(host, '@')
	if at < 0 {
		return file, "", ""
	}
	user, password, _ = strings.Cut(host[:at], ":")
	return scheme + "://" + rest[at+1:], unescaped(user), unescaped(password)
}

// unescaped is a part of a web address as it was meant.
func unescaped(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
