package web

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"net/http"
	"strings"
	"time"

	"vmop/manager/web/fleet"
)

// A part is a part of a page: an HTML element with an id.
type part struct {
	id   string
	html []byte
	// children are its child elements with ids. While their ids and order stay the same, only changed children are
	// sent.
	children []part
}

// joinChildren returns the children within an element.
func (p part) joinChildren(begin, end string) []byte {
	html := []byte(begin)
	for _, c := range p.children {
		html = append(html, c.html...)
	}
	return append(html, end...)
}

// Timing of the streams of changes.
const (
	liveStep  = 100 * time.Millisecond // minimum between two looks at the VMs
	livePing  = 15 * time.Second       // keeps the stream alive for proxies and programs
	pagePing  = 5 * time.Second        // keeps the stream alive for pages: see page.ts
	liveSlow  = 30 * time.Second       // time limit for a browser to accept data
	liveCheck = time.Minute            // how often to check permissions without a change
)

// A watched is what a stream keeps current.
type watched struct {
	// parts renders the parts of the page; nil for the stream of a program.
	parts func() ([]part, error)
	// news delivers the events of the page's VM, and events is the latest list; both are nil if the page is not about a
	// VM. end stops the delivery.
	news   <-chan []fleet.Event
	events []fleet.Event
	end    func()
}

// getLive streams the changed parts of a page as server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html). Each event "parts" contains elements that replace
// the elements with the same ids. A new or resumed stream begins with all parts, even if the page already shows them.
func (s *Server) getLive(w http.ResponseWriter, r *http.Request) error {
	view := s.liveView(r)
	end, out := s.beginEvents(w)
	defer end()
	defer view.end()
	sent := sentParts{seed: maphash.MakeSeed(), hashes: map[string]uint64{}}
	ended := s.opts.Visitors.Ended(r)
	ping := time.NewTicker(pagePing)
	defer ping.Stop()
	for first := true; ; first = false {
		changed, looked := s.opts.Fleet.Changed(), time.Now()
		parts, err := view.parts()
		_ = out.SetWriteDeadline(time.Now().Add(liveSlow)) // an error shows up at the next write
		if err != nil {
			_ = writeEvent(w, "gone", nil) // the page reloads, and shows the reason
			return out.Flush()
		}
		if fresh := sent.freshParts(parts); len(fresh) > 0 || first {
			_ = writeEvent(w, "parts", bytes.Join(fresh, nil)) // Flush returns the error
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if !s.waitForChange(r, view, looked, changed, ended, ping.C, w) {
			return nil
		}
	}
}

// waitForChange waits until the VMs, or perhaps permissions, have changed. It returns false when the stream must end.
// looked is when the VMs were last looked at.
func (s *Server) waitForChange(r *http.Request, view *watched, looked time.Time, changed, ended <-chan struct{},
	ping <-chan time.Time, w http.ResponseWriter,
) bool {
	check := time.NewTimer(liveCheck)
	defer check.Stop()
	for {
		select {
		case <-r.Context().Done():
			return false
		case <-ended:
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(liveSlow))
			_ = writeEvent(w, "gone", nil)
			_ = http.NewResponseController(w).Flush()
			return false
		case <-changed:
			pauseFor(r.Context(), liveStep-time.Since(looked)) // so the first of several changes shows immediately
			return true
		case view.events = <-view.news:
			pauseFor(r.Context(), liveStep-time.Since(looked))
			return true
		case <-check.C:
			s.opts.Visitors.Check(r)
			return true
		case <-ping:
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(liveSlow))
			if view.parts == nil {
				fmt.Fprint(w, ": ping\n\n")
			} else {
				_ = writeEvent(w, "alive", nil) // scripts don't see comments
			}
			if http.NewResponseController(w).Flush() != nil {
				return false
			}
		}
	}
}

// writeEvent writes an event. Its data may have several lines.
func writeEvent(w http.ResponseWriter, name string, data []byte) error {
	_, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, strings.ReplaceAll(strings.TrimSpace(string(data)), "\n",
		"\ndata: "))
	return err
}

// beginEvents begins a stream of server-sent events. Call end at its end.
func (s *Server) beginEvents(w http.ResponseWriter) (end func(), out *http.ResponseController) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // prevents buffering in nginx
	out = http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // removes the server's limit for pages
	s.open.pages.Add(1)
	return func() { s.open.pages.Add(-1) }, out
}

// sentParts contains hashes of what a page shows.
type sentParts struct {
	seed   maphash.Seed
	hashes map[string]uint64
}

// freshParts returns the parts that differ from what was sent.
func (p *sentParts) freshParts(parts []part) [][]byte {
	now := make(map[string]uint64, len(parts))
	fresh := p.changedParts(parts, now)
	p.hashes = now
	return fresh
}

func (p *sentParts) changedParts(parts []part, now map[string]uint64) [][]byte {
	var fresh [][]byte
	for _, part := range parts {
		var hash maphash.Hash
		hash.SetSeed(p.seed)
		if len(part.children) == 0 {
			_, _ = hash.Write(part.html) // never fails
		}
		for _, c := range part.children {
			_, _ = hash.WriteString(c.id + "\n")
		}
		now[part.id] = hash.Sum64()
		changed := p.changedParts(part.children, now)
		switch old, known := p.hashes[part.id]; {
		case !known || old != now[part.id]:
			fresh = append(fresh, part.html)
		default:
			fresh = append(fresh, changed...)
		}
	}
	return fresh
}
