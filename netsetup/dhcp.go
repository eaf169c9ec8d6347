package netsetup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"syscall"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"
)

// maxDatagram is the size of the longest request that the server understands, in bytes.
const maxDatagram = 4096

// dhcpServer answers the only VM behind a tap.
type dhcpServer struct {
	conn   net.PacketConn
	lease  lease
	logger *slog.Logger
	ends   chan struct{} // closed to stop the server
	done   chan struct{} // closed when the serving goroutine has ended
	leased bool          // the guest took its address at least once
	// declined: the guest found another computer with its address at least once.
	declined bool
}

// startDHCP serves the lease on the interface until Close.
func startDHCP(ctx context.Context, device string, l lease, logger *slog.Logger) (*dhcpServer, error) {
	conn, err := listenDHCP(ctx, device)
	if err != nil {
		return nil, err
	}
	return serveDHCP(conn, l, logger), nil
}

// serveDHCP answers the requests that arrive on a connection, until Close.
func serveDHCP(conn net.PacketConn, l lease, logger *slog.Logger) *dhcpServer {
	s := &dhcpServer{conn: conn, lease: l, logger: logger, ends: make(chan struct{}), done: make(chan struct{})}
	go s.serveRequests()
	return s
}

// listenDHCP opens the server's port on one interface only, so other DHCP servers of the same computer, including
// those for other VMs, can use their own interfaces.
func listenDHCP(ctx context.Context, device string) (net.PacketConn, error) {
	doing := "start the DHCP server on " + device
	listen := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		controlErr := raw.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
				unix.BindToDevice(int(fd), device))
		})
		return errors.Join(controlErr, err)
	}}
	conn, err := listen.ListenPacket(ctx, "udp4", fmt.Sprintf("0.0.0.0:%d", serverPort))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, noLowPort(doing, err)
	case errors.Is(err, unix.EADDRINUSE):
		return nil, &Error{
			Doing: doing, Fault: PortTaken, Err: err,
			Detail: "another DHCP server occupies UDP port 67 of all interfaces",
			Remedy: "make that server bind to its own interfaces (dnsmasq: bind-interfaces)",
		}
	case err != nil:
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return conn, nil
}

func noLowPort(doing string, err error) error {
	return &Error{
		Doing: doing, Fault: NoRight, Err: err,
		Detail: "the right to use ports below 1024 is missing",
		Remedy: "run as root or give the program the capability CAP_NET_BIND_SERVICE, " +
			"or lower the sysctl net.ipv4.ip_unprivileged_port_start",
	}
}

// Close ends the server and waits for it.
func (s *dhcpServer) Close() error {
	close(s.ends)
	err := s.conn.Close()
	<-s.done
	if err != nil {
		return fmt.Errorf("close the DHCP server: %w", err)
	}
	return nil
}

func (s *dhcpServer) serveRequests() {
	defer close(s.done)
	buffer := make([]byte, maxDatagram)
	for {
		n, _, err := s.conn.ReadFrom(buffer)
		if err != nil {
			select {
			case <-s.ends:
			default:
				s.logger.Warn("DHCP server stopped reading", "err", err)
			}
			return
		}
		s.handleDatagram(buffer[:n])
	}
}

// handleDatagram answers one datagram. A guest must not be able to stop the server or fill the log, so handleDatagram
// drops datagrams that it cannot parse.
func (s *dhcpServer) handleDatagram(datagram []byte) {
	request, err := dhcpv4.FromBytes(datagram)
	if err != nil {
		s.logger.Debug("DHCP request dropped", "err", err)
		return
	}
	if request.MessageType() == dhcpv4.MessageTypeDecline && !s.declined {
		s.declined = true
		s.logger.Warn("guest found its address in use by another computer", "address", s.lease.guest.Addr().String())
	}
	r, ok, err := s.lease.answerRequest(request)
	if err != nil {
		s.logger.Warn("DHCP request not answered", "err", err)
		return
	}
	if !ok {
		return
	}
	if _, err := s.conn.WriteTo(r.message.ToBytes(), net.UDPAddrFromAddrPort(r.to)); err != nil {
		s.logger.Warn("DHCP answer not sent", "err", err)
		return
	}
	s.logger.Debug("DHCP request answered", "request", request.MessageType().String(), "answer",
		r.message.MessageType().String())
	if r.message.MessageType() == dhcpv4.MessageTypeAck && !s.leased {
		s.leased = true
		s.logger.Info("guest took its address", "address", s.lease.guest.Addr().String())
	}
}
