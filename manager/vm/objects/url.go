package objects

import (
	"errors"
	"net/url"
	"path"
	"strings"
)

// A URLPattern matches URLs: "https://images.example/iso/" matches all URLs with this prefix, and "*" matches every
// URL.
//
// See docs/decisions/0046-redirects.md.
type URLPattern string

// Validate returns an error if the pattern is invalid.
func (p URLPattern) Validate() error {
	switch {
	case p == everything:
		return nil
	case plainURL(string(p)) == nil, strings.Contains(string(p), everything):
		return errors.New("must be http:// or https://, a host and a path, or *")
	case !strings.HasSuffix(string(p), "/"):
		return errors.New("must end with /")
	}
	return nil
}

// matchesURL reports whether a URL matches the pattern. A URL that programs may interpret differently never matches,
// except for "*".
func (p URLPattern) matchesURL(text string) bool {
	if p == everything {
		return true
	}
	is, wanted := plainURL(text), plainURL(string(p))
	return is != nil && wanted != nil && is.Scheme == wanted.Scheme && is.Host == wanted.Host &&
		strings.HasPrefix(is.Path, wanted.Path)
}

// plainURL parses a URL that all programs interpret in the same way. It returns nil for other texts.
func plainURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || !isURL(text) || u.User != nil || u.Host == "" || u.Fragment != "" ||
		u.String() != text || strings.Contains(text, `\`) {
		return nil
	}
	if clean := path.Clean(u.Path); u.Path != clean && u.Path != clean+"/" {
		return nil
	}
	return u
}

// isURL reports whether the image of a CD is a URL rather than a file.
func isURL(image string) bool {
	return strings.HasPrefix(image, "http://") || strings.HasPrefix(image, "https://")
}
