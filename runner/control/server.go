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

	"vmop/runner/hardware"
	"vmop/runner/status"
)

// SocketName is the name of the socket in the runtime directory.
const SocketName = "control.sock"

// MaxConnections is the largest number of simultaneous clients; more clients get the error 503.
const MaxConnections = 100

// MaxLasting is the largest number of clients who may stay: streams, readers of events, and commands that wait
// for QEMU. More of them also get the error 503. The remaining connections are for requests that are answered
// immediately, such as reading the status and stopping the VM.
const MaxLasting = 80

// Limits of clients.
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

// Options configure a server. Dir, Backend, Tracker, Log, IsNeighbor and GuestBehind are required; the other
// fields may be nil.
type Options struct {
	// Dir is the runtime directory, which only this user can read. It contains the socket and, briefly,
	// screenshots.
	Dir     string
	Backend Backend
	Tracker *status.Tracker
	Log     *slog.Logger
	// Archive returns the VM type that the VM was started with, like vmtypes.Type.Archive.
	Archive func() []byte
	// Freezer freezes the guest's file systems; nil if it is not possible.
	Freezer Freezer
	// Snapshotter creates snapshots; nil if it is not possible.
	Snapshotter Snapshotter
	// Migrator moves the guest to another runner; nil if it is not possible.
	Migrator Migrator
	// Devices returns the devices of the machine with their names in the guest; nil if they are unknown.
	Devices func(context.Context) (hardware.Report, error)
	// Forecast returns the effects of another configuration, as YAML; nil if they are unknown.
	Forecast func(ctx context.Context, text []byte) (Forecast, error)
	// Invitation returns what the source of an expected guest needs, including a key; nil if no guest is
	// expected.
	Invitation func() json.RawMessage
	// IsNeighbor and GuestBehind are functions of netsetup: they find the guest at an interface of this computer.
	IsNeighbor  func(address netip.Addr, interfaces, cards []string) (bool, error)
	GuestBehind func(tap string) (netip.Addr, error)
	// SPICE registers the clients of the SPICE server; ask it before you publish QEMU's clients.
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
	serving  sync.WaitGroup // counts the served listeners of the socket

	clients atomic.Int32
	far     atomic.Int32 // clients of ServeRemote
	lasting atomic.Int32 // included in the clients
	// intruded is done when a process of the VM has connected.
	intruded sync.Once
	mu       sync.Mutex
	streams  map[net.Conn]struct{} // taken over from HTTP; nil: closed
	handed   sync.WaitGroup        // counts them
}

// Start creates the socket and serves it until Close. Requests get the values of ctx, but not its cancellation.
func Start(ctx context.Context, opts Options) (*Server, error) {
	l, err := createSocket(filepath.Join(opts.Dir, SocketName))
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
	s.serveSocket(l)
	go s.keepUsage(ctx)
	return s, nil
}

// isBarred reports whether a client of the socket is a process of the VM.
func (s *Server) isBarred(conn net.Conn) bool {
	refused := s.opts.Barred.isBarred(conn)
	if refused {
		s.intruded.Do(func() {
			s.opts.Log.Error("a process of the VM has connected to the control interface: a guest may have broken out",
				"peer", peerOf(conn))
		})
	}
	return refused
}

// serveSocket serves the socket.
func (s *Server) serveSocket(l *net.UnixListener) {
	s.listener = l
	s.serving.Go(func() { s.serveHTTP(s.http, &bounded{Listener: l, clients: &s.clients, refuse: s.isBarred}) })
}

// Reopen creates the socket again, after it was removed. It must not be called concurrently with itself, nor
// after Close.
func (s *Server) Reopen() error {
	l, err := createSocket(filepath.Join(s.opts.Dir, SocketName))
	if err != nil {
		return err
	}
	s.listener.SetUnlinkOnClose(false) // the new socket has the same name
	_ = s.listener.Close()             // clients can't find it any more
	s.serveSocket(l)
	return nil
}

// ServeRemote also serves the manager, until Close. It accepts from the listener only connections that have
// proved to be the manager's, and closes it at the end. Requests may name a user (userHeader), and can't use QMP
// or create snapshots. It must be called at most once.
func (s *Server) ServeRemote(l net.Listener) {
	s.remote = s.newHTTP(withManager, func(pattern string) bool {
		return pattern != "POST /v1/qmp" && pattern != "POST /v1/snapshots"
	})
	server := s.remote
	go s.serveHTTP(server, &bounded{Listener: l, clients: &s.far})
}

func (s *Server) serveHTTP(server *http.Server, l net.Listener) {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.opts.Log.Error("control interface", "err", err)
	}
}

// newHTTP returns a server of the allowed paths.
func (s *Server) newHTTP(peer func(context.Context, net.Conn) context.Context, allowed func(string) bool) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	// Created for the first client: a start has no client.
	routes := sync.OnceValue(func() http.Handler { return s.handlerWith(allowed) })
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { routes().ServeHTTP(w, r) }),
		ReadHeaderTimeout: headerTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ConnContext:       peer,
		Protocols:         &protocols,
	}
	server.SetKeepAlivesEnabled(false) // an idle client must not occupy a connection
	return server
}

// createSocket creates the socket. An existing socket can't be in use, because the VM is locked.
func createSocket(path string) (*net.UnixListener, error) {
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

// Console returns the guest's serial console.
func (s *Server) Console() *Console { return s.console }

// Close ends the server and removes the socket. Streams end by themselves when the tracker reports that the VM
// has stopped; they have a second for that, or until ctx is done. The remaining streams are closed.
func (s *Server) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	s.console.awaitOutput(ctx)
	s.console.endConnection(nil)
	err := s.http.Shutdown(ctx)
	if s.remote != nil {
		err = errors.Join(err, s.remote.Shutdown(ctx))
	}
	s.drainStreams(ctx)
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

// drainStreams waits for the end of the connections that were taken over from HTTP. When ctx is done it closes them.
func (s *Server) drainStreams(ctx context.Context) {
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

// keepStream records a connection that was taken over from HTTP, until forgetStream.
func (s *Server) keepStream(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams == nil {
		return false
	}
	s.streams[conn] = struct{}{}
	s.handed.Add(1)
	return true
}

func (s *Server) forgetStream(conn net.Conn) {
	_ = conn.Close() // the client may have closed it
	s.mu.Lock()
	delete(s.streams, conn)
	s.mu.Unlock()
	s.handed.Done()
}

// bounded is a listener that refuses clients while there are too many, and the clients that refuse selects.
type bounded struct {
	net.Listener
	clients *atomic.Int32
	refuse  func(net.Conn) bool // nil: accepts all
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

// CloseWrite ends the sent direction.
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
