package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"vmop/qmp"
	"vmop/runner/machine/usernet"
	"vmop/vmtypes/plan"
)

// Time limits of connections to a guest's port.
const (
	guestTime = 5 * time.Second // for one address of the guest to answer
	// answerRest is how long the guest may continue to send after the client has finished sending.
	answerRest = time.Minute
)

// forwards are the ports of the loopback address that lead to ports of the guest through QEMU's user network,
// while streams use them.
type forwards struct {
	mu   sync.Mutex
	open map[int]*forward // by the guest's port
}

// forward is a port that leads to a port of the guest.
type forward struct {
	usernet.Forward
	netdev  string
	streams int
	added   bool // by this server; otherwise by the configuration or a killed runner
}

// clientAddress is where a client of this host connects.
func (f *forward) clientAddress() string {
	host := f.Address
	if host == "0.0.0.0" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(f.Host))
}

// errNoUserNetwork reports that the VM has no network of type user.
var errNoUserNetwork = errors.New("the VM has no network of type user")

// getForward streams the bytes of a TCP port of the guest.
func (s *Server) getForward(w http.ResponseWriter, r *http.Request) error {
	if err := wantsUpgrade(r); err != nil {
		return err
	}
	port, err := strconv.Atoi(r.URL.Query().Get("port"))
	if err != nil || port < 1 || port > 65535 {
		return badRequest{fmt.Errorf("port=%q: must be a TCP port of the guest, 1 to 65535", r.URL.Query().Get("port"))}
	}
	guest, done, err := s.dialGuest(r.Context(), port)
	if err != nil {
		return err
	}
	defer done()
	defer guest.Close()
	conn, err := s.upgradeStream(w)
	if err != nil {
		return nil // the client has disconnected
	}
	defer s.forgetStream(conn.Conn)
	s.opts.Log.Info("connected with a port of the guest", "port", port, "client", clientOf(r.Context()))
	relayStreams(conn, guest, func() bool { return isClientGone(r.Context()) })
	return nil
}

// dialGuest connects to a port of the guest: through a user network, through a port that passt forwards, or
// otherwise through an address that the guest's agent reports. Call done when the connection is closed.
func (s *Server) dialGuest(ctx context.Context, port int) (conn net.Conn, done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	dialer := net.Dialer{Timeout: guestTime}
	address, err := s.openForward(ctx, port)
	if errors.Is(err, errNoUserNetwork) {
		conn, err = s.dialPasst(ctx, dialer, port)
		if conn == nil && err == nil {
			conn, err = s.dialAddress(ctx, dialer, port)
		}
		return conn, func() {}, err
	}
	if err != nil {
		return nil, nil, err
	}
	done = func() { s.removeForward(context.WithoutCancel(ctx), port) }
	conn, err = dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		done()
		return nil, nil, Refusal(fmt.Sprintf("connect to port %d of the guest: %v", port, err))
	}
	return conn, done, nil
}

// dialPasst connects through the port of this host that passt forwards to a port of the guest. If the VM doesn't
// use passt, the connection and the error are nil. With passt the guest has the host's own address, so it can't
// be reached through its address.
func (s *Server) dialPasst(ctx context.Context, dialer net.Dialer, port int) (net.Conn, error) {
	p, passt := s.opts.Backend.Plan(), false
	if p == nil {
		return nil, nil
	}
	for i := range p.Helpers {
		if p.Helpers[i].Role != plan.RoleNetwork {
			continue
		}
		passt = true
		for _, o := range p.Helpers[i].Args {
			f, is := plan.PasstForward(o)
			if !is || f.Protocol != "tcp" || f.Guest != port {
				continue
			}
			address := f.Address
			if address == "0.0.0.0" {
				address = "127.0.0.1"
			}
			conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(f.Host)))
			if err != nil {
				err = Refusal(fmt.Sprintf("connect to port %d of the guest: %v", port, err))
			}
			return conn, err
		}
	}
	if !passt || len(p.Taps) > 0 {
		return nil, nil
	}
	return nil, Refusal(fmt.Sprintf("port %d of the guest can't be reached: its network is of the type passt, where only "+
		"ports of the configuration lead to the guest; add {host: …, guest: %[1]d} to vm.network[].ports (in Kubernetes "+
		"{port: …, guest: %[1]d}), and restart the VM", port))
}

// dialAddress connects to the first of the guest's addresses that answers. It checks the addresses that a guest
// reports, because the guest may name an address of the pod or of someone else.
func (s *Server) dialAddress(ctx context.Context, dialer net.Dialer, port int) (net.Conn, error) {
	links, cards, addresses := s.guestPlaces()
	var errs []error
	for _, address := range addresses {
		conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(address, uint16(port)).String())
		if err == nil {
			var is bool
			if is, err = s.opts.IsNeighbor(address, links, cards); is {
				return conn, nil
			}
			_ = conn.Close()
		}
		if err == nil {
			err = fmt.Errorf("%s is not at the guest's card, although the guest reports it", address)
		}
		errs = append(errs, err)
	}
	if errs == nil {
		return nil, Refusal("the guest can't be reached: " + errNoUserNetwork.Error() +
			", and no guest agent has reported an address")
	}
	return nil, Refusal(fmt.Sprintf("connect to port %d of the guest: %v", port, errors.Join(errs...)))
}

