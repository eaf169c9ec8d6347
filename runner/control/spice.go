package control

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
)

// Limits of SPICE through the control interface.
const (
	// maxChannels is the largest number of streams of a client: one for each channel, such as the picture, the
	// mouse, sound and USB devices.
	maxChannels = 32
	longestID   = 64
)

// A SPICE registers who uses QEMU's SPICE server through GET /v1/spice: one client at a time, with a stream for
// each of its channels. Its methods may be called concurrently.
type SPICE struct {
	mu     sync.Mutex
	names  map[string]struct{} // QEMU's names of their connections
	client *spiceClient
}

// NewSPICE returns a SPICE without a client.
func NewSPICE() *SPICE { return &SPICE{names: map[string]struct{}{}} }

// Has reports whether the client of QEMU's SPICE server with this name is connected through GET /v1/spice. QEMU
// reports the name. The control interface itself publishes these clients.
func (s *SPICE) Has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.names[name]
	return has
}

// A spiceClient is a viewer with its channels.
type spiceClient struct {
	id    string
	who   Who
	leave map[string]func() // ends a stream, by its name
}

func (c *spiceClient) openedStatus() status.ConsoleOpened {
	return status.ConsoleOpened{Kind: status.SPICE, Client: c.who.Client, User: c.who.User, Mode: Type.shownMode()}
}

// A channel is one stream of a client.
type channel struct {
	id, name string // of the client, and QEMU's name of the connection
	who      Who
	mode     Mode
	leave    func() // ends the channel
}

// enterChannel admits a channel. The first channel of a client ends the channels of the previous client, if both belong
// to the same user or the mode is Take. tracker shows who else uses the SPICE server, because QEMU also serves clients
// that connect to its port. It returns true if a new client has come.
func (s *SPICE) enterChannel(c channel, tracker *status.Tracker) (came bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	other := s.client
	switch {
	case other != nil && other.id == c.id: // only the same client knows the id
		if len(other.leave) >= maxChannels {
			return false, errFull
		}
		other.leave[c.name], s.names[c.name] = c.leave, struct{}{}
		return false, nil
	case c.mode == Take:
	case other != nil && !c.who.isSameUser(other.who):
		return false, inUse{"screen", other.who}
	case other == nil:
		for _, console := range tracker.Status().Consoles {
			if console.Kind == status.SPICE {
				return false, inUse{"screen", Who{Client: console.Client, User: console.User}}
			}
		}
	}
	if other != nil {
		_ = tracker.Update(status.ConsoleClosed(other.openedStatus()))
		for _, end := range other.leave {
			end()
		}
	}
	s.client = &spiceClient{id: c.id, who: c.who, leave: map[string]func(){c.name: c.leave}}
	s.names[c.name] = struct{}{}
	_ = tracker.Update(s.client.openedStatus()) // like all clients of the control interface
	return true, nil
}

// exitChannel removes a channel, and reports whether it was the last of its client.
func (s *SPICE) exitChannel(c channel, tracker *status.Tracker) (left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, c.name)
	if s.client == nil || s.client.id != c.id {
		return false // it was replaced
	}
	delete(s.client.leave, c.name)
	if len(s.client.leave) > 0 {
		return false
	}
	_ = tracker.Update(status.ConsoleClosed(s.client.openedStatus()))
	s.client = nil
	return true
}

