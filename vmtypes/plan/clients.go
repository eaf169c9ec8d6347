package plan

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"vmop/internal/spelling"
)

// CheckClients returns an error for each character device that connects to a unix socket in a folder, if no process
// serves the socket. Only processes of the plan can serve sockets in the folder: it is the runner's runtime directory.
func (p *Plan) CheckClients(folder string) []Fault {
	c, clients := &checker{plan: p}, []client{}
	served, unknown := map[string]bool{}, false
	for _, l := range p.Listeners {
		served[l.Path] = true
	}
	for i := range p.QEMU.Args {
		if !strings.HasSuffix(p.QEMU.Args[i].Flag, "-chardev") {
			continue
		}
		o := p.QEMU.Args[i].Structured()
		e, _, err := o.Endpoint()
		switch {
		case err != nil:
			unknown = true
		case e.Server:
			served[e.Path] = true
		case !e.Abstract && filepath.Dir(e.Path) == folder && !waitsForServer(&o) && len(clients) < maxClients:
			clients = append(clients, client{o, e.Path})
		}
	}
	for _, one := range clients {
		if !unknown && !served[one.path] && !p.helperServes(one.path) {
			c.addFault(one.option.Origin, "%s: it connects to %s, but no helper and no listener serves this socket; %s",
				shortName(&one.option), one.path, c.suggestSocket(one.path, slices.Sorted(maps.Keys(served))))
		}
	}
	return c.faults
}

// A client is a character device that connects to a socket.
type client struct {
	option Option
	path   string
}

// waitsForServer reports whether a client tries again if no process serves its socket.
func waitsForServer(o *Option) bool {
	seconds, given := o.lastValue("reconnect")
	_, inMilliseconds := o.lastValue("reconnect-ms")
	return given && seconds != "0" || inMilliseconds
}

// helperServes reports whether a helper could serve a socket: its arguments or variables contain the name of the
// socket, or end with its folder.
func (p *Plan) helperServes(path string) bool {
	folder, name := filepath.Dir(path), filepath.Base(path)
	for _, h := range p.Helpers {
		words := append(h.Argv(), h.Ready)
		for _, v := range h.Env {
			words = append(words, v.Value)
		}
		for _, word := range words {
			if strings.Contains(word, name) || strings.HasSuffix(strings.TrimSuffix(word, "/"), folder) {
				return true
			}
		}
	}
	return false
}

// suggestSocket returns a remedy for a client of a socket that no process serves.
func (c *checker) suggestSocket(path string, known []string) string {
	for _, h := range c.plan.Helpers {
		known = append(known, h.Ready)
	}
	if near := spelling.Nearest(path, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "give the path to the helper that serves it, or use a listener: listen(name, path)"
}
