package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"vmop/qmp"
)

// Bounds of reaching a guest's port.
const (
	guestTime = 5 * time.Second // for one address of the guest to answer
	// answerRest is how long the guest may go on sending when the client has ended what it
	// sends.
	answerRest = time.Minute
)

// forwards are the ports of the loopback address by which ports of the guest are reached
// through QEMU's user network, while there is a stream for them.
type forwards struct {
	mu   sync.Mutex
	open map[int]*forward // by the guest's port
}

// forward is a port that leads to a port of the guest.
type forward struct {
	host    int
	streams int
	added   bool // by this server; else it was there, by the configuration or a killed runner
}

// errNoUserNetwork means that the VM has no network of type user.
var errNoUserNetwork = errors.New("the VM has no network of type user")

// getForward streams the bytes of a TCP port of the guest.
func (s *Server) getForward(w http.ResponseWriter, r *http.Request) error {
	if err := wantsUpgrade(r); err != nil {
		return err
	}
	port, err := strconv.Atoi(r.URL.Query().Get("port"))
	if err != nil || port < 1 || port > 65535 {
		return badRequest{fmt.Errorf("port=%q: want a TCP port of the guest, 1 to 65535", r.URL.Query().Get("port"))}
	}
	guest, done, err := s.dialGuest(r.Context(), port)
	if err != nil {
		return err
	}
	defer done()
	defer guest.Close()
	conn, err := s.upgrade(w)
	if err != nil {
		return nil // the client has disconnected
	}
	defer s.forget(conn.Conn)
	s.opts.Log.Info("connected with a port of the guest", "port", port, "client", peer(r.Context()))
	relay(conn, guest, func() bool { return isGone(r.Context()) })
	return nil
}

// dialGuest connects to a port of the guest: through a user network, or else by an address
// that the guest's agent reports. done must be called when the connection is closed.
func (s *Server) dialGuest(ctx context.Context, port int) (conn net.Conn, done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	dialer := net.Dialer{Timeout: guestTime}
	host, err := s.forward(ctx, port)
	if errors.Is(err, errNoUserNetwork) {
		conn, err = s.dialAddress(ctx, dialer, port)
		return conn, func() {}, err
	}
	if err != nil {
		return nil, nil, err
	}
	done = func() { s.unforward(context.WithoutCancel(ctx), port) }
	conn, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(host)))
	if err != nil {
		done()
		return nil, nil, Refusal(fmt.Sprintf("connect to port %d of the guest: %v", port, err))
	}
	return conn, done, nil
}

// dialAddress connects to the first of the guest's addresses that answers.
func (s *Server) dialAddress(ctx context.Context, dialer net.Dialer, port int) (net.Conn, error) {
	var errs []error
	if guest := s.opts.Tracker.Status().Guest; guest != nil {
		for _, i := range guest.Interfaces {
			for _, text := range i.Addresses {
				prefix, err := netip.ParsePrefix(text)
				if err != nil || !prefix.Addr().IsGlobalUnicast() {
					continue
				}
				address := netip.AddrPortFrom(prefix.Addr(), uint16(port)).String()
				conn, err := dialer.DialContext(ctx, "tcp", address)
				if err == nil {
					return conn, nil
				}
				errs = append(errs, err)
			}
		}
	}
	if errs == nil {
		return nil, Refusal("the guest can't be reached: " + errNoUserNetwork.Error() +
			", and no guest agent has reported an address")
	}
	return nil, Refusal(fmt.Sprintf("connect to port %d of the guest: %v", port, errors.Join(errs...)))
}

// forward returns the port of the loopback address that leads to a port of the guest,
// which is made if need be. unforward must be called.
func (s *Server) forward(ctx context.Context, port int) (int, error) {
	s.forwards.mu.Lock()
	defer s.forwards.mu.Unlock()
	if f := s.forwards.open[port]; f != nil {
		f.streams++
		return f.host, nil
	}
	host, err := s.forwarded(ctx, port)
	if err != nil {
		return 0, err
	}
	f := &forward{host: host, streams: 1}
	if host == 0 {
		if err := s.addForward(ctx, port); err != nil {
			return 0, err
		}
		f.added = true
		if f.host, err = s.forwarded(ctx, port); err == nil && f.host == 0 {
			err = fmt.Errorf("QEMU does not say by which port it forwards to port %d of the guest", port)
		}
		if err != nil {
			return 0, err
		}
	}
	if s.forwards.open == nil {
		s.forwards.open = map[int]*forward{}
	}
	s.forwards.open[port] = f
	return f.host, nil
}

// unforward closes a port again when the last stream for it has ended.
func (s *Server) unforward(ctx context.Context, port int) {
	s.forwards.mu.Lock()
	defer s.forwards.mu.Unlock()
	f := s.forwards.open[port]
	if f.streams--; f.streams > 0 {
		return
	}
	delete(s.forwards.open, port)
	if !f.added {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	// If QEMU has ended, so has the port.
	if _, err := s.monitor(ctx, fmt.Sprintf("hostfwd_remove tcp:127.0.0.1:%d", f.host)); err != nil {
		s.opts.Log.Debug("a port to the guest was not closed", "port", port, "err", err)
	}
}

// addForward makes QEMU listen on a port that the kernel chooses.
func (s *Server) addForward(ctx context.Context, port int) error {
	said, err := s.monitor(ctx, fmt.Sprintf("hostfwd_add tcp:127.0.0.1:0-:%d", port))
	switch {
	case err != nil:
		return err
	case strings.Contains(said, "not in use"):
		return errNoUserNetwork
	case said != "":
		return fmt.Errorf("forward a port to the guest: %s", said)
	}
	return nil
}

// forwarded returns the port of the loopback address that leads to a port of the guest, 0
// if there is none.
func (s *Server) forwarded(ctx context.Context, port int) (int, error) {
	said, err := s.monitor(ctx, "info usernet")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(said) {
		// TCP[HOST_FORWARD]  9  127.0.0.1  35275  10.0.2.15  22  0  0
		f := strings.Fields(line)
		if len(f) < 6 || f[0] != "TCP[HOST_FORWARD]" || f[5] != strconv.Itoa(port) {
			continue
		}
		if host, err := strconv.Atoi(f[3]); err == nil && slices.Contains([]string{"127.0.0.1", "*"}, f[2]) {
			return host, nil
		}
	}
	return 0, nil
}

// monitor runs a command of QEMU's monitor for people, which has some that QMP has not.
func (s *Server) monitor(ctx context.Context, line string) (string, error) {
	reply, err := s.opts.Backend.Run(ctx, qmp.Command{
		Execute: "human-monitor-command", Arguments: map[string]string{"command-line": line},
	})
	if err != nil {
		return "", err
	}
	var said string
	if err := json.Unmarshal(reply, &said); err != nil {
		return "", fmt.Errorf("read QEMU's answer to %q: %w", line, err)
	}
	return strings.TrimSpace(said), nil
}

// relay copies in both directions until both have ended, or the client is gone; each end is
// passed on.
func relay(client *stream, guest net.Conn, gone func() bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.CopyBuffer(onlyWriter{client}, onlyReader{guest}, make([]byte, 16<<10)) // only its end matters
		_ = client.CloseWrite()
	}()
	_, _ = io.CopyBuffer(onlyWriter{guest}, onlyReader{client}, make([]byte, 16<<10))
	if half, ok := guest.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = guest.SetReadDeadline(time.Now().Add(answerRest))
	if gone() {
		_ = guest.Close()
	}
	<-done
	_, _ = client.Close(), guest.Close()
}
