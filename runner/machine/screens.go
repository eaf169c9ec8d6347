package machine

import (
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"time"

	"vmop/internal/printable"
	"vmop/internal/ratelimit"
	"vmop/qmp"
	"vmop/runner/machine/viewers"
	"vmop/runner/status"
)

// Pauses between two queries of all clients during a flood of events.
const (
	shortestDoubt = time.Second
	longestDoubt  = 10 * time.Second
)

// mainChannel is the channel that every SPICE client has exactly once. It opens further channels for the picture,
// the mouse, sound …
const mainChannel = 1

// screens tracks who watches the screen through SPICE and VNC. Events report who connects and disconnects. If
// events may have been missed, QEMU is queried for all clients. The answer is used unless an event arrived at the
// same time.
type screens struct {
	*line
	display func(name string) string // for users; see Config.Viewer
	known   func(name string) bool   // see Config.Known
	lists   map[string]*viewers.List
	limit   ratelimit.Limit
	events  int // number of client events seen

	doubted bool
	missing int                 // number of missing answers
	pause   time.Duration       // before an answer is used
	use     time.Time           // when found is used; zero if found is empty
	found   map[string][]string // by kind
	asked   int                 // value of events at the query
}

// queryAgain schedules a query for all clients.
func (s *screens) queryAgain() { s.doubted = true }

// clientEvent is the description of a client in QEMU's events and answers (QAPI types SpiceBasicInfo,
// SpiceChannel and VncBasicInfo).
type clientEvent struct {
	Host, Port, Service string
	ChannelType         int `json:"channel-type"`
}

// clientName returns the client's identity. It is empty if QEMU reports no address, as for most processes that are
// connected to a unix socket.
func (c clientEvent) clientName() string {
	port := c.Port + c.Service
	if c.Host == "" {
		return port
	}
	return net.JoinHostPort(c.Host, port)
}

func (s *screens) observeEvent(e qmp.Event, now time.Time) {
	kind, what, _ := strings.Cut(strings.ToLower(e.Name), "_")
	list := s.lists[kind]
	var data struct{ Client clientEvent }
	if list == nil || json.Unmarshal(e.Data, &data) != nil {
		return
	}
	name := data.Client.clientName()
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
		s.queryAgain()
	}
	s.reportChanges(kind, list, now)
}

func (s *screens) nextStep(now time.Time) (wake time.Time) {
	if !s.use.IsZero() {
		if now.Before(s.use) {
			return s.use
		}
		s.use = time.Time{}
		s.replaceClients(now)
	}
	if s.doubted && s.connected && s.missing == 0 && s.use.IsZero() {
		s.queryClients(now)
	}
	return time.Time{}
}

func (s *screens) isKnown(name string) bool { return s.known != nil && s.known(name) }

// queryClients asks for the connected clients. If QEMU can't list a kind, for example because it was built without it,
// the list of that kind is unchanged.
//
// Some VNC clients may not have entered the password yet, which QEMU does not report.
func (s *screens) queryClients(now time.Time) {
	s.doubted, s.found, s.asked, s.missing = false, map[string][]string{}, s.events, 2
	s.sendCommand(qmp.Command{Execute: "query-spice"}, now, func(a answer, now time.Time) {
		var spice struct{ Channels []clientEvent }
		if s.readAnswer(a, &spice, now) {
			s.found[status.SPICE] = nil
			for _, c := range spice.Channels {
				if c.ChannelType == mainChannel && !s.isKnown(c.clientName()) {
					s.found[status.SPICE] = append(s.found[status.SPICE], c.clientName())
				}
			}
		}
	})
	s.sendCommand(qmp.Command{Execute: "query-vnc-servers"}, now, func(a answer, now time.Time) {
		var servers []struct{ Clients []clientEvent }
		if s.readAnswer(a, &servers, now) {
			s.found[status.VNC] = nil
			for _, server := range servers {
				for _, c := range server.Clients {
					if s.isKnown(c.clientName()) {
						continue
					}
					s.found[status.VNC] = append(s.found[status.VNC], c.clientName())
				}
			}
		}
	})
}

func (s *screens) readAnswer(a answer, into any, now time.Time) bool {
	if s.missing--; s.missing == 0 {
		s.use = now.Add(s.pause)
	}
	err := a.decodeInto(into)
	if err != nil {
		s.addLog(slog.LevelDebug, "the clients of a display are not known", "err", err)
	}
	return err == nil
}

// replaceClients replaces the lists with QEMU's answers, unless events have arrived since the query.
func (s *screens) replaceClients(now time.Time) {
	if s.events != s.asked {
		s.pause = min(2*s.pause, longestDoubt)
		s.queryAgain()
		return
	}
	s.pause = shortestDoubt
	for _, kind := range [...]string{status.SPICE, status.VNC} {
		if names, ok := s.found[kind]; ok {
			s.lists[kind].Replace(names)
			s.reportChanges(kind, s.lists[kind], now)
		}
	}
}

// reportChanges publishes the changes of one kind in the status, and logs them.
func (s *screens) reportChanges(kind string, list *viewers.List, now time.Time) {
	came, left := list.Changes()
	updates := make([]status.Update, 0, len(came)+len(left))
	for _, name := range left {
		updates = append(updates, status.ConsoleClosed{Kind: kind, Client: s.shownName(name)})
	}
	for _, name := range came {
		updates = append(updates, status.ConsoleOpened{Kind: kind, Client: s.shownName(name)})
	}
	if len(updates) > 0 {
		s.publishUpdates(updates...)
	}
	for _, name := range left {
		s.logViewer("screen closed", kind, name, now)
	}
	for _, name := range came {
		s.logViewer("screen opened", kind, name, now)
	}
}

// logViewer logs who connects and disconnects, unless it happens too often.
func (s *screens) logViewer(message, kind, name string, now time.Time) {
	withheld, ok := s.limit.Allow(now)
	if !ok {
		return
	}
	attrs := []any{"kind", kind, "client", s.shownName(name)}
	if withheld > 0 {
		attrs = append(attrs, "withheld", withheld)
	}
	s.addLog(slog.LevelInfo, message, attrs...)
}

// shownName returns a client's name for users.
func (s *screens) shownName(name string) string {
	if name == "" {
		return "a process of this host"
	}
	if s.display != nil {
		name = s.display(name)
	}
	return printable.Line(name)
}
