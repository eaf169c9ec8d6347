package keepalive

import (
	"context"
	"net"
	"time"
)

// A Limit is approximately how long the other end of a connection may fail to answer, or to accept sent data. It
// must be at least a few seconds, because TCP measures some times in seconds.
type Limit time.Duration

// Minute is the limit for all connections of people.
const Minute = Limit(time.Minute)

// Listen listens on a TCP address and applies the limit to accepted connections.
func (l Limit) Listen(ctx context.Context, address string) (net.Listener, error) {
	// accepted connections inherit both
	config := net.ListenConfig{KeepAliveConfig: l.keepAlive(), Control: l.setSocketOptions}
	// Linux refuses the option for multipath TCP
	config.SetMultipathTCP(false)
	return config.Listen(ctx, "tcp", address)
}

// Dialer returns a dialer that applies the limit to its connections.
func (l Limit) Dialer() *net.Dialer {
	return &net.Dialer{KeepAliveConfig: l.keepAlive(), Control: l.setSocketOptions}
}

// keepAlive starts the probes after half of the limit, so that there is time for several.
func (l Limit) keepAlive() net.KeepAliveConfig {
	d := time.Duration(l)
	return net.KeepAliveConfig{Enable: true, Idle: d / 2, Interval: d / 6, Count: 3}
}
