package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// ticketPatience is how long a viewer may take to connect. ticketRest is how long a viewer without a connection may
// take to reconnect. mostTickets is the maximum number of tickets.
const (
	ticketPatience = 2 * time.Minute
	ticketRest     = 30 * time.Second
	mostTickets    = 10_000
	// spicePort is a placeholder in connection files, which need a port. That port is never opened.
	spicePort = "5900"
)

// tickets are the credentials of native viewers. A visitor starts a viewer with a connection file. The file contains a
// ticket as the host name, and this server as the proxy. Any client with the ticket could connect. Therefore a ticket
// is for one viewer, ends with the viewer and the visitor's session, and must be used soon.
//
// See docs/decisions/0069-spice.md.
type tickets struct {
	mu    sync.Mutex
	known map[string]*ticket
}

// A ticket lets a viewer use the screen of a VM.
type ticket struct {
	name  string
	vm    string
	mode  fleet.Mode
	asked *http.Request // request for the file; identifies the visitor
	who   access.Subject

	// Guarded by tickets.mu.
	until    time.Time // deadline for a connection, if there is none
	channels int
}

// issueTicket creates a ticket.
func (t *tickets) issueTicket(r *http.Request, who access.Subject, vm string, mode fleet.Mode, now time.Time,
) (*ticket, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, old := range t.known {
		if old.channels == 0 && !now.Before(old.until) {
			delete(t.known, name)
		}
	}
	if len(t.known) >= mostTickets {
		return nil, errors.New("too many viewers are about to connect")
	}
	if t.known == nil {
		t.known = map[string]*ticket{}
	}
	made := &ticket{
		name: strings.ToLower(rand.Text()), vm: vm, mode: mode, who: who, until: now.Add(ticketPatience),
		asked: r.WithContext(context.WithoutCancel(r.Context())),
	}
	t.known[made.name] = made
	return made, nil
}

// useTicket counts a connection with a ticket; call end when it closes. It returns nil if the ticket is invalid.
func (t *tickets) useTicket(name string, now func() time.Time) (found *ticket, end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found = t.known[name]
	if found == nil || found.channels == 0 && !now().Before(found.until) {
		return nil, nil
	}
	found.channels++
	return found, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		found.channels--
		found.until = now().Add(ticketRest)
	}
}

// getViewer answers with a connection file for a SPICE viewer (remote-viewer(1)).
func (s *Server) getViewer(w http.ResponseWriter, r *http.Request) error {
	mode, verb := fleet.Type, access.AccessConsole
	switch r.URL.Query().Get("mode") {
	case "", string(fleet.Type):
	case string(fleet.Take):
		mode, verb = fleet.Take, access.TakeConsole
	default:
		return errBadForm
	}
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, verb)
	if err != nil {
		return err
	}
	if !vm.SPICE {
		return failure{http.StatusConflict, "error.nospice"}
	}
	t, err := s.tickets.issueTicket(r, v.who, vm.Name, mode, s.opts.Now())
	if err != nil {
		return err
	}
	s.opts.Log.Info("viewer's file made", "user", v.who.User, "vm", vm.Name, "mode", mode)
	forget := 0
	if s.opts.ForgetFile == nil || s.opts.ForgetFile() {
		forget = 1
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-virt-viewer")
	h.Set("Content-Disposition", "attachment; filename=\""+vm.Name+".vv\"") // VM names contain no quotes
	_, err = fmt.Fprintf(w, "[virt-viewer]\ntype=spice\nhost=%s\nport=%s\nproxy=%s://%s\ntitle=%s\ndelete-this-file=%d\n",
		t.name, spicePort, s.opts.Visitors.Scheme(r), r.Host, vm.Name, forget)
	return err
}

// connectViewer serves a viewer that uses this server as a proxy (RFC 9110, section 9.3.6).
func (s *Server) connectViewer(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.Host)
	t, end := s.tickets.useTicket(strings.ToLower(host), s.opts.Now)
	if t == nil {
		http.Error(w, "the file of the viewer has been used or is too old: download it again", http.StatusForbidden)
		return
	}
	defer end()
	if err := s.mayGoOn(r.Context(), t); err != nil {
		_, text := s.explainError(r, err)
		http.Error(w, text, http.StatusForbidden)
		return
	}
	back, err := s.opts.Fleet.SPICE(r.Context(), t.who.User, t.vm, t.name, t.mode)
	if err != nil {
		code, text := s.explainError(r, err)
		s.opts.Log.Info("viewer refused", "user", t.who.User, "vm", t.vm, "err", err)
		http.Error(w, text, code)
		return
	}
	defer back.Close()
	front, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the viewer is gone
	}
	defer front.Close()
	if _, err := io.WriteString(front, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	s.open.screens.Add(1)
	defer s.open.screens.Add(-1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		_ = s.awaitVisitEnd(ctx, t.asked, t.vm, nil)
		_, _ = front.Close(), back.Close()
	}()
	go func() {
		_, _ = io.Copy(&touching{Writer: back, touch: func() { s.opts.Visitors.Touch(t.asked) }}, buffered)
		_, _ = front.Close(), back.Close()
	}()
	_, _ = io.Copy(front, back)
}

// mayGoOn returns an error if the visitor of a ticket may not use the screen now.
func (s *Server) mayGoOn(ctx context.Context, t *ticket) error {
	select {
	case <-s.opts.Visitors.Ended(t.asked):
		return failure{http.StatusForbidden, "login.needed"}
	default:
	}
	vm, err := s.opts.Fleet.Get(t.vm)
	if err != nil {
		return err
	}
	verb := access.AccessConsole
	if t.mode == fleet.Take {
		verb = access.TakeConsole
	}
	if d := s.opts.Visitors.Decide(ctx, s.opts.Visitors.Of(t.asked), verb, vm); !d.Allowed {
		return forbidden{d}
	}
	return nil
}
