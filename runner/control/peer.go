package control

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"

	"vmop/internal/printable"
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

// withManager is like withPeer for a connection of the manager.
func withManager(ctx context.Context, conn net.Conn) context.Context {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		host = conn.RemoteAddr().String()
	}
	return context.WithValue(ctx, peerKey{}, peerValue{"manager " + host, conn, true})
}

// userHeader contains the name of the user that the manager sends a request for. Other clients, such as kubectl
// vmop through pods/exec, may also send it. Their name is shown as unverified, and never counts as a user known
// to the manager. A client of the socket could end QEMU anyway, so a false name gives no more rights.
const userHeader = "Vmop-User"

// unverified follows the name of a user that only the client vouches for.
const unverified = " (unverified)"

// longestUser bounds the name of a user, in bytes.
const longestUser = 256

// clientOf returns the client that sent a request.
func clientOf(ctx context.Context) string {
	value, _ := ctx.Value(peerKey{}).(peerValue)
	return value.text
}

// A Who identifies a client of a console or screen.
type Who struct {
	// Client is the connected process or program, or the unverified name of a user.
	Client string
	// User is the user for whom the manager is connected; empty for other clients.
	User string
}

// String names the client for people.
func (w Who) String() string { return cmp.Or(w.User, w.Client) }

// isSameUser reports whether two clients belong to the same user.
func (w Who) isSameUser(other Who) bool { return w.User != "" && w.User == other.User }

// senderOf returns the client that sent a request.
func senderOf(r *http.Request) Who {
	value, _ := r.Context().Value(peerKey{}).(peerValue)
	w := Who{Client: value.text}
	user := printable.Line(r.Header.Get(userHeader))
	user = strings.ToValidUTF8(user[:min(len(user), longestUser)], "")
	switch {
	case value.manager:
		w.User = user
	case user != "":
		w.Client = user + unverified
	}
	return w
}
