package vmspec

import (
	"net/url"
	"strings"
)

// Credentials returns a web address without its user and password, and these two. Any other text is returned
// unchanged.
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
	return scheme + "://" + rest[at+1:], unescapePath(user), unescapePath(password)
}

// unescapePath returns a decoded part of a web address.
func unescapePath(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
