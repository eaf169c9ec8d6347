package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"vmop/runner/status"
)

// SocketName is the name of the socket in the runtime directory.
const SocketName = "control.sock"

// MaxConnections is how many clients are served at a time; further ones get the error
// 503.
const MaxConnections = 100

// MaxLasting is how many of the clients are served who may stay: streams, readers of
// events, and commands that wait for QEMU. Further ones get the error 503, too. The rest is
// for requests that are answered at once: the status, and to stop the VM.
const MaxLasting = 80

// Bounds of what a client may take.
const (
	headerTime = 10 * time.Second // to send a request's header
	maxHeader  = 16 << 10
	closeTime  = time.Second // for clients to read the rest
	fullAnswer = "HTTP/1.1 503 Service Unavailable\r\n" +
		"Content-Type: application/json\r\nContent-Length: 30\r\nConnection: close\r\n\r\n" +
		"{\"error\": \"too many clients\"}\n"
	socketMode    = 0o600
	maxSocketPath = 107 // sun_path of unix(7), without the last byte
)

// Options configure a server. All but Archive, SPICE and Barred are required.
type Options struct {
	// Dir is the runtime directory, which only this user can read. It holds the socket
	// and, briefly, screenshots.
	Dir     string
	Backend Backend
	Tracker *status.Tracker
	Log     *slog.Logger
	// Archive returns the VM type that the VM was started with, as vmtypes.Type.Archive does.
	Archive func() []byte
	// Freezer freezes the guest's file systems; nil: that is not possible.
	Freezer Freezer
	// Snapshotter makes snapshots; nil: that is not possible.
	Snapshotter Snapshotter
	// Migrator moves the guest to another runner; nil: that is not possible.
	Migrator Migrator
	// Invitation returns what the source of a guest needs that is to come, which has a key; nil: none is.
	Invitation func() json.RawMessage
	// IsNeighbor and GuestBehind are netsetup's: they find the guest at an interface of this computer.
	IsNeighbor  func(address netip.Addr, interfaces, cards []string) (bool, error)
	GuestBehind func(tap string) (netip.Addr, error)
	// SPICE gets the clients of the SPICE server; who shows QEMU's clients asks it.
	SPICE *SPICE
	// Barred are the processes that are refused at the socket.
	Barred *Barred
}

// A Server serves the control interface.
type Server struct {
	opts     Options
	console  *Console
	forwards forwards
	screens  screens
	shots    pictures
	usage    usages
	feed     feed
	http     *http.Server
	remote   *http.Server // nil: ServeRemote was not called
	base     context.Context
	ended    context.CancelFunc
	listener *net.UnixListener
	serving  sync.WaitGroup // counts the listeners of the socket that are served

	clients atomic.Int32
	far     atomic.Int32 // clients of ServeRemote
	lasting atomic.Int32 // of the clients
	// intruded is done when a process of the VM has connected.
	intruded sync.Once
	mu       sync.Mutex
	streams  map[net.Conn]struct{} // taken over from HTTP; nil: closed
	handed   sync.WaitGroup        // counts them
}

// Start creates the socket and serves it until Close. Requests get the values of ctx, but
// not its cancellation.
func Start(ctx context.Context, opts Options) (*Server, error) {
	l, err := listen(filepath.Join(opts.Dir, SocketName))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if opts.SPICE == nil {
		opts.SPICE = NewSPICE()
	}
	s := &Server{opts: opts, ended: cancel, streams: map[net.Conn]struct{}{}}
	s.shots.ctx = ctx
	publish := func(u status.Update) { _ = opts.Tracker.Update(u) }
	s.console, s.screens.publish = newConsole(publish), publish
	s.base = ctx
	s.http = s.newHTTP(withPeer, func(string) bool { return true })
	s.open(l)
	go s.keepUsage(ctx)
	return s, nil
}

// isBarred reports whether a client of the socket is a process of the VM.
func (s *Server) isBarred(conn net.Conn) bool {
	refused := s.opts.Barred.bars(conn)
	if refused {
		s.intruded.Do(func() {
			s.opts.Log.Error("a process of the VM has connected to the control interface: a guest may have broken out",
				"peer", peerOf(conn))
		})
	}
	return refused
}

// open serves the socket.
func (s *Server) open(l *net.UnixListener) {
	s.listener = l
	s.serving.Go(func() { s.serve(s.http, &bounded{Listener: l, clients: &s.clients, refuse: s.isBarred}) })
}

