package alive

import (
	"context"
	"net"
	"time"
)

// A Limit is about how long the other end of a connection may neither answer nor accept what
// was sent to it. It must be at least a few seconds: TCP counts some times in seconds.
type Limit time.Duration

// Minute is the limit of all connections for people.
const Minute = Limit(time.Minute)

// Listen listens at a TCP address, and limits the connections it accepts.
func (l Limit) Listen(ctx context.Context, address string) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: l.keepAlive(), Control: l.set} // accepted connections inherit it
	config.SetMultipathTCP(false)                                              // for which Linux refuses the option
	return config.Listen(ctx, "tcp", address)
}

// Dialer returns a dialer that limits its connections.
func (l Limit) Dialer() *net.Dialer {
	return &net.Dialer{KeepAliveConfig: l.keepAlive(), Control: l.set}
}

// keepAlive begins to ask after half of the limit, so that there are several questions.
func (l Limit) keepAlive() net.KeepAliveConfig {
	d := time.Duration(l)
	return net.KeepAliveConfig{Enable: true, Idle: d / 2, Interval: d / 6, Count: 3}
}
