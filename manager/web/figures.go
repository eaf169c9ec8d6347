package web

import "sync/atomic"

// openCounts counts open pages and connections.
type openCounts struct{ pages, screens, consoles, ports atomic.Int64 }

// Figures are counts for metrics.
type Figures struct {
	// Pages counts the streams that keep pages and programs current. Screens, Consoles and Ports count connections.
	Pages, Screens, Consoles, Ports int64
}

// Figures returns the counts.
func (s *Server) Figures() Figures {
	return Figures{
		Pages: s.open.pages.Load(), Screens: s.open.screens.Load(), Consoles: s.open.consoles.Load(),
		Ports: s.open.ports.Load(),
	}
}
