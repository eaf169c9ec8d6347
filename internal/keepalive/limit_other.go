//go:build !linux

package keepalive

import "syscall"

// setSocketOptions leaves the socket unchanged: outside Linux only the probes of keepAlive end a connection.
func (l Limit) setSocketOptions(string, string, syscall.RawConn) error { return nil }
