package netsetup

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
)

// resolver contains what a VM needs to resolve names as the namespace does.
type resolver struct {
	servers []netip.Addr // IPv4, in order
	search  []string     // domains without a closing dot
}

// readResolver reads /etc/resolv.conf below root. If that file lists only loopback servers, readResolver uses
// systemd-resolved's list of upstream servers (systemd-resolved.service(8)). A missing file means an empty list.
func readResolver(root fs.FS) (resolver, error) {
	var found resolver
	for _, name := range []string{"etc/resolv.conf", "run/systemd/resolve/resolv.conf"} {
		text, err := fs.ReadFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return resolver{}, fmt.Errorf("read the name servers: %w", err)
		}
		found = parseResolver(string(text))
		if len(found.servers) > 0 {
			break
		}
	}
	return found, nil
}

// parseResolver parses the format of resolv.conf(5). It leaves out servers that a VM behind a masquerade cannot
// reach: loopback addresses and IPv6.
func parseResolver(text string) resolver {
	var r resolver
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			server, err := netip.ParseAddr(fields[1])
			if err == nil && server.Is4() && !server.IsLoopback() && !server.IsUnspecified() {
				r.servers = append(r.servers, server)
			}
		case "domain", "search": // the last one wins
			r.search = nil
			for _, domain := range fields[1:] {
				if domain = strings.TrimSuffix(domain, "."); domain != "" {
					r.search = append(r.search, domain)
				}
			}
		}
	}
	return r
}
