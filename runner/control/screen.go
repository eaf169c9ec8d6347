package control

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"sync"

	"vmop/runner/rfb"
	"vmop/runner/status"
)

// MaxScreens is how many clients the screen is shown to at a time: QEMU's VNC server lets
// no more in.
const MaxScreens = 32

// screens are the viewers of the screen that are connected through the control interface. One
// may use it, the others watch.
type screens struct {
	publish func(status.Update)

	mu     sync.Mutex
	count  int
	typist *screenViewer
}

// A screenViewer is one of them.
type screenViewer struct {
	who   Who
	mode  string // in the status
	taken bool   // another one has taken the screen over; guarded by screens.mu
	leave func() // ends the stream; nil: it has not begun. Guarded by screens.mu
}

func (v *screenViewer) opened() status.ConsoleOpened {
	return status.ConsoleOpened{Kind: status.VNC, Client: v.who.Client, User: v.who.User, Mode: v.mode}
}

// open admits a viewer, which must be closed. One that takes the screen over ends the
// stream of the one who has it.
func (s *screens) open(mode Mode, client Who) (*screenViewer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= MaxScreens {
		return nil, errFull
	}
	v := &screenViewer{who: client, mode: mode.shown()}
	if mode != Watch {
		if other := s.typist; other != nil {
			if mode != Take && !client.same(other.who) {
				return nil, inUse{"screen", other.who}
			}
			other.taken = true
			if other.leave != nil {
				other.leave()
			}
		}
		s.typist = v
	}
	s.count++
	s.publish(v.opened())
	return v, nil
}

// begin reports whether the stream may begin: it may have been taken over already.
func (s *screens) begin(v *screenViewer, leave func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.leave = leave
	return !v.taken
}

func (s *screens) close(v *screenViewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	if s.typist == v {
		s.typist = nil
	}
	s.publish(status.ConsoleClosed(v.opened()))
}

// getScreen streams the screen (RFC 6143).
func (s *Server) getScreen(w http.ResponseWriter, r *http.Request) error {
	if err := wantsUpgrade(r); err != nil {
		return err
	}
	mode, err := modeOf(r)
	if err != nil {
		return err
	}
	path, err := s.socket("screen")
	if err != nil {
		return err
	}
	viewer, err := s.screens.open(mode, who(r))
	if err != nil {
		return err
	}
	defer s.screens.close(viewer)
	screen, err := dial(r.Context(), path, screenPrefix+rand.Text())
	if err != nil {
		return Refusal(err.Error())
	}
	defer screen.Close()
	conn, err := s.upgrade(w)
	if err != nil {
		return nil // the client has disconnected
	}
	defer s.forget(conn.Conn)
	if !s.screens.begin(viewer, func() { _ = conn.Close() }) {
		return nil
	}
	s.opts.Log.Info("screen opened", "kind", status.VNC, "command", string(mode), "client", viewer.who.String())
	splice(conn, &filtered{Conn: screen, filter: rfb.Filter{Input: mode != Watch}, failed: func(err error) {
		s.opts.Log.Info("the stream of a screen ends", "client", viewer.who.String(), "err", err)
	}})
	s.opts.Log.Info("screen closed", "kind", status.VNC, "client", viewer.who.String())
	return nil
}

// filtered is a connection with QEMU's VNC server that gets of what a client sends only what
// that one may send.
type filtered struct {
	net.Conn
	filter rfb.Filter
	failed func(error)
}

func (f *filtered) Write(data []byte) (int, error) {
	out, err := f.filter.Pass(data)
	if len(out) > 0 {
		if _, err := f.Conn.Write(out); err != nil {
			return 0, err
		}
	}
	if err != nil {
		f.failed(err)
		return 0, err
	}
	return len(data), nil
}

// screenPrefix begins the name that QEMU reports for a viewer of the screen who is connected
// through the control interface.
const screenPrefix = "@vmop-screen/"

// IsScreenClient reports whether a client of QEMU's VNC server, by the name that QEMU reports for it,
// is connected through GET /v1/screen. The control interface itself publishes these.
func IsScreenClient(name string) bool { return strings.HasPrefix(name, screenPrefix[1:]) }

// Screen opens the screen, a connection with a VNC server that wants no password.
func (c *Client) Screen(ctx context.Context, mode Mode) (net.Conn, error) {
	return c.stream(ctx, "/v1/screen?mode="+string(mode))
}
