package runner

import (
	"slices"
	"strings"
	"unicode"
)

// Bounds of an audience.
const (
	maxClients   = 256 // that are known
	maxUndecided = 64  // of these, that have not logged in
	maxShown     = 32  // that the status lists
)

// An audience is the clients of one display protocol: those that have logged
// in, in the order they came. A client's name is its address; those without a
// name can only be counted.
type audience struct {
	clients []client
	cut     bool // there were more than are known
	told    []string
}

type client struct {
	name string
	// linked counts connections, looking those of them that have logged in.
	linked, looking int
}

func (a *audience) find(name string) int {
	return slices.IndexFunc(a.clients, func(c client) bool { return c.name == name })
}

func (a *audience) add(c client) {
	if len(a.clients) == maxClients {
		a.cut = true
		return
	}
	a.clients = append(a.clients, c)
}

// connected notes a connection that has not logged in. It is remembered, so that
// it isn't taken for more when QEMU is asked for all; of very many some aren't.
func (a *audience) connected(name string) {
	undecided := 0
	for i := range a.clients {
		c := &a.clients[i]
		if c.name == name {
			if name == "" {
				c.linked++
			}
			return
		}
		if c.looking == 0 {
			undecided++
		}
	}
	if undecided < maxUndecided {
		a.add(client{name: name, linked: 1})
	}
}

// initialized notes that a client has logged in.
func (a *audience) initialized(name string) {
	i := a.find(name)
	if i < 0 {
		a.add(client{name, 1, 1})
		return
	}
	c := &a.clients[i]
	if c.looking == 0 || name == "" {
		c.looking++
	}
	c.linked = max(c.linked, c.looking)
}

// gone notes the end of a connection. Of those without a name it is taken for
// one that has not logged in, if there is any: most give up at once.
func (a *audience) gone(name string) {
	i := a.find(name)
	if i < 0 {
		return
	}
	c := &a.clients[i]
	c.linked--
	c.looking = min(c.looking, c.linked)
	if c.linked == 0 {
		a.clients = slices.Delete(a.clients, i, i+1)
	}
}

// replace puts the clients that are really there in the place of those that are
// known. QEMU doesn't say of all whether they have logged in: those that were not
// known have.
func (a *audience) replace(names []string) {
	a.cut = false
	count := map[string]int{}
	for _, name := range names {
		count[name]++
	}
	a.clients = slices.DeleteFunc(a.clients, func(c client) bool { return count[c.name] == 0 })
	for i := range a.clients {
		c := &a.clients[i]
		undecided := c.linked - c.looking
		c.linked = count[c.name]
		c.looking = max(c.linked-undecided, 0)
		delete(count, c.name)
	}
	for _, name := range names {
		if n := count[name]; n > 0 {
			a.add(client{name, n, n})
			delete(count, name)
		}
	}
}

// news returns the clients that have come to the list that is shown, and those
// that have left it, since it was asked last.
func (a *audience) news() (came, went []string) {
	shown := a.shown()
	came, went = without(shown, a.told), without(a.told, shown)
	a.told = shown
	return came, went
}

// shown lists the first that look.
func (a *audience) shown() []string {
	var names []string
	for _, c := range a.clients {
		for range min(c.looking, maxShown-len(names)) {
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

// printable replaces what would disturb a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
