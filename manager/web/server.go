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

// Options configure a Server.
type Options struct {
	// Fleet contains the VMs.
	Fleet fleet.Fleet
	// Visitors identifies visitors and makes access decisions.
	Visitors Visitors
	// Title is shown on all pages: the cluster and namespace, or the name of the computer.
	Title string
	// Version of the program.
	Version string
	// OneUser reports that the VMs belong to one user, as on a computer. Pages then omit what several users need: the
	// users' own page, columns of nodes and users, and the log-out, because a link begins each session. See
	// docs/decisions/0205-pages-of-one-user.md.
	OneUser bool
	// FirstStep is a command that creates a first VM.
	FirstStep string
	// Restart is the command that serves the pages again after they have ended; "" if visitors can't run it.
	Restart string
	// ForgetFile reports whether native viewers delete their connection file after they have started; nil means that
	// they do.
	ForgetFile func() bool
	// Log receives actions and errors.
	Log *slog.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Visitors identifies the visitors of pages, and makes access decisions.
type Visitors interface {
	// Handler serves pages to logged-in visitors. For others it serves login pages in the server's style.
	Handler(s *Server, pages http.Handler) http.Handler
	// Of returns the visitor of a request that Handler has passed on; for other requests, a subject without a name.
	Of(r *http.Request) access.Subject
	// Decide decides whether a visitor has a permission for a VM.
	Decide(ctx context.Context, who access.Subject, verb access.Verb, vm *fleet.VM) access.Decision
	// DecidePool decides whether a visitor has a permission for a pool, by name.
	DecidePool(ctx context.Context, who access.Subject, verb access.Verb, pool string) access.Decision
	// MayUse reports whether a visitor may use a page.
	MayUse(who access.Subject, page access.Page) bool
	// HasPageKey reports whether a request comes from a script or form of the visitor's pages. A client with only the
	// visitor's cookie has no page key.
	HasPageKey(r *http.Request) bool
	// Ended returns a channel that is closed when the visitor's session ends.
	Ended(r *http.Request) <-chan struct{}
	// Check checks whether the session is still valid; for example, its token may have been deleted. Streams call it
	// every minute.
	Check(r *http.Request)
	// Scheme returns the scheme that the visitor's browser uses for the pages: http or https.
	Scheme(r *http.Request) string
	// Touch records that the visitor is active without a request, such as by typing.
	Touch(r *http.Request)
}

// A Server serves the pages. Its methods are safe for concurrent use.
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

// New returns a server. It serves until the program ends; Run records the data for its charts.
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

// Run records the total use of the VMs for charts, until ctx is done.
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
			pauseFor(ctx, time.Second) // changes come in bursts
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

// ServeHTTP implements http.Handler. For native viewers it is a proxy that connects only to screens.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		s.connectViewer(w, r)
		return
	}
	s.handler.ServeHTTP(w, r)
}

// allRoutes returns the handler for all addresses.
func (s *Server) allRoutes() http.Handler {
	inner := http.NewServeMux()
	page := func(pattern string, serve pageFunc) { inner.HandleFunc(pattern, s.handlePage(serve)) }
	page("GET /{$}", s.getHome)
	if !s.opts.OneUser {
		page("GET /portal", s.forPage(access.PagePortal, s.getPortal))
	}
	page("GET /vms/{vm}", s.tabPage("overview", "vm"))
	page("GET /vms/{vm}/disks", s.tabPage("disks", "vmdiskstab"))
	page("GET /vms/{vm}/network", s.tabPage("network", "vmnetworktab"))
	page("GET /vms/{vm}/history", s.tabPage("history", "vmhistorytab"))
	page("GET /vms/{vm}/screen/page", s.windowPage("screen"))
	page("GET /vms/{vm}/console/page", s.windowPage("console"))
	page("GET /vms/{vm}/screen", s.getScreen)
	page("GET /vms/{vm}/console", s.getConsole)
	page("GET /vms/{vm}/viewer.vv", s.getViewer)
	page("GET /vms/{vm}/screen/stream", s.streamScreen)
	page("GET /vms/{vm}/console/stream", s.streamConsole)
	page("GET /vms/{vm}/screenshot", s.getScreenshot)
	page("GET /vms/{vm}/plan", s.forPage(access.PageVMs, s.getPlan))
	page("GET /vms/{vm}/devices", s.forPage(access.PageVMs, s.getDevices))
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

// policy is the Content-Security-Policy of pages: nothing from other hosts, and no inline scripts or styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// hsts makes browsers use https for a year (RFC 6797). An attacker could answer a request over http with a fake login
// page.
const hsts = "max-age=31536000"

// guardRequests adds security headers, and refuses cross-site changes.
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
		if r.TLS != nil { // otherwise left to the proxy with the certificate
			h.Set("Strict-Transport-Security", hsts)
		}
		next.ServeHTTP(w, r)
	})
}

// handlePage returns the handler of a page. It requires the page key where necessary, and answers with errors.
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

// checkPageKey returns an error if a request that acts for its visitor, or shows a screen, has only a cookie.
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

// actsForVisitor reports whether a routed request does more than show a page. A download of a disk doesn't: it names an
// export that a request with the page key has begun.
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

// A failure is an error with an HTTP status code and a text in the catalogs.
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

// A forbidden is an access decision against the visitor.
type forbidden struct{ access.Decision }

func (f forbidden) Error() string { return f.Reason.String() }

// explainError returns the HTTP status code and the text of an error.
func (s *Server) explainError(r *http.Request, err error) (code int, text string) {
	lang := s.tongueOf(r)
	var f failure
	var no forbidden
	var refusal fleet.Refusal
	var e refused
	switch {
	case errors.Is(err, errNoPageKey) && s.opts.OneUser:
		return errNoPageKey.code, lang.textOf("login.pagekey.link")
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

// errorView is an error page.
type errorView struct {
	frame
	Heading, Text string
}

// answerError answers with an error: a page for people, a text for scripts, JSON for the JSON interface.
func (s *Server) answerError(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client is gone
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

// fromScript reports whether a script of our pages, or a program, made a request. It needs no page as an answer.
func fromScript(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Mode") != "navigate" }
