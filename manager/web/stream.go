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

// Timing of a stream. streamPing is both the interval between pings and the time limit for the answer; together they
// are a minute, as for other connections (package keepalive). streamCheck is how often to check the visitor's
// permission without a change of the VM.
const (
	streamPing  = 30 * time.Second
	streamCheck = time.Minute
	streamRest  = 5 * time.Second // for the client to receive the remaining data and the close message
)

// Close codes of a stream, from the range for applications (RFC 6455, section 7.4.2). The scripts use them.
const (
	streamEnded    websocket.StatusCode = 4000 // by the VM: try again
	streamRefused  websocket.StatusCode = 4001 // the permission or session has ended
	streamOccupied websocket.StatusCode = 4002 // another client has the keyboard
)

func (s *Server) streamScreen(w http.ResponseWriter, r *http.Request) error {
	return s.serveStream(w, r, &s.open.screens, s.opts.Fleet.Screen)
}

func (s *Server) streamConsole(w http.ResponseWriter, r *http.Request) error {
	return s.serveStream(w, r, &s.open.consoles, s.opts.Fleet.Console)
}

// serveStream connects a browser's WebSocket to a stream of the VM.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, open *atomic.Int64,
	dial func(ctx context.Context, user, name string, mode fleet.Mode) (net.Conn, error),
) error {
	mode := fleet.Mode(cmp.Or(r.URL.Query().Get("mode"), string(fleet.Type)))
	if mode != fleet.Type && mode != fleet.Watch && mode != fleet.Take {
		return badRequest("mode=%q: must be type, watch or take", mode)
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
	if isAPI(r) { // programs can see an HTTP error; scripts in browsers can't
		if back, err = dial(r.Context(), v.who.User, vm.Name, mode); err != nil {
			return err
		}
		defer back.Close()
	}
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil // Accept has answered
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

// spliceStreams copies data in both directions, until one end closes or the visitor loses permission. An empty message
// ends only the data from the client.
func (s *Server) spliceStreams(r *http.Request, name string, socket *websocket.Conn, back net.Conn) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // the connection is hijacked
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
		_ = socket.CloseNow() // otherwise the copy could wait forever for a stalled client
	}()
	_, _ = io.Copy(front, back)
	code := streamEnded
	select {
	case code = <-ended:
	default:
	}
	_ = socket.Close(code, "")
}

// receiveMessages writes the client's data to a writer, until the client is gone. It calls end for an empty message.
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

// touching is a writer that reports its use, at most once per touchStep.
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

// awaitVisitEnd waits until the VM or the client is gone, or the visitor, whose roles may change, has lost permission
// for the screen and console. answers, if not nil, reports whether the client still answers.
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
		case <-r.Context().Done(): // the server stops; another replica or its successor continues
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

// reasonOf shortens a text to the limit of a WebSocket close message.
func reasonOf(text string) string {
	const most = 120 // bytes, of 123
	if len(text) > most {
		text = text[:most]
	}
	return text
}
