package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dial connects to an address in the cluster's network: that of the API server or
// of a pod, with a port. It is what clients of Kubernetes take as their Dial.
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

// Listen waits for connections by TCP at a free port of the address of the API server,
// which pods reach.
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
	// A thread that enters another namespace and can't come back must end: it does
	// with its goroutine, which never unlocks it.
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var ns *os.File
		if ns, err = os.Open(c.netnsFile()); err != nil {
			return
		}
		defer func() { _ = ns.Close() }() // it was only read
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		err = do()
	}()
	<-done
	return err
}
