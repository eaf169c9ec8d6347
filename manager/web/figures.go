package web

import "sync/atomic"

// openCounts count what is open.
type openCounts struct{ pages, screens, consoles, ports atomic.Int64 }

// Figures are what is open now, for metrics.
type Figures struct {
	// Pages, and events of programs, that are kept current; Screens, Consoles and ports of guests that are connected.
	Pages, Screens, Consoles, Ports int64
}

// Figures returns the counts.
func (s *Server) Figures() Figures {
	return Figures{
		Pages: s.open.pages.Load(), Screens: s.open.screens.Load(), Consoles: s.open.consoles.Load(),
		Ports: s.open.ports.Load(),
	}
}
