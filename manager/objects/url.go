package objects

import (
	"errors"
	"net/url"
	"path"
	"strings"
)

// A URLPattern says which URLs are meant: "https://images.example/iso/" those that
// begin so, "*" each.
type URLPattern string

// Validate says what is wrong with a pattern.
func (p URLPattern) Validate() error {
	switch {
	case p == everything:
		return nil
	case plainURL(string(p)) == nil, strings.Contains(string(p), everything):
		return errors.New("want http:// or https://, a host and a path, or *")
	case !strings.HasSuffix(string(p), "/"):
		return errors.New("what it shall begin with ends with a /")
	}
	return nil
}

// matches tells whether a URL is meant. One that different programs may understand
// differently is not.
func (p URLPattern) matches(text string) bool {
	if p == everything {
		return true
	}
	is, wanted := plainURL(text), plainURL(string(p))
	return is != nil && wanted != nil && is.Scheme == wanted.Scheme && is.Host == wanted.Host && strings.HasPrefix(is.Path, wanted.Path)
}

// plainURL returns a URL of which there are no two opinions; nil: it is none.
func plainURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || !isURL(text) || u.User != nil || u.Host == "" || u.Fragment != "" || u.String() != text || strings.Contains(text, `\`) {
		return nil
	}
	if clean := path.Clean(u.Path); u.Path != clean && u.Path != clean+"/" {
		return nil
	}
	return u
}

// isURL tells whether the image of a CD is not a file.
func isURL(image string) bool {
	return strings.HasPrefix(image, "http://") || strings.HasPrefix(image, "https://")
}
