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
	// A thread that enters another namespace and can't come back must end: it does
	// with its goroutine, which never unlocks it.
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var ns *os.File
		if ns, err = os.Open(c.netns()); err != nil {
			return
		}
		defer func() { _ = ns.Close() }() // it was only read
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
	}()
	<-done
	if err != nil {
		return nil, fmt.Errorf("connect to %s in the cluster: %w", address, err)
	}
	return conn, nil
}
