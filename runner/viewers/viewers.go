// Package viewers keeps the list of those who watch a VM's screen by one
// display protocol: those that have logged in, in the order they came.
//
// It does no I/O. QEMU's events say who connects, logs in and disconnects;
// where some may have been lost, Replace takes what QEMU answers when it is
// asked for all.
package viewers

import "slices"

// Bounds of a list.
const (
	maxClients   = 256 // that are known
	maxUndecided = 64  // of these, that have not logged in
	maxShown     = 32  // that the status lists
)

// A List is the clients of one display protocol. A client's name is its
// address; those without a name can only be counted. Its zero value is empty.
type List struct {
	clients  []client
	overflow bool
	reported []string
}

type client struct {
	name string
	// connected counts connections, viewing those of them that have logged in.
	connected, viewing int
}

// Overflowed reports whether there were more clients than the list can hold
// since Replace was called last.
func (l *List) Overflowed() bool { return l.overflow }

func (l *List) find(name string) int {
	return slices.IndexFunc(l.clients, func(c client) bool { return c.name == name })
}

func (l *List) add(c client) {
	if len(l.clients) == maxClients {
		l.overflow = true
		return
	}
	l.clients = append(l.clients, c)
}

// Connected records a connection that has not logged in. It is remembered, so
// that Replace does not take it for a viewer; of very many some are not.
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
		l.add(client{name: name, connected: 1})
	}
}

// LoggedIn records that a client has logged in.
func (l *List) LoggedIn(name string) {
	i := l.find(name)
	if i < 0 {
		l.add(client{name, 1, 1})
		return
	}
	c := &l.clients[i]
	if c.viewing == 0 || name == "" {
		c.viewing++
	}
	c.connected = max(c.connected, c.viewing)
}

// Disconnected records the end of a connection. Of those without a name it is
// taken for one that has not logged in, if there is any: most give up at once.
func (l *List) Disconnected(name string) {
	i := l.find(name)
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

// Replace makes the list that of the clients that are really connected. QEMU
// does not say of all whether they have logged in: those that were not known
// count as viewers.
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
			l.add(client{name, n, n})
			delete(count, name)
		}
	}
}

// Changes returns the clients that were added to the list that is shown, and
// those that left it, since it was called last.
func (l *List) Changes() (came, left []string) {
	shown := l.Shown()
	came, left = without(shown, l.reported), without(l.reported, shown)
	l.reported = shown
	return came, left
}

// Shown returns the first viewers, at most 32; a name is there once for each of
// its connections.
func (l *List) Shown() []string {
	var names []string
	for _, c := range l.clients {
		for range min(c.viewing, maxShown-len(names)) {
			names = append(names, c.name)
		}
	}
	return names
}

// without returns what is in a list more often than in another, in its order.
func without(list, other []string) []string {
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
