package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// Times of a stream: how often the browser is asked whether it is still there, and how long it may
// take to answer (together they are a minute, as for other connections, package keepalive); how often the
// visitor's permission is looked at if the VM doesn't change.
const (
	streamPing  = 30 * time.Second
	streamCheck = time.Minute
	streamRest  = 5 * time.Second // for the client to take what has been sent, and the end
)

// Codes with which a stream ends (RFC 6455, section 7.4.2: for applications). The scripts know them.
const (
	streamEnded    websocket.StatusCode = 4000 // by the VM: try again
	streamRefused  websocket.StatusCode = 4001 // the permission is gone, or the session
	streamOccupied websocket.StatusCode = 4002 // another client types
)

func (s *Server) streamScreen(w http.ResponseWriter, r *http.Request) error {
	return s.serveStream(w, r, &s.open.screens, s.opts.Fleet.Screen)
}

func (s *Server) streamConsole(w http.ResponseWriter, r *http.Request) error {
	return s.serveStream(w, r, &s.open.consoles, s.opts.Fleet.Console)
}

// serveStream connects a browser's websocket with a stream of the VM.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, open *atomic.Int64,
	dial func(ctx context.Context, user, name string, mode fleet.Mode) (net.Conn, error),
) error {
	mode := fleet.Mode(cmp.Or(r.URL.Query().Get("mode"), string(fleet.Type)))
	if mode != fleet.Type && mode != fleet.Watch && mode != fleet.Take {
		return badRequest("mode=%q: want type, watch or take", mode)
	}
	verb := access.AccessConsole
	if mode == fleet.Take {
		verb = access.TakeConsole
	}
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, verb)
	if err != nil {
		return err
	}
	var back net.Conn
	if isAPI(r) { // programs get an answer; browsers show their scripts none
		if back, err = dial(r.Context(), v.who.User, vm.Name, mode); err != nil {
			return err
		}
		defer back.Close()
	}
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil // it has answered
	}
	defer socket.CloseNow()
	if back == nil {
		back, err = dial(r.Context(), v.who.User, vm.Name, mode)
	}
	if err != nil {
		_, text := s.explainError(r, err)
		code := streamEnded
		if errors.Is(err, fleet.ErrOccupied) {
			code = streamOccupied
		}
		_ = socket.Close(code, reasonOf(text))
		return nil
	}
	defer back.Close()
	open.Add(1)
	defer open.Add(-1)
	s.opts.Log.Info("stream opened", "user", v.who.User, "vm", vm.Name, "path", r.URL.Path, "mode", mode)
	defer s.opts.Log.Info("stream closed", "user", v.who.User, "vm", vm.Name, "path", r.URL.Path, "mode", mode)
	s.spliceStreams(r, vm.Name, socket, back)
	return nil
}

// spliceStreams carries bytes both ways until one end closes, or the visitor may not go on. An empty message ends what
// the client sends, and nothing else.
func (s *Server) spliceStreams(r *http.Request, name string, socket *websocket.Conn, back net.Conn) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // it is hijacked
	defer cancel()
	front := websocket.NetConn(ctx, socket, websocket.MessageBinary)
	ended := make(chan websocket.StatusCode, 2)
	go func() {
		receiveMessages(ctx, socket, &touching{Writer: back, touch: func() { s.opts.Visitors.Touch(r) }}, func() {
			if half, ok := back.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
		ended <- streamEnded
		_ = back.Close()
	}()
	go func() {
		code := s.awaitVisitEnd(ctx, r, name, func() bool { return answersPing(ctx, socket) })
		ended <- code
		_ = back.Close()
		pauseFor(ctx, streamRest)
		_ = socket.CloseNow() // or else the copy waits for a client that takes nothing any more
	}()
	_, _ = io.Copy(front, back)
	code := streamEnded
	select {
	case code = <-ended:
	default:
	}
	_ = socket.Close(code, "")
}

// receiveMessages writes what a client sends, until it has gone; end is called upon an empty message.
func receiveMessages(ctx context.Context, socket *websocket.Conn, to io.Writer, end func()) {
	for {
		_, message, err := socket.Reader(ctx)
		if err != nil {
			return
		}
		switch n, err := io.Copy(to, message); {
		case err != nil:
			return
		case n == 0:
			end()
		}
	}
}

// touching is a writer that reports that it is used, at most once in touchStep.
type touching struct {
	io.Writer
	touch func()
	last  time.Time
}

const touchStep = 10 * time.Second

// Write implements io.Writer.
func (t *touching) Write(p []byte) (int, error) {
	if now := time.Now(); now.Sub(t.last) >= touchStep {
		t.last = now
		t.touch()
	}
	return t.Writer.Write(p)
}

// awaitVisitEnd waits until the visitor, whose roles may change, may not see the VM any more, or has gone:
// answers, if it isn't nil, reports whether the client is still there.
func (s *Server) awaitVisitEnd(ctx context.Context, r *http.Request, name string,
	answers func() bool,
) websocket.StatusCode {
	ping, check := time.NewTicker(streamPing), time.NewTicker(streamCheck)
	defer ping.Stop()
	defer check.Stop()
	for {
		changed := s.opts.Fleet.Changed()
		vm, err := s.opts.Fleet.Get(name)
		if err != nil {
			return streamEnded
		}
		if d := s.opts.Visitors.Decide(ctx, s.opts.Visitors.Of(r), access.AccessConsole, vm); !d.Allowed && !d.Unknown {
			return streamRefused
		}
		select {
		case <-ctx.Done():
			return streamEnded
		case <-r.Context().Done(): // the server stops: another replica, or the next, has the VM
			return streamEnded
		case <-s.opts.Visitors.Ended(r):
			return streamRefused
		case <-ping.C:
			if answers != nil && !answers() {
				return streamEnded
			}
		case <-changed:
			pauseFor(ctx, liveStep)
		case <-check.C:
			s.opts.Visitors.Check(r)
		}
	}
}

// answersPing reports whether the browser answers a ping.
func answersPing(ctx context.Context, socket *websocket.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, streamPing)
	defer cancel()
	return socket.Ping(ctx) == nil
}

// reasonOf shortens a text to what the end of a websocket can carry.
func reasonOf(text string) string {
	const most = 120 // bytes, of 123
	if len(text) > most {
		text = text[:most]
	}
	return text
}
