package control

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"

	"vmop/printable"
)

type peerKey struct{}

// peerValue is the client that sent a request.
type peerValue struct {
	text    string
	conn    net.Conn
	manager bool
}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, peerValue{peerOf(conn), conn, false})
}

// withManager is withPeer for a connection of the manager.
func withManager(ctx context.Context, conn net.Conn) context.Context {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		host = conn.RemoteAddr().String()
	}
	return context.WithValue(ctx, peerKey{}, peerValue{"manager " + host, conn, true})
}

// UserHeader has the name of the user for whom the manager sends a request. Other clients, such as kubectl vmop by
// pods/exec, may say so, too: the name is shown as unverified then, and never the user's whom the manager knows.
// Whoever has the socket could end QEMU, so a false name gives no more rights.
const UserHeader = "Vmop-User"

// unverified follows the name of a user for which only the client vouches.
const unverified = " (unverified)"

// longestUser bounds the name of a user, in bytes.
const longestUser = 256

// peer returns the client that sent a request.
func peer(ctx context.Context) string {
	value, _ := ctx.Value(peerKey{}).(peerValue)
	return value.text
}

// A Who identifies a client of a console or screen.
type Who struct {
	// Client is the process or the program that is connected, or the unverified name of a user.
	Client string
	// User is the one for whom the manager is connected; empty: none.
	User string
}

// String names the client for people.
func (w Who) String() string { return cmp.Or(w.User, w.Client) }

// same reports whether two clients are the same user's.
func (w Who) same(other Who) bool { return w.User != "" && w.User == other.User }

// who returns the client that sent a request.
func who(r *http.Request) Who {
	value, _ := r.Context().Value(peerKey{}).(peerValue)
	w := Who{Client: value.text}
	user := printable.Line(r.Header.Get(UserHeader))
	user = strings.ToValidUTF8(user[:min(len(user), longestUser)], "")
	switch {
	case value.manager:
		w.User = user
	case user != "":
		w.Client = user + unverified
	}
	return w
}
