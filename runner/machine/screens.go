package machine

import (
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"time"

	"vmop/printable"
	"vmop/qmp"
	"vmop/runner/ratelimit"
	"vmop/runner/status"
	"vmop/runner/viewers"
)

// Times between two questions for all clients, when events do not stop.
const (
	shortestDoubt = time.Second
	longestDoubt  = 10 * time.Second
)

// mainChannel is the one that every SPICE client has exactly once: it opens
// others for the picture, the mouse, sound …
const mainChannel = 1

// screens follows who watches the screen by SPICE and VNC. Events say who comes
// and leaves; where some may have been missed, QEMU is asked for all. What it
// answers holds if no event was on its way at the same time.
type screens struct {
	*line
	display func(name string) string // for people; see Config.Viewer
	known   func(name string) bool   // see Config.Known
	lists   map[string]*viewers.List
	limit   ratelimit.Limit
	events  int // of clients, that were seen

	doubted bool
	missing int                 // answers
	pause   time.Duration       // before an answer is used
	use     time.Time           // when found is; zero: nothing was found
	found   map[string][]string // by kind
	asked   int                 // events that were seen before
}

// doubt has QEMU asked for all clients.
func (s *screens) doubt() { s.doubted = true }

// clientEvent is what QEMU's events and answers say of a client (QAPI types
// SpiceBasicInfo, SpiceChannel and VncBasicInfo).
type clientEvent struct {
	Host, Port, Service string
	ChannelType         int `json:"channel-type"`
}

// name identifies the client; empty if nothing does, as with most processes
// that have connected to a unix socket.
func (c clientEvent) name() string {
	port := c.Port + c.Service
	if c.Host == "" {
		return port
	}
	return net.JoinHostPort(c.Host, port)
}

func (s *screens) observe(e qmp.Event, now time.Time) {
	kind, what, _ := strings.Cut(strings.ToLower(e.Name), "_")
	list := s.lists[kind]
	var data struct{ Client clientEvent }
	if list == nil || json.Unmarshal(e.Data, &data) != nil {
		return
	}
	name := data.Client.name()
	if s.isKnown(name) {
		return
	}
	s.events++
	switch what {
	case "connected":
		list.Connected(name)
	case "initialized":
		if kind == status.SPICE && data.Client.ChannelType != mainChannel {
			return
		}
		list.LoggedIn(name)
	case "disconnected":
		list.Disconnected(name)
	}
	if list.Overflowed() {
		s.doubt()
	}
	s.report(kind, list, now)
}

func (s *screens) next(now time.Time) (wake time.Time) {
	if !s.use.IsZero() {
		if now.Before(s.use) {
			return s.use
		}
		s.use = time.Time{}
		s.replace(now)
	}
	if s.doubted && s.connected && s.missing == 0 && s.use.IsZero() {
		s.query(now)
	}
	return time.Time{}
}

func (s *screens) isKnown(name string) bool { return s.known != nil && s.known(name) }

// query asks for the clients there are. Of a kind that QEMU cannot list, because
// it was built without it for example, nothing changes.
//
// Some of those of VNC may not have given the password yet: QEMU does not tell
// them apart.
func (s *screens) query(now time.Time) {
	s.doubted, s.found, s.asked, s.missing = false, map[string][]string{}, s.events, 2
	s.send(qmp.Command{Execute: "query-spice"}, now, func(a answer, now time.Time) {
		var spice struct{ Channels []clientEvent }
		if s.read(a, &spice, now) {
			s.found[status.SPICE] = nil
			for _, c := range spice.Channels {
				if c.ChannelType == mainChannel && !s.isKnown(c.name()) {
					s.found[status.SPICE] = append(s.found[status.SPICE], c.name())
				}
			}
		}
	})
	s.send(qmp.Command{Execute: "query-vnc-servers"}, now, func(a answer, now time.Time) {
		var servers []struct{ Clients []clientEvent }
		if s.read(a, &servers, now) {
			s.found[status.VNC] = nil
			for _, server := range servers {
				for _, c := range server.Clients {
					if s.isKnown(c.name()) {
						continue
					}
					s.found[status.VNC] = append(s.found[status.VNC], c.name())
				}
			}
		}
	})
}

func (s *screens) read(a answer, into any, now time.Time) bool {
	if s.missing--; s.missing == 0 {
		s.use = now.Add(s.pause)
	}
	err := a.decode(into)
	if err != nil {
		s.log(slog.LevelDebug, "the clients of a display are not known", "err", err)
	}
	return err == nil
}

// replace puts what QEMU has answered in the place of what is known, unless
// there were events since.
func (s *screens) replace(now time.Time) {
	if s.events != s.asked {
		s.pause = min(2*s.pause, longestDoubt)
		s.doubt()
		return
	}
	s.pause = shortestDoubt
	for _, kind := range [...]string{status.SPICE, status.VNC} {
		if names, ok := s.found[kind]; ok {
			s.lists[kind].Replace(names)
			s.report(kind, s.lists[kind], now)
		}
	}
}

// report puts the changes of one kind into the status, and into the log.
func (s *screens) report(kind string, list *viewers.List, now time.Time) {
	came, left := list.Changes()
	updates := make([]status.Update, 0, len(came)+len(left))
	for _, name := range left {
		updates = append(updates, status.ConsoleClosed{Kind: kind, Client: s.shown(name)})
	}
	for _, name := range came {
		updates = append(updates, status.ConsoleOpened{Kind: kind, Client: s.shown(name)})
	}
	if len(updates) > 0 {
		s.publish(updates...)
	}
	for _, name := range left {
		s.logViewer("screen closed", kind, name, now)
	}
	for _, name := range came {
		s.logViewer("screen opened", kind, name, now)
	}
}

// logViewer logs who comes and leaves, unless it happens too often.
func (s *screens) logViewer(message, kind, name string, now time.Time) {
	withheld, ok := s.limit.Allow(now)
	if !ok {
		return
	}
	attrs := []any{"kind", kind, "client", s.shown(name)}
	if withheld > 0 {
		attrs = append(attrs, "withheld", withheld)
	}
	s.log(slog.LevelInfo, message, attrs...)
}

// shown is a client's name for people.
func (s *screens) shown(name string) string {
	if name == "" {
		return "a process of this host"
	}
	if s.display != nil {
		name = s.display(name)
	}
	return printable.Line(name)
}
