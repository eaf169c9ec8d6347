package login

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
)

// The page key is a second secret of a session. Browsers send cookies to every port of a host, so a guest with a
// port forwarded to this computer may see them. The page key is not a cookie: a log-in hands it to the scripts of
// the pages. They keep it in the storage of their origin, which includes the port, and send it with every request
// that acts for the user.
//
// See docs/decisions/0169-own-address.md.
const (
	// PageKeyHeader is the request header with the page key.
	PageKeyHeader = "Vmop-Page-Key"
	// PageKeyField is the query parameter or form field with the page key, for requests to which scripts cannot
	// add a header, such as websockets. It is also the fragment of the address after a log-in.
	PageKeyField = "page-key"
)

// PageKey returns the page key of a session that has just started, and "" for every other session, because the
// server keeps only a hash.
func (s *Session) PageKey() string { return s.pageKey }

// HasPageKey reports whether a request contains the session's page key, or the session has no page key. It sees
// form fields only if the form has been parsed.
func (s *Session) HasPageKey(r *http.Request) bool {
	if s.ticket.Key == "" {
		return true
	}
	given := r.Header.Get(PageKeyHeader)
	if given == "" {
		given = r.URL.Query().Get(PageKeyField)
	}
	if given == "" {
		given = r.PostForm.Get(PageKeyField)
	}
	return subtle.ConstantTimeCompare([]byte(hashOf(given)), []byte(s.ticket.Key)) == 1
}

// WithPageKey returns the address that the browser is redirected to after a log-in. The fragment contains the
// key, because browsers do not send the fragment to any server.
func (s *Session) WithPageKey(next string) string {
	if s.pageKey == "" {
		return next
	}
	next, _, _ = strings.Cut(next, "#")
	return next + "#" + PageKeyField + "=" + s.pageKey
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// bindsTo reports whether sessions of a host get a page key. That applies to this computer, which also runs other
// servers.
func (s *Service) bindsTo(host string) bool { return s.opts.Link != "" || isLoopbackHost(host) }
