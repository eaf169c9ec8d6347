package main

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

	"vmop/cli"
	"vmop/runner/control"
)

func newPortForward(f *flags) *cobra.Command {
	var address string
	var stdio bool
	cmd := &cobra.Command{
		Use:   "port-forward NAME [HOST:]GUEST...",
		Short: "Connect ports of this host with ports of the guest",
		Long: "port-forward listens on TCP ports of this host, HOST or one that is free, and connects\n" +
			"clients with the port GUEST of the guest, until Ctrl-C. The guest is reached through\n" +
			"its user network, whatever ports its configuration has, or by an address that its agent\n" +
			"reports.",
		Example: "  vmrunner port-forward web 8080:80 22\n" +
			"  ssh -o ProxyCommand='vmrunner port-forward web 22 --stdio' joe@web",
	}
	vm := aboutVM(f, cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if _, ports := vm.nameFirst(cmd, args); len(ports) == 0 || stdio && len(ports) > 1 {
			return cli.UsageError{Err: errors.New("want: vmrunner port-forward NAME [HOST:]GUEST, such as web 8080:80")}
		}
		return nil
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "`address` of this host to listen on")
	cmd.Flags().BoolVar(&stdio, "stdio", false, "use the standard streams instead of listening")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, ports := vm.nameFirst(cmd, args)
		pairs, err := portPairs(ports)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		client, err := vm.dial(cmd, name)
		if err != nil {
			return err
		}
		if stdio {
			return forwardStdio(cmd, client, pairs[0].guest)
		}
		return forwardPorts(cmd, client, address, pairs)
	}
	return cmd
}

// nameFirst splits off the NAME, unless the VM is specified in another way.
func (t *target) nameFirst(cmd *cobra.Command, args []string) (name, rest []string) {
	if t.runtimeDir != "" || cmd.Flags().Changed("config") || len(args) == 0 {
		return nil, args
	}
	return args[:1], args[1:]
}

// portPair is a port of this host, 0 if any will do, and one of the guest.
type portPair struct{ host, guest int }

func portPairs(texts []string) (pairs []portPair, err error) {
	for _, text := range texts {
		from, to, two := strings.Cut(text, ":")
		if !two {
			from, to = "0", text
		}
		host, e1 := strconv.Atoi(from)
		guest, e2 := strconv.Atoi(to)
		if e1 != nil || e2 != nil || host < 0 || host > 65535 || guest < 1 || guest > 65535 {
			return nil, fmt.Errorf("%q is no [HOST:]GUEST; want TCP ports, such as 8080:80", text)
		}
		pairs = append(pairs, portPair{host, guest})
	}
	return pairs, nil
}

func forwardPorts(cmd *cobra.Command, client *control.Client, address string, pairs []portPair) error {
	group, ctx := errgroup.WithContext(cmd.Context())
	var listeners []net.Listener
	for _, pair := range pairs {
		probe, err := client.Forward(ctx, pair.guest) // so that errors show before a client connects
		if err != nil {
			return err
		}
		_ = probe.Close()
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(pair.host)))
		if err != nil {
			return fmt.Errorf("forward port %d of the guest: %w", pair.guest, err)
		}
		defer l.Close()
		listeners = append(listeners, l)
		cmd.PrintErrf("%s is port %d of the guest\n", l.Addr(), pair.guest)
	}
	for i, l := range listeners {
		group.Go(func() error {
			return acceptAll(ctx, l, "clients", func(conn net.Conn) {
				if err := forwardOne(ctx, conn, client, pairs[i].guest); err != nil {
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
func forwardOne(ctx context.Context, conn net.Conn, client *control.Client, port int) error {
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

func forwardStdio(cmd *cobra.Command, client *control.Client, port int) error {
	guest, err := client.Forward(cmd.Context(), port)
	if err != nil {
		return err
	}
	defer guest.Close()
	defer context.AfterFunc(cmd.Context(), func() { _ = guest.Close() })()
	_, err = io.Copy(cmd.OutOrStdout(), sending(guest, cmd.InOrStdin()))
	return err
}

// sending sends all of in to the guest meanwhile, and returns the guest.
func sending(guest net.Conn, in io.Reader) io.Reader {
	go func() {
		_, _ = io.Copy(guest, in) // its end is seen by who reads
		endWriting(guest)
	}()
	return guest
}

// copyBoth copies in both directions until the guest has ended what it sends.
func copyBoth(guest net.Conn, in io.Reader, out io.Writer, end func()) {
	_, _ = io.Copy(out, sending(guest, in)) // only its end matters
	end()
}

// endWriting tells the other end of a connection that no more comes.
func endWriting(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
