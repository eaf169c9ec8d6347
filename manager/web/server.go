package web

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/language"

	"vmop/docs/site"
	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// Options are what a server needs.
type Options struct {
	// Fleet has the VMs.
	Fleet fleet.Fleet
	// Visitors says who makes a request, and what they may do.
	Visitors Visitors
	// Title is above all pages: the cluster and namespace, or the name of the computer.
	Title string
	// Version of the program.
	Version string
	// LogOut reports whether visitors can log out.
	LogOut bool
	// FirstStep is what makes a first VM: a command.
	FirstStep string
	// Restart is the command that serves the pages again when they have ended; "": it isn't the visitor's.
	Restart string
	// ForgetFile reports whether viewers delete the file by which they were started; nil: they do.
	ForgetFile func() bool
	// Log takes actions and failures.
	Log *slog.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Visitors knows who makes requests.
type Visitors interface {
	// Handler serves pages to visitors that have logged in, and lets others log in, by
	// pages that look like the server's.
	Handler(s *Server, pages http.Handler) http.Handler
	// Of returns who makes a request that Handler has passed on; a subject without a name
	// if it has not.
	Of(r *http.Request) access.Subject
	// Decide reports whether a visitor may do something with a VM.
	Decide(ctx context.Context, who access.Subject, verb access.Verb, vm *fleet.VM) access.Decision
	// DecidePool reports whether a visitor may do something with a pool, by its name.
	DecidePool(ctx context.Context, who access.Subject, verb access.Verb, pool string) access.Decision
	// MayUse reports whether a visitor may use a page.
	MayUse(who access.Subject, page access.Page) bool
	// HasPageKey reports whether a request shows that it comes from a script or a form of the visitor's pages, and not
	// from someone who has only the visitor's cookie.
	HasPageKey(r *http.Request) bool
	// Ended returns a channel that is closed when the visitor's session ends.
	Ended(r *http.Request) <-chan struct{}
	// Check looks again whether the session may last, as that of a token that has been deleted
	// may not; streams call it every minute.
	Check(r *http.Request)
	// Scheme returns how the visitor's browser has reached the pages: http or https.
	Scheme(r *http.Request) string
	// Touch notes that the visitor does something without a request, such as typing.
	Touch(r *http.Request)
}

// A Server serves the pages. Its methods may be called concurrently.
type Server struct {
	opts      Options
	tongues   []*tongue
	matcher   language.Matcher
	templates *template.Template
	handler   http.Handler
	static    *assets
	documents func() (*site.Site, error)
	series    series
	pictures  pictures
	tickets   tickets
	open      openCounts
	transfers transfers
}

// New returns a server. It serves until the program ends; Run keeps its charts.
func New(opts Options) (*Server, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	tongues, err := readTongues()
	if err != nil {
		return nil, err
	}
	static, err := readAssets()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts, tongues: tongues, matcher: language.NewMatcher(languages), static: static,
		documents: sync.OnceValues(readDocuments), transfers: newTransfers(),
	}
	if s.templates, err = parseTemplates(); err != nil {
		return nil, err
	}
	s.handler = s.allRoutes()
	return s, nil
}

// Run records what the VMs use, for charts, until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(seriesStep)
	defer tick.Stop()
	for {
		changed := s.opts.Fleet.Changed()
		s.series.addPoint(s.opts.Now(), s.opts.Fleet.Used())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-changed:
			pauseFor(ctx, time.Second) // changes come in crowds
		}
	}
}

// pauseFor waits for a time, or until ctx is done.
func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// ServeHTTP implements http.Handler. For viewers it is a proxy that leads to screens only.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		s.connectViewer(w, r)
		return
	}
	s.handler.ServeHTTP(w, r)
}

