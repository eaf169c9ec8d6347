package login

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
)

// The page key is a second secret of a session. Browsers send cookies to every port of a host, so a guest whose port
// is forwarded to this computer may see them. The page key is no cookie: a log-in hands it to the scripts of the pages,
// which keep it in the storage of their origin, port included, and send it with whatever acts for the user.
//
// See docs/decisions/0169-own-address.md.
const (
	// PageKeyHeader is the header of a request with the page key.
	PageKeyHeader = "Vmop-Page-Key"
	// PageKeyField is the parameter of an address, or the field of a form, with the page key: for requests to which
	// scripts cannot add a header, such as websockets. It is also the fragment of the address after a log-in.
	PageKeyField = "page-key"
)

// PageKey returns the page key of a session that has just begun, and "" for every other session: the server keeps its
// hash only.
func (s *Session) PageKey() string { return s.pageKey }

// HasPageKey reports whether a request shows the page key of the session, if the session has one. A form counts if it
// has been parsed.
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

// WithPageKey returns the address of this server to which a browser is sent after a log-in. The key is in the fragment,
// which browsers send to no server.
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

// bindsTo reports whether sessions of a host get a page key: those of this computer, which has other servers than ours.
func (s *Service) bindsTo(host string) bool { return s.opts.Link != "" || isLoopback(host) }
