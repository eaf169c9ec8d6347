package control

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"sync"

	"vmop/runner/control/rfb"
	"vmop/runner/status"
)

// MaxScreens is the largest number of simultaneous viewers of the screen: QEMU's VNC server admits no more.
const MaxScreens = 32

// screens are the viewers of the screen that are connected through the control interface. One viewer may use it,
// the others watch.
type screens struct {
	publish func(status.Update)

	mu     sync.Mutex
	count  int
	typist *screenViewer
}

// A screenViewer is one viewer of the screen.
type screenViewer struct {
	who   Who
	mode  string // in the status
	taken bool   // another viewer has taken over the screen; guarded by screens.mu
	leave func() // ends the stream; nil before it begins. Guarded by screens.mu
}

func (v *screenViewer) openedStatus() status.ConsoleOpened {
	return status.ConsoleOpened{Kind: status.VNC, Client: v.who.Client, User: v.who.User, Mode: v.mode}
}

// admitViewer admits a viewer, which must be closed. With the mode Take, it ends the stream of the current user of the
// screen.
func (s *screens) admitViewer(mode Mode, client Who) (*screenViewer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= MaxScreens {
		return nil, errFull
	}
	v := &screenViewer{who: client, mode: mode.shownMode()}
	if mode != Watch {
		if other := s.typist; other != nil {
			if mode != Take && !client.isSameUser(other.who) {
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
	s.publish(v.openedStatus())
	return v, nil
}

// beginStream reports whether the stream may begin: another viewer may already have taken over.
func (s *screens) beginStream(v *screenViewer, leave func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.leave = leave
	return !v.taken
}

func (s *screens) endViewer(v *screenViewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	if s.typist == v {
		s.typist = nil
	}
	s.publish(status.ConsoleClosed(v.openedStatus()))
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
	path, err := s.socketFor("screen")
	if err != nil {
		return err
	}
	viewer, err := s.screens.admitViewer(mode, senderOf(r))
	if err != nil {
		return err
	}
	defer s.screens.endViewer(viewer)
	screen, err := dialQEMU(r.Context(), path, screenPrefix+rand.Text())
	if err != nil {
		return err
	}
	defer screen.Close()
	conn, err := s.upgradeStream(w)
	if err != nil {
		return nil // the client has disconnected
	}
	defer s.forgetStream(conn.Conn)
	if !s.screens.beginStream(viewer, func() { _ = conn.Close() }) {
		return nil
	}
	s.opts.Log.Info("screen opened", "kind", status.VNC, "command", string(mode), "client", viewer.who.String())
	spliceStreams(conn, &filtered{Conn: screen, filter: rfb.Filter{Input: mode != Watch}, failed: func(err error) {
		s.opts.Log.Info("the stream of a screen ends", "client", viewer.who.String(), "err", err)
	}})
	s.opts.Log.Info("screen closed", "kind", status.VNC, "client", viewer.who.String())
	return nil
}

// filtered is a connection with QEMU's VNC server that passes on only permitted bytes of a client.
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

// screenPrefix begins the name that QEMU reports for a viewer of the screen that is connected through the control
// interface.
const screenPrefix = "@vmop-screen/"

// IsScreenClient reports whether the client of QEMU's VNC server with this name is connected through GET
// /v1/screen. QEMU reports the name. The control interface itself publishes these clients.
func IsScreenClient(name string) bool { return strings.HasPrefix(name, screenPrefix[1:]) }

// Screen opens the screen, a connection with a VNC server that requires no password.
func (c *Client) Screen(ctx context.Context, mode Mode) (net.Conn, error) {
	return c.openStream(ctx, "/v1/screen?mode="+string(mode))
}
