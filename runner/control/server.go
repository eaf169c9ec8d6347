package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"vmop/runner/status"
)

// SocketName is the name of the socket in the runtime directory.
const SocketName = "control.sock"

// MaxConnections is how many clients are served at a time; more are told to
// come later (503).
const MaxConnections = 100

// Bounds of what a client may take.
const (
	headerTime    = 10 * time.Second // to send a request's header
	maxHeader     = 16 << 10
	closeTime     = time.Second // for clients to take in the last words
	fullAnswer    = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 30\r\nConnection: close\r\n\r\n{\"error\": \"too many clients\"}\n"
	socketMode    = 0o600
	maxSocketPath = 107 // sun_path of unix(7), without the last byte
)

// Options are what a server is made of. All are needed.
type Options struct {
	// Dir is the runtime directory, which only this user can look into. The
	// socket is made in it, and screenshots for a moment.
	Dir     string
	Backend Backend
	Tracker *status.Tracker
	Log     *slog.Logger
}

// A Server serves the control interface.
type Server struct {
	opts    Options
	console *Console
	feed    feed
	http    *http.Server
	ended   context.CancelFunc
	served  chan struct{} // closed when the listener is

	clients atomic.Int32
	mu      sync.Mutex
	streams map[net.Conn]struct{} // taken out of HTTP; nil: closed
	handed  sync.WaitGroup        // counts them
}

// Start listens on the socket, which it makes anew, and serves. The values of
// ctx are those of the requests; its end is not the server's, Close is.
func Start(ctx context.Context, opts Options) (*Server, error) {
	l, err := listen(filepath.Join(opts.Dir, SocketName))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{opts: opts, ended: cancel, served: make(chan struct{}), streams: map[net.Conn]struct{}{}}
	s.console = newConsole(func(u status.Update) { _ = opts.Tracker.Update(u) })
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	routes := sync.OnceValue(s.routes) // for the first client: a start needs none
	s.http = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { routes().ServeHTTP(w, r) }),
		ReadHeaderTimeout: headerTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return withPeer(ctx, peerOf(c)) },
		Protocols:         &protocols,
	}
	s.http.SetKeepAlivesEnabled(false) // an idle client has no connection
	go func() {
		defer close(s.served)
		if err := s.http.Serve(&bounded{UnixListener: l, clients: &s.clients}); !errors.Is(err, http.ErrServerClosed) {
			opts.Log.Error("control interface", "err", err)
		}
	}()
	return s, nil
}

// listen makes the socket. An old one can't be in use: the VM is locked.
func listen(path string) (*net.UnixListener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen on %s: the path is longer than %d bytes; choose another runtimeDir", path, maxSocketPath)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove an old control socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on the control socket: %w", err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("keep others from the control socket: %w", err), l.Close())
	}
	return l, nil
}

// Console is the guest's serial console.
func (s *Server) Console() *Console { return s.console }

// Close ends the server and removes the socket. When the tracker has told that
// the VM has stopped, streams end by themselves; they get a second for it, or
// until ctx is done. Whatever is left is cut off.
func (s *Server) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	s.console.end(nil)
	err := s.http.Shutdown(ctx)
	s.drain(ctx)
	if ctx.Err() != nil {
		err = s.http.Close()
	}
	s.ended()
	s.handed.Wait()
	<-s.served
	if err != nil {
		return fmt.Errorf("close the control interface: %w", err)
	}
	return nil
}

// drain waits for the end of what was taken out of HTTP, then cuts it off.
func (s *Server) drain(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		s.handed.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.streams {
		_ = conn.Close() // the other end may be gone
	}
	s.streams = nil
}

// keep notes a connection that was taken out of HTTP, until forget.
func (s *Server) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams == nil {
		return false
	}
	s.streams[conn] = struct{}{}
	s.handed.Add(1)
	return true
}

func (s *Server) forget(conn net.Conn) {
	_ = conn.Close() // the other end may be gone
	s.mu.Lock()
	delete(s.streams, conn)
	s.mu.Unlock()
	s.handed.Done()
}

// bounded is a listener that sends clients away when there are too many.
type bounded struct {
	*net.UnixListener
	clients *atomic.Int32
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if b.clients.Add(1) <= MaxConnections {
			return &counted{UnixConn: conn, clients: b.clients}, nil
		}
		b.clients.Add(-1)
		_, _ = conn.Write([]byte(fullAnswer)) // fits into the socket's buffer
		_ = conn.Close()
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	*net.UnixConn
	clients *atomic.Int32
	once    sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.clients.Add(-1) })
	return c.UnixConn.Close()
}
