package handover

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"vmop/printable"
	"vmop/qmp"
)

// A Screen is where clients of SPICE reach the target.
type Screen struct {
	// Host is a name or an IP address, Port one of TCP.
	Host string `json:"host"`
	Port int    `json:"port"`
}

// isAddress reports whether it can be an address, which is passed on to all clients.
func (s *Screen) isAddress() bool {
	return s != nil && s.Host != "" && len(s.Host) < 256 && s.Port > 0 && s.Port < 1<<16 &&
		strings.Trim(s.Host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:%_-") == ""
}

// leaveTime is how long a source's QEMU stays for clients of SPICE that go to the target: what they were doing is in
// what it sends them.
const leaveTime = 5 * time.Second

// directViewers has QEMU send its clients of SPICE to the target when the guest continues there. Those that can
// connect there beforehand do it from now on.
//
// See docs/decisions/0145-viewers-of-a-guest-that-moves.md.
func (s *Source) directViewers(ctx context.Context) {
	if s.screen == nil || !s.cfg.SPICE {
		return
	}
	err := command(ctx, s.machine, qmp.Command{Execute: "client_migrate_info", Arguments: members{
		"protocol": "spice", "hostname": s.screen.Host, "port": s.screen.Port,
	}})
	if err != nil {
		s.log.Warn("migration: the clients of SPICE have to find the target themselves",
			"host", printable.Line(s.screen.Host), "err", err)
		return
	}
	s.directed = true
}

// awaitViewers returns when the clients of SPICE have gone to the target, or had the time.
func (s *Source) awaitViewers(ctx context.Context) {
	if !s.directed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	for {
		var screen struct{ Migrated bool }
		reply, err := s.machine.Command(ctx, qmp.Command{Execute: "query-spice"})
		if err != nil || json.Unmarshal(reply, &screen) != nil || screen.Migrated {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(endPause):
		}
	}
}