// getSPICE streams one channel of the SPICE protocol. QEMU asks for no password: anyone who may open the stream
// may see the screen.
func (s *Server) getSPICE(w http.ResponseWriter, r *http.Request) error {
	if err := wantsUpgrade(r); err != nil {
		return err
	}
	mode, err := modeOf(r)
	if err != nil {
		return err
	}
	id := r.URL.Query().Get("client")
	if id == "" || len(id) > longestID || mode == Watch {
		return badRequest{errors.New("give client=ID, the same for all channels of a client, and mode=type or take")}
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandTime)
	defer cancel()
	if err := s.hasSPICE(ctx); err != nil {
		return err
	}
	ours, theirs, err := loopbackPair(ctx)
	if err != nil {
		return fmt.Errorf("connect with SPICE: %w", err)
	}
	defer ours.Close()
	defer theirs.Close()
	c := channel{id, ours.LocalAddr().String(), senderOf(r), mode, func() { _ = ours.Close() }}
	came, err := s.opts.SPICE.enterChannel(c, s.opts.Tracker)
	if err != nil {
		return err
	}
	if came {
		s.opts.Log.Info("screen opened", "kind", status.SPICE, "command", string(mode), "client", c.who.String())
	}
	defer func() {
		if s.opts.SPICE.exitChannel(c, s.opts.Tracker) {
			s.opts.Log.Info("screen closed", "kind", status.SPICE, "client", c.who.String())
		}
	}()
	if err := s.handSPICE(ctx, theirs); err != nil {
		return err
	}
	_ = theirs.Close() // QEMU has it
	conn, err := s.upgradeStream(w)
	if err != nil {
		return nil // the client has disconnected
	}
	defer s.forgetStream(conn.Conn)
	spliceStreams(conn, ours)
	return nil
}

// hasSPICE returns an error if the VM has no SPICE server.
func (s *Server) hasSPICE(ctx context.Context) error {
	reply, err := s.opts.Backend.Run(ctx, qmp.Command{Execute: "query-spice"})
	var refused *qmp.Error
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	var spice struct{ Enabled bool }
	if err != nil || json.Unmarshal(reply, &spice) != nil || !spice.Enabled {
		return notThere("the VM has no SPICE server: vm.display.spice in the configuration")
	}
	return nil
}

// handSPICE passes the connection of an admitted client to QEMU.
func (s *Server) handSPICE(ctx context.Context, conn *os.File) error {
	name := "spice-" + rand.Text()
	get := qmp.Command{Execute: "getfd", Arguments: map[string]string{"fdname": name}, File: conn}
	if _, err := s.opts.Backend.Run(ctx, get); err != nil {
		return fmt.Errorf("hand QEMU a connection: %w", err)
	}
	add := qmp.Command{Execute: "add_client", Arguments: map[string]any{
		"protocol": "spice", "fdname": name, "skipauth": true,
	}}
	if _, err := s.opts.Backend.Run(ctx, add); err != nil {
		forget := qmp.Command{Execute: "closefd", Arguments: map[string]string{"fdname": name}}
		_, _ = s.opts.Backend.Run(ctx, forget) // the first error matters
		return fmt.Errorf("hand QEMU's SPICE server a connection: %w", err)
	}
	return nil
}

// loopbackPair returns both ends of a TCP connection. QEMU names SPICE clients by their addresses, which a
// socketpair(2) lacks.
func loopbackPair(ctx context.Context) (ours net.Conn, theirs *os.File, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	if ours, err = (&net.Dialer{}).DialContext(ctx, "tcp4", listener.Addr().String()); err != nil {
		return nil, nil, err
	}
	deadline := time.Now().Add(guestTime)
	for { // until our connection arrives: any process may have connected
		if err = listener.(*net.TCPListener).SetDeadline(deadline); err != nil {
			break
		}
		var conn net.Conn
		if conn, err = listener.Accept(); err != nil {
			break
		}
		if conn.RemoteAddr().String() == ours.LocalAddr().String() {
			theirs, err = conn.(*net.TCPConn).File()
			_ = conn.Close() // theirs is a copy
			break
		}
		_ = conn.Close()
	}
	if err != nil {
		_ = ours.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// SPICE opens a channel of the SPICE protocol, which requires no password. All channels of a client have the same
// id, of at most 64 characters that no other client knows; mode is Type or Take.
func (c *Client) SPICE(ctx context.Context, id string, mode Mode) (net.Conn, error) {
	return c.openStream(ctx, "/v1/spice?client="+url.QueryEscape(id)+"&mode="+string(mode))
}