// Reopen creates the socket again, after it was removed. It must not be called concurrently with
// itself, nor after Close.
func (s *Server) Reopen() error {
	l, err := listen(filepath.Join(s.opts.Dir, SocketName))
	if err != nil {
		return err
	}
	s.listener.SetUnlinkOnClose(false) // its name is the new one's
	_ = s.listener.Close()             // no client finds it
	s.open(l)
	return nil
}

// ServeRemote serves the manager, too, until Close. It accepts from the listener only what
// has proved to be the manager's, and closes it in the end. Requests may name a user
// (UserHeader), and have neither QMP nor snapshots. It must be called at most once.
func (s *Server) ServeRemote(l net.Listener) {
	s.remote = s.newHTTP(withManager, func(pattern string) bool {
		return pattern != "POST /v1/qmp" && pattern != "POST /v1/snapshots"
	})
	server := s.remote
	go s.serve(server, &bounded{Listener: l, clients: &s.far})
}

func (s *Server) serve(server *http.Server, l net.Listener) {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.opts.Log.Error("control interface", "err", err)
	}
}

// newHTTP returns a server of what allowed reports of the paths.
func (s *Server) newHTTP(peer func(context.Context, net.Conn) context.Context, allowed func(string) bool) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	// Made for the first client: a start has none.
	routes := sync.OnceValue(func() http.Handler { return s.routes(allowed) })
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { routes().ServeHTTP(w, r) }),
		ReadHeaderTimeout: headerTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ConnContext:       peer,
		Protocols:         &protocols,
	}
	server.SetKeepAlivesEnabled(false) // an idle client must not hold a connection
	return server
}

// listen creates the socket. An existing one can't be in use, because the VM is locked.
func listen(path string) (*net.UnixListener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen on %s: the path is longer than %d bytes; choose another runtimeDir",
			path, maxSocketPath)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove an old control socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on the control socket: %w", err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("restrict access to the control socket: %w", err), l.Close())
	}
	return l, nil
}

// Console is the guest's serial console.
func (s *Server) Console() *Console { return s.console }

// Close ends the server and removes the socket. Streams end by themselves when the tracker
// reports that the VM has stopped; they have a second for that, or until ctx is done.
// Those that remain are closed.
func (s *Server) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	s.console.end(nil)
	err := s.http.Shutdown(ctx)
	if s.remote != nil {
		err = errors.Join(err, s.remote.Shutdown(ctx))
	}
	s.drain(ctx)
	if ctx.Err() != nil {
		err = s.http.Close()
		if s.remote != nil {
			err = errors.Join(err, s.remote.Close())
		}
	}
	s.ended()
	s.shots.group.Wait()
	s.handed.Wait()
	s.serving.Wait()
	if err != nil {
		return fmt.Errorf("close the control interface: %w", err)
	}
	return nil
}

// drain waits for the end of the connections that were taken over from HTTP; when ctx is
// done it closes them.
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
		_ = conn.Close() // the client may have closed it
	}
	s.streams = nil
}

// keep records a connection that was taken over from HTTP, until forget.
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
	_ = conn.Close() // the client may have closed it
	s.mu.Lock()
	delete(s.streams, conn)
	s.mu.Unlock()
	s.handed.Done()
}

// bounded is a listener that refuses clients while there are too many, and those that refuse names.
type bounded struct {
	net.Listener
	clients *atomic.Int32
	refuse  func(net.Conn) bool // nil: none
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.refuse != nil && b.refuse(conn) {
			_ = conn.Close()
			continue
		}
		if b.clients.Add(1) <= MaxConnections {
			return &counted{Conn: conn, clients: b.clients}, nil
		}
		b.clients.Add(-1)
		_, _ = conn.Write([]byte(fullAnswer)) // fits into the socket's buffer
		_ = conn.Close()
	}
}

// counted is a connection that counts as a client until it is closed.
type counted struct {
	net.Conn
	clients *atomic.Int32
	once    sync.Once
}

// CloseWrite ends what is sent.
func (c *counted) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return c.Close()
}

// SyscallConn implements syscall.Conn.
func (c *counted) SyscallConn() (syscall.RawConn, error) {
	conn := c.Conn
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok { // of crypto/tls
		conn = secured.NetConn()
	}
	if raw, ok := conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

func (c *counted) Close() error {
	c.once.Do(func() { c.clients.Add(-1) })
	return c.Conn.Close()
}
