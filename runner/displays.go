package runner

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/status"
)

// displays follows who looks at the screen by SPICE and VNC. Events say who
// comes and goes; where some may have been missed, QEMU is asked for all.
type displays struct {
	m       *machine
	doubted chan struct{} // wakes settle
	begun   bool
	dropped uint64 // events that were lost, as far as it was noticed

	mu        sync.Mutex
	seen      uint64 // counts the events of clients
	audiences map[string]*audience
	lines     trickle
}

func newDisplays(m *machine) *displays {
	return &displays{
		m: m, doubted: make(chan struct{}, 1),
		audiences: map[string]*audience{status.SPICE: {}, status.VNC: {}},
		lines:     trickle{burst: 20, every: 10 * time.Second},
	}
}

// Times between two questions for all clients, when events don't come to rest.
const (
	shortestDoubt = time.Second
	longestDoubt  = 10 * time.Second
)

func (d *displays) wanted(context.Context, *VM) {}

func (d *displays) attached(ctx context.Context) {
	if !d.begun {
		d.begun = true
		go d.settle(ctx)
	}
	d.doubt()
}

func (d *displays) doubt() {
	select {
	case d.doubted <- struct{}{}:
	default: // it will be asked
	}
}

// clientEvent is what QEMU's events and answers say of a client (QAPI types
// SpiceBasicInfo, SpiceChannel and VncBasicInfo).
type clientEvent struct {
	Host, Port, Service string
	ChannelType         int `json:"channel-type"`
}

// mainChannel is the one that every SPICE client has exactly once: it opens
// others for the picture, the mouse, sound …
const mainChannel = 1

// name identifies the client; empty if nothing does, as with most processes
// that have connected to a unix socket.
func (c clientEvent) name() string {
	port := c.Port + c.Service
	if c.Host == "" {
		return port
	}
	return net.JoinHostPort(c.Host, port)
}

func (d *displays) observe(_ context.Context, e qmp.Event) {
	if dropped := (backend{d.m}).Dropped(); dropped != d.dropped {
		d.dropped = dropped
		d.doubt()
	}
	kind, what, _ := strings.Cut(strings.ToLower(e.Name), "_")
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.audiences[kind]
	var data struct{ Client clientEvent }
	if a == nil || json.Unmarshal(e.Data, &data) != nil {
		return
	}
	d.seen++
	name := data.Client.name()
	switch what {
	case "connected":
		a.connected(name)
	case "initialized":
		if kind == status.SPICE && data.Client.ChannelType != mainChannel {
			return
		}
		a.initialized(name)
	case "disconnected":
		a.gone(name)
	}
	if a.cut {
		d.doubt()
	}
	d.tell(kind, a)
}

// settle asks QEMU for all clients when events were missed. What the answer
// says holds if no event was on its way at the same time.
func (d *displays) settle(ctx context.Context) {
	wait := shortestDoubt
	for {
		select {
		case <-d.doubted:
		case <-ctx.Done():
			return
		}
		d.mu.Lock()
		seen := d.seen
		d.mu.Unlock()
		found := d.ask(ctx)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if d.replace(found, seen) {
			wait = shortestDoubt
		} else {
			wait = min(2*wait, longestDoubt)
			d.doubt()
		}
	}
}

// replace puts what QEMU has answered in the place of what is known, unless
// there were events since.
func (d *displays) replace(found map[string][]string, seen uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen != seen {
		return false
	}
	for kind, names := range found {
		d.audiences[kind].replace(names)
		d.tell(kind, d.audiences[kind])
	}
	return true
}

// ask returns the clients there are, by their kind. Of a kind that QEMU can't
// tell of, because it can't do it for example, nothing is said.
//
// Some of those of VNC may not have given the password yet: QEMU doesn't tell
// them apart.
func (d *displays) ask(ctx context.Context) map[string][]string {
	found := map[string][]string{}
	var spice struct{ Channels []clientEvent }
	if d.query(ctx, "query-spice", &spice) {
		found[status.SPICE] = nil
		for _, c := range spice.Channels {
			if c.ChannelType == mainChannel {
				found[status.SPICE] = append(found[status.SPICE], c.name())
			}
		}
	}
	var vnc []struct{ Clients []clientEvent }
	if d.query(ctx, "query-vnc-servers", &vnc) {
		found[status.VNC] = nil
		for _, server := range vnc {
			for _, c := range server.Clients {
				found[status.VNC] = append(found[status.VNC], c.name())
			}
		}
	}
	return found
}

func (d *displays) query(ctx context.Context, command string, into any) bool {
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	err := d.m.query(ctx, command, nil, into)
	if err != nil {
		d.m.log.Debug("the clients of a display are not known", "err", err)
	}
	return err == nil
}

// tell puts the clients of one kind into the status, and into the log.
func (d *displays) tell(kind string, a *audience) {
	came, went := a.news()
	updates := make([]status.Update, 0, len(came)+len(went))
	for _, name := range went {
		updates = append(updates, status.ConsoleClosed{Kind: kind, Client: spoken(name)})
	}
	for _, name := range came {
		updates = append(updates, status.ConsoleOpened{Kind: kind, Client: spoken(name)})
	}
	if len(updates) > 0 {
		d.m.tell(updates...)
	}
	for _, name := range went {
		d.say("screen closed", kind, name)
	}
	for _, name := range came {
		d.say("screen opened", kind, name)
	}
}

// say logs who comes and goes, unless it happens too often.
func (d *displays) say(message, kind, name string) {
	withheld, ok := d.lines.lets(time.Now())
	if !ok {
		return
	}
	attrs := []any{"kind", kind, "client", spoken(name)}
	if withheld > 0 {
		attrs = append(attrs, slog.Int("withheld", withheld))
	}
	d.m.log.Info(message, attrs...)
}

// spoken says for people who a client is.
func spoken(name string) string {
	if name == "" {
		return "a process of this host"
	}
	if who, ok := control.VNCClient(name); ok {
		name = who
	}
	return printable(name)
}
