package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dial connects to an address in the cluster's network, such as the API server's or a pod's, with a port. Kubernetes
// clients can use it as their Dial function.
func (c *Cluster) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = c.inNetwork(func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s in the cluster: %w", address, err)
	}
	return conn, nil
}

// Listen listens for TCP connections on a free port of the API server's address, which pods can reach.
func (c *Cluster) Listen(ctx context.Context) (l net.Listener, err error) {
	err = c.inNetwork(func() error {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.hostAddress(1), "0"))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen in the cluster: %w", err)
	}
	return l, nil
}

// inNetwork calls a function in the cluster's network namespace.
func (c *Cluster) inNetwork(do func() error) (err error) {
	// A thread that can't return from another namespace must end. It ends with its goroutine, which never unlocks it.
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var ns *os.File
		if ns, err = os.Open(c.netnsFile()); err != nil {
			return
		}
		defer func() { _ = ns.Close() }() // opened for reading only
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		err = do()
	}()
	<-done
	return err
}
