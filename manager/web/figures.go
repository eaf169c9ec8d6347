package web

import "sync/atomic"

// openCounts count what is open.
type openCounts struct{ pages, screens, consoles atomic.Int64 }

// Figures are what is open now, for metrics.
type Figures struct {
	// Pages that are kept current; Screens and Consoles that are connected.
	Pages, Screens, Consoles int64
}

// Figures returns the counts.
func (s *Server) Figures() Figures {
	return Figures{Pages: s.open.pages.Load(), Screens: s.open.screens.Load(), Consoles: s.open.consoles.Load()}
}