// guestPlaces returns the host's interfaces that lead to the guest, the hardware addresses of its cards, and its
// possible addresses.
func (s *Server) guestPlaces() (links, cards []string, addresses []netip.Addr) {
	p := s.opts.Backend.Plan()
	if p == nil {
		return nil, nil, nil
	}
	for _, t := range p.Taps {
		if t.Subnet == "" {
			links = append(links, t.Bridge)
			continue
		}
		links = append(links, t.Name)
		if guest, err := s.opts.GuestBehind(t.Name); err == nil {
			addresses = append(addresses, guest)
		}
	}
	for i := range p.QEMU.Args {
		o := p.QEMU.Args[i].Structured()
		text, _ := o.Get("mac")
		if mac, err := net.ParseMAC(text); err == nil {
			cards = append(cards, mac.String())
		}
	}
	guest := s.opts.Tracker.Status().Guest
	if guest == nil {
		return links, cards, addresses
	}
	for _, i := range guest.Interfaces {
		for _, text := range i.Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err == nil && prefix.Addr().IsGlobalUnicast() && !slices.Contains(addresses, prefix.Addr()) {
				addresses = append(addresses, prefix.Addr())
			}
		}
	}
	return links, cards, addresses
}

// openForward returns the address of this host that leads to a port of the guest. It adds a forward if necessary. The
// caller must call removeForward.
func (s *Server) openForward(ctx context.Context, port int) (string, error) {
	s.forwards.mu.Lock()
	defer s.forwards.mu.Unlock()
	if f := s.forwards.open[port]; f != nil {
		f.streams++
		return f.clientAddress(), nil
	}
	found, netdev, err := s.forwardOf(ctx, port)
	if err != nil {
		return "", err
	}
	added := found == nil
	if added {
		if err := s.addForward(ctx, netdev, port); err != nil {
			return "", err
		}
		if found, _, err = s.forwardOf(ctx, port); err == nil && found == nil {
			err = fmt.Errorf("QEMU does not report the port that it forwards to port %d of the guest", port)
		}
		if err != nil {
			return "", err
		}
	}
	if s.forwards.open == nil {
		s.forwards.open = map[int]*forward{}
	}
	f := &forward{Forward: *found, netdev: netdev, streams: 1, added: added}
	s.forwards.open[port] = f
	return f.clientAddress(), nil
}

// removeForward closes a port when the last stream for it has ended.
func (s *Server) removeForward(ctx context.Context, port int) {
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
	// If QEMU has ended, the port is closed.
	if _, err := s.runMonitorCommand(ctx, usernet.Remove(f.netdev, f.Forward)); err != nil {
		s.opts.Log.Debug("a port to the guest was not closed", "port", port, "err", err)
	}
}

// addForward makes QEMU listen on a port that the kernel chooses.
func (s *Server) addForward(ctx context.Context, netdev string, port int) error {
	said, err := s.runMonitorCommand(ctx, usernet.Add(netdev, usernet.Forward{
		Protocol: "tcp", Address: usernet.Temporary, Guest: port,
	}))
	if err == nil && said != "" {
		err = fmt.Errorf("forward a port to the guest: %s", said)
	}
	return err
}

// forwardOf returns the forward to a port of the guest, nil if it doesn't exist, and its user network or the
// network for a new forward.
func (s *Server) forwardOf(ctx context.Context, port int) (*usernet.Forward, string, error) {
	said, err := s.runMonitorCommand(ctx, usernet.List())
	if err != nil {
		return nil, "", err
	}
	all := usernet.Parse(said)
	names := slices.Sorted(maps.Keys(all))
	if len(names) == 0 {
		return nil, "", errNoUserNetwork
	}
	for _, netdev := range names {
		for _, f := range all[netdev] {
			local := f.Address == "0.0.0.0" || f.Address == "127.0.0.1" || f.Address == usernet.Temporary
			if f.Protocol == "tcp" && f.Guest == port && local {
				return &f, netdev, nil
			}
		}
	}
	return nil, names[0], nil
}

// runMonitorCommand runs a command of QEMU's human monitor, which has commands that QMP lacks.
func (s *Server) runMonitorCommand(ctx context.Context, command qmp.Command) (string, error) {
	reply, err := s.opts.Backend.Run(ctx, command)
	if err != nil {
		return "", err
	}
	return usernet.Said(reply)
}

// relayStreams copies in both directions until both have ended, or the client is gone. It passes the end of each
// direction on.
func relayStreams(client *stream, guest net.Conn, gone func() bool) {
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
