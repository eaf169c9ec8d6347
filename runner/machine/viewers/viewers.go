// Package viewers maintains the list of clients that watch a VM's screen through one display protocol. It
// contains the clients that have logged in, in the order of their arrival.
//
// It does no I/O. QEMU's events report who connects, logs in and disconnects. If events may have been lost,
// Replace processes QEMU's list of all clients.
package viewers

import "slices"

// Limits of a list.
const (
	maxClients   = 256 // known clients
	maxUndecided = 64  // of these, clients that have not logged in
	maxShown     = 32  // clients in the status
)

// A List contains the clients of one display protocol. A client's name is its address. Clients without a name can
// only be counted. The zero value is empty.
type List struct {
	clients  []client
	overflow bool
	reported []string
}

type client struct {
	name string
	// connected counts the client's connections, and viewing the connections that have logged in.
	connected, viewing int
}

// Overflowed reports whether the list has been too small for all clients since the last call of Replace.
func (l *List) Overflowed() bool { return l.overflow }

func (l *List) findClient(name string) int {
	return slices.IndexFunc(l.clients, func(c client) bool { return c.name == name })
}

func (l *List) addClient(c client) {
	if len(l.clients) == maxClients {
		l.overflow = true
		return
	}
	l.clients = append(l.clients, c)
}

// Connected records a connection that has not logged in, so that Replace does not count it as a viewer. If there
// are too many, some are not recorded.
func (l *List) Connected(name string) {
	undecided := 0
	for i := range l.clients {
		c := &l.clients[i]
		if c.name == name {
			if name == "" {
				c.connected++
			}
			return
		}
		if c.viewing == 0 {
			undecided++
		}
	}
	if undecided < maxUndecided {
		l.addClient(client{name: name, connected: 1})
	}
}

// LoggedIn records that a client has logged in.
func (l *List) LoggedIn(name string) {
	i := l.findClient(name)
	if i < 0 {
		l.addClient(client{name, 1, 1})
		return
	}
	c := &l.clients[i]
	if c.viewing == 0 || name == "" {
		c.viewing++
	}
	c.connected = max(c.connected, c.viewing)
}

// Disconnected records the end of a connection. If the client has no name, a connection that has not logged in is
// assumed to have ended, if any, because most of them give up immediately.
func (l *List) Disconnected(name string) {
	i := l.findClient(name)
	if i < 0 {
		return
	}
	c := &l.clients[i]
	c.connected--
	c.viewing = min(c.viewing, c.connected)
	if c.connected == 0 {
		l.clients = slices.Delete(l.clients, i, i+1)
	}
}

// Replace sets the clients that are really connected. QEMU does not report for all clients whether they have
// logged in, so unknown clients count as viewers.
func (l *List) Replace(names []string) {
	l.overflow = false
	count := map[string]int{}
	for _, name := range names {
		count[name]++
	}
	l.clients = slices.DeleteFunc(l.clients, func(c client) bool { return count[c.name] == 0 })
	for i := range l.clients {
		c := &l.clients[i]
		undecided := c.connected - c.viewing
		c.connected = count[c.name]
		c.viewing = max(c.connected-undecided, 0)
		delete(count, c.name)
	}
	for _, name := range names {
		if n := count[name]; n > 0 {
			l.addClient(client{name, n, n})
			delete(count, name)
		}
	}
}

// Changes returns the clients that appeared in the shown list, and the clients that left it, since the last call.
func (l *List) Changes() (came, left []string) {
	shown := l.Shown()
	came, left = withoutNames(shown, l.reported), withoutNames(l.reported, shown)
	l.reported = shown
	return came, left
}

// Shown returns the first viewers, at most 32. A name occurs once for each of its connections.
func (l *List) Shown() []string {
	var names []string
	for _, c := range l.clients {
		for range min(c.viewing, maxShown-len(names)) {
			names = append(names, c.name)
		}
	}
	return names
}

// withoutNames returns the elements that occur more often in list than in other, in their order.
func withoutNames(list, other []string) []string {
	count := map[string]int{}
	for _, name := range other {
		count[name]++
	}
	var rest []string
	for _, name := range list {
		if count[name]--; count[name] < 0 {
			rest = append(rest, name)
		}
	}
	return rest
}