// allRoutes returns the handler of all addresses.
func (s *Server) allRoutes() http.Handler {
	inner := http.NewServeMux()
	page := func(pattern string, serve pageFunc) { inner.HandleFunc(pattern, s.handlePage(serve)) }
	page("GET /{$}", s.getHome)
	page("GET /portal", s.forPage(access.PagePortal, s.getPortal))
	page("GET /vms/{vm}", s.forPage(access.PageVMs, s.getVM))
	page("GET /vms/{vm}/screen", s.getScreen)
	page("GET /vms/{vm}/console", s.getConsole)
	page("GET /vms/{vm}/viewer.vv", s.getViewer)
	page("GET /vms/{vm}/screen/stream", s.streamScreen)
	page("GET /vms/{vm}/console/stream", s.streamConsole)
	page("GET /vms/{vm}/screenshot", s.getScreenshot)
	page("GET /vms/{vm}/plan", s.forPage(access.PageVMs, s.getPlan))
	page("GET /vms/{vm}/source", s.forPage(access.PageVMs, s.getSource))
	page("GET /vms/{vm}/usage", s.forPage(access.PageVMs, s.getUsage))
	page("GET /vms/{vm}/definition", s.forPage(access.PageVMs, s.getDefinition))
	page("GET /vms/{vm}/edit", s.forPage(access.PageVMs, s.getEdit))
	page("GET /vms/{vm}/delete", s.forPage(access.PageVMs, s.getDelete))
	page("GET /new", s.forPage(access.PageVMs, s.getNew))
	page("GET /live", s.getLive)
	page("POST /vms/{vm}/do", s.postAction)
	page("POST /vms/{vm}/size", s.postSize)
	page("POST /vms/{vm}/medium", s.postMedium)
	page("POST /vms/{vm}/edit", s.forPage(access.PageVMs, s.postEdit))
	page("POST /vms/{vm}/delete", s.forPage(access.PageVMs, s.postDelete))
	page("POST /new", s.forPage(access.PageVMs, s.postNew))
	page("POST /do", s.postActions)
	page("POST /language", s.postLanguage)
	page("GET /about", s.getAbout)
	page("/", func(_ http.ResponseWriter, r *http.Request) error {
		if isAPI(r) {
			return errNoRoute
		}
		return errNoPage
	})
	for pattern, serve := range s.diskRoutes() {
		page(pattern, s.forPage(access.PageVMs, serve))
	}
	for _, routes := range []map[string]pageFunc{s.helpRoutes(), s.poolRoutes(), s.apiRoutes()} {
		for pattern, serve := range routes {
			page(pattern, serve)
		}
	}

	outer := http.NewServeMux()
	outer.Handle("GET /static/", s.static)
	outer.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.static.assetPath("icon.svg"), http.StatusFound)
	})
	outer.Handle("/", s.opts.Visitors.Handler(s, compressPages(inner)))
	return s.guardRequests(outer)
}

// policy is what a page may load (Content-Security-Policy): nothing of another host, and no
// script or style in the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// hsts has browsers use https for a year, whatever a link says (RFC 6797): a first request by http
// could be answered by anyone on the way, with a page that asks for the password.
const hsts = "max-age=31536000"

// guardRequests adds the headers for safety, and refuses changes that other sites request.
func (s *Server) guardRequests(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.answerError(w, r, errForeign)
	}))
	next = foreign.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.TLS != nil { // it is the matter of a proxy that has the certificate
			h.Set("Strict-Transport-Security", hsts)
		}
		next.ServeHTTP(w, r)
	})
}

// handlePage returns the handler of a page: it requires the page key where that is needed, and answers with errors.
func (s *Server) handlePage(serve pageFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := s.checkPageKey(w, r)
		if err == nil {
			err = serve(w, r)
		}
		if err != nil {
			s.answerError(w, r, err)
		}
	}
}

// checkPageKey returns an error if a request acts for its visitor, or shows a screen, with a cookie alone.
func (s *Server) checkPageKey(w http.ResponseWriter, r *http.Request) error {
	if !actsForVisitor(r) || s.opts.Visitors.HasPageKey(r) {
		return nil
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		if err := parseForm(w, r); err != nil {
			return err
		}
		if s.opts.Visitors.HasPageKey(r) {
			return nil
		}
	}
	return errNoPageKey
}

