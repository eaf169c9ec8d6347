package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// A PortPair is a port of this host, or 0 for any free port, and a port of the guest.
type PortPair struct{ Host, Guest int }

// PortPairs parses texts such as 8080:80 and 22. The error is for the user.
func PortPairs(texts []string) (pairs []PortPair, err error) {
	for _, text := range texts {
		from, to, two := strings.Cut(text, ":")
		if !two {
			from, to = "0", text
		}
		host, e1 := strconv.Atoi(from)
		guest, e2 := strconv.Atoi(to)
		if e1 != nil || e2 != nil || host < 0 || host > 65535 || guest < 1 || guest > 65535 {
			return nil, fmt.Errorf("%q is no [HOST:]GUEST; use TCP ports, such as 8080:80", text)
		}
		pairs = append(pairs, PortPair{host, guest})
	}
	return pairs, nil
}

// Ports listens on ports of an address of this host and connects clients to the guest, until the context of cmd is
// done.
func Ports(cmd *cobra.Command, client Runner, address string, pairs []PortPair) error {
	group, ctx := errgroup.WithContext(cmd.Context())
	var listeners []net.Listener
	for _, pair := range pairs {
		probe, err := client.Forward(ctx, pair.Guest) // report errors before a client connects
		if err != nil {
			return err
		}
		_ = probe.Close()
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(pair.Host)))
		if err != nil {
			return fmt.Errorf("forward port %d of the guest: %w", pair.Guest, err)
		}
		defer l.Close()
		listeners = append(listeners, l)
		cmd.PrintErrf("%s is port %d of the guest\n", l.Addr(), pair.Guest)
	}
	for i, l := range listeners {
		group.Go(func() error {
			return acceptAll(ctx, l, "clients", func(conn net.Conn) {
				if err := forwardOne(ctx, conn, client, pairs[i].Guest); err != nil {
					cmd.PrintErrln("port-forward:", err)
				}
			})
		})
	}
	return group.Wait()
}

// acceptAll serves connections until ctx is done.
func acceptAll(ctx context.Context, l net.Listener, whom string, serve func(net.Conn)) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	defer l.Close()
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("wait for %s: %w", whom, err)
		}
		go serve(conn)
	}
}

// forwardOne serves one client.
func forwardOne(ctx context.Context, conn net.Conn, client Runner, port int) error {
	defer conn.Close()
	guest, err := client.Forward(ctx, port)
	if err != nil {
		return err
	}
	defer guest.Close()
	defer context.AfterFunc(ctx, func() { _, _ = conn.Close(), guest.Close() })()
	copyBoth(guest, conn, conn, func() { endWriting(conn) })
	return nil
}

// Stdio connects the standard streams to a port of the guest.
func Stdio(cmd *cobra.Command, client Runner, port int) error {
	guest, err := client.Forward(cmd.Context(), port)
	if err != nil {
		return err
	}
	defer guest.Close()
	defer context.AfterFunc(cmd.Context(), func() { _ = guest.Close() })()
	_, err = io.Copy(cmd.OutOrStdout(), sendingReader(guest, cmd.InOrStdin()))
	return err
}

// sendingReader returns the guest, and sends all of in to it in the background.
func sendingReader(guest net.Conn, in io.Reader) io.Reader {
	go func() {
		_, _ = io.Copy(guest, in) // the reader notices the end
		endWriting(guest)
	}()
	return guest
}

// copyBoth copies in both directions until the guest stops sending.
func copyBoth(guest net.Conn, in io.Reader, out io.Writer, end func()) {
	_, _ = io.Copy(out, sendingReader(guest, in)) // only its end matters
	end()
}

// endWriting signals the end of the data to the other end of a connection.
func endWriting(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
