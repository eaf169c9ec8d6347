package handover

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"vmop/internal/printable"
	"vmop/qmp"
)

// A Screen is the address where SPICE clients reach the target.
type Screen struct {
	// Host is a host name or an IP address, and Port a TCP port.
	Host string `json:"host"`
	Port int    `json:"port"`
}

// isAddress reports whether the screen can be an address. It is passed on to all clients.
func (s *Screen) isAddress() bool {
	return s != nil && s.Host != "" && len(s.Host) < 256 && s.Port > 0 && s.Port < 1<<16 &&
		strings.Trim(s.Host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:%_-") == ""
}

// leaveTime is how long the source's QEMU stays for SPICE clients that move to the target. It still sends them
// data about their activity.
const leaveTime = 5 * time.Second

// directViewers makes QEMU send its SPICE clients to the target when the guest continues there. Clients that can
// connect in advance do so from now on.
//
// See docs/decisions/0145-viewers-of-a-guest-that-moves.md.
func (s *Source) directViewers(ctx context.Context) {
	if s.screen == nil || !s.cfg.SPICE {
		return
	}
	err := runCommand(ctx, s.machine, qmp.Command{Execute: "client_migrate_info", Arguments: members{
		"protocol": "spice", "hostname": s.screen.Host, "port": s.screen.Port,
	}})
	if err != nil {
		s.log.Warn("migration: the clients of SPICE have to find the target themselves",
			"host", printable.Line(s.screen.Host), "err", err)
		return
	}
	s.directed = true
}

// awaitViewers returns when the SPICE clients have moved to the target, or after leaveTime.
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