// actsForVisitor reports whether a request, which the pages have matched, does more than show a page. A download of a
// disk doesn't: it names an export, which a request with the page key has begun.
func actsForVisitor(r *http.Request) bool {
	switch r.Pattern {
	case "GET /vms/{vm}/screen/stream", "GET /vms/{vm}/console/stream", "GET /vms/{vm}/screenshot",
		"GET /vms/{vm}/viewer.vv":
		return true
	case "GET /api/v1/disks/{kind}/{disk}/data":
		return false
	}
	return isAPI(r) || r.Method != http.MethodGet && r.Method != http.MethodHead
}

// A failure is an error with its code of HTTP and its text in the catalogues.
type failure struct {
	code int
	key  string
}

func (f failure) Error() string { return f.key }

var (
	errNoPage      = failure{http.StatusNotFound, "error.nopage"}
	errNoVM        = failure{http.StatusNotFound, "error.novm"}
	errNoPool      = failure{http.StatusNotFound, "error.nopool"}
	errNoDisk      = failure{http.StatusNotFound, "error.nodisk"}
	errForeign     = failure{http.StatusForbidden, "error.foreign"}
	errNotYourPage = failure{http.StatusForbidden, "error.notyourpage"}
	errBadForm     = failure{http.StatusBadRequest, "error.badform"}
	errChanged     = failure{http.StatusConflict, "error.changed"}
	errNoLogIn     = failure{http.StatusUnauthorized, "login.needed"}
	errNoPageKey   = failure{http.StatusForbidden, "login.pagekey"}
)

// A forbidden is why a visitor may not do something.
type forbidden struct{ access.Decision }

func (f forbidden) Error() string { return f.Reason.String() }

// explainError returns the code of HTTP and the text of an error.
func (s *Server) explainError(r *http.Request, err error) (code int, text string) {
	lang := s.tongueOf(r)
	var f failure
	var no forbidden
	var refusal fleet.Refusal
	var e refused
	switch {
	case errors.As(err, &f):
		return f.code, lang.textOf(f.key)
	case errors.As(err, &e):
		return e.code, e.text
	case errors.As(err, &no):
		return http.StatusForbidden, lang.reasonText(no.Decision)
	case errors.Is(err, fleet.ErrNotFound):
		return errNoVM.code, lang.textOf(errNoVM.key)
	case errors.Is(err, fleet.ErrChanged):
		return errChanged.code, lang.textOf(errChanged.key)
	case errors.Is(err, fleet.ErrOccupied):
		return http.StatusLocked, err.Error()
	case errors.Is(err, fleet.ErrExists), errors.As(err, new(fleet.Leftover)):
		return http.StatusConflict, err.Error()
	case errors.As(err, new(fleet.Faults)):
		return http.StatusUnprocessableEntity, err.Error()
	case errors.As(err, &refusal):
		return http.StatusConflict, string(refusal)
	case errors.As(err, new(fleet.NotYet)):
		return http.StatusServiceUnavailable, err.Error()
	}
	return http.StatusBadGateway, err.Error()
}

// errorView is the page of an error.
type errorView struct {
	frame
	Heading, Text string
}

// answerError answers with an error: a page for people, a text for scripts.
func (s *Server) answerError(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client has gone
	}
	code, text := s.explainError(r, err)
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "2")
	} else if code >= http.StatusInternalServerError {
		s.opts.Log.Warn("request failed", "path", r.URL.Path, "err", err)
	}
	switch {
	case isAPI(r):
		failAPI(w, code, text, err)
		return
	case fromScript(r):
		http.Error(w, text, code)
		return
	}
	v := s.visitOf(r)
	heading := "error.failed"
	switch code {
	case http.StatusNotFound:
		heading = "error.notfound"
	case http.StatusForbidden:
		heading = "error.forbidden"
	case http.StatusConflict:
		heading = "error.conflict"
	}
	err = s.showPage(w, code, "error", errorView{frame: v.newFrame(v.T(heading)), Heading: heading, Text: text})
	if err != nil {
		http.Error(w, text, code)
	}
}

// fromScript reports whether a script of ours, or a program, has made a request: those
// want no page for an answer.
func fromScript(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Mode") != "navigate" }
