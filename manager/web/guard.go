package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"vmop/manager/access"
	"vmop/manager/access/login"
	"vmop/manager/web/fleet"
)

// Guard implements Visitors for a manager. Visitors log in with package login; package access decides about
// permissions.
type Guard struct {
	Login *login.Service
	// Access returns the current authorizer.
	Access func() access.Authorizer
	// Rights returns the input for access decisions about a VM.
	Rights func(vm *fleet.VM) access.VM
	// PoolRights returns the input for access decisions about a pool; nil means that there are no pools.
	PoolRights func(pool string) access.Pool
	// Callback returns the path to which OpenID Connect providers send browsers back; nil if there are no providers.
	Callback func() string
	// LinkCommand is the command that prints a login link; "" if there are other ways to log in. LinkUser is the user
	// who may run it.
	LinkCommand, LinkUser string
}

var _ Visitors = (*Guard)(nil)

// Handler implements Visitors.
func (g *Guard) Handler(s *Server, pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) { g.showLogin(s, w, r, nil) })
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) { g.logInByPassword(s, w, r) })
	mux.HandleFunc("POST /login/{provider}", func(w http.ResponseWriter, r *http.Request) {
		if err := g.Login.Begin(w, r, r.PathValue("provider"), r.FormValue("next")); err != nil {
			g.showLogin(s, w, r, err)
		}
	})
	mux.HandleFunc("GET /link/{token}", func(w http.ResponseWriter, r *http.Request) {
		session, err := g.Login.Redeem(w, r, r.PathValue("token"))
		g.finishLogin(s, w, r, session, "/", err)
	})
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		if err := g.Login.LogOut(w, r); err != nil {
			s.opts.Log.Warn("the other managers do not know of a log-out", "err", err)
		}
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case g.Callback != nil && r.URL.Path == g.Callback() && r.Method == http.MethodGet:
			session, next, err := g.Login.Callback(w, r)
			g.finishLogin(s, w, r, session, next, err)
		case login.FromContext(r.Context()) != nil:
			pages.ServeHTTP(w, r)
		case isAPI(r) || fromScript(r) || r.Method != http.MethodGet:
			s.answerError(w, r, errNoLogIn)
		default:
			http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		}
	})
	return g.Login.Middleware(mux, func(w http.ResponseWriter, r *http.Request, code int, err error) {
		s.answerError(w, r, refused{code, "token", err.Error()})
	})
}

// Of implements Visitors.
func (g *Guard) Of(r *http.Request) access.Subject {
	if session := login.FromContext(r.Context()); session != nil {
		return session.Subject()
	}
	return access.Subject{}
}

// Decide implements Visitors.
func (g *Guard) Decide(ctx context.Context, who access.Subject, verb access.Verb, vm *fleet.VM) access.Decision {
	return g.Access().Decide(ctx, who, verb, g.Rights(vm))
}

// DecidePool implements Visitors.
func (g *Guard) DecidePool(ctx context.Context, who access.Subject, verb access.Verb, pool string) access.Decision {
	rights := access.Pool{Name: pool}
	if g.PoolRights != nil {
		rights = g.PoolRights(pool)
	}
	return g.Access().DecidePool(ctx, who, verb, rights)
}

// MayUse implements Visitors.
func (g *Guard) MayUse(who access.Subject, page access.Page) bool {
	return g.Access().Policy.MayUse(who, page)
}

// HasPageKey implements Visitors.
func (g *Guard) HasPageKey(r *http.Request) bool {
	session := login.FromContext(r.Context())
	return session != nil && session.HasPageKey(r)
}

// Ended implements Visitors.
func (g *Guard) Ended(r *http.Request) <-chan struct{} {
	if session := login.FromContext(r.Context()); session != nil {
		return session.Done()
	}
	return nil
}

// Check implements Visitors. If the session is no longer valid, it closes the channel of Ended.
func (g *Guard) Check(r *http.Request) {
	if session := login.FromContext(r.Context()); session != nil {
		_ = session.Check(r.Context())
	}
}

// Scheme implements Visitors.
func (g *Guard) Scheme(r *http.Request) string { return g.Login.Scheme(r) }

// Touch implements Visitors.
func (g *Guard) Touch(r *http.Request) {
	if session := login.FromContext(r.Context()); session != nil {
		session.Touch()
	}
}

// loginView is the login page.
type loginView struct {
	frame
	Methods           login.Methods
	Command, LinkUser string // for login with a link only
	Next, Error       string
}

// showLogin shows the login page. err is the error of the last attempt, if any.
func (g *Guard) showLogin(s *Server, w http.ResponseWriter, r *http.Request, err error) {
	if err == nil && login.FromContext(r.Context()) != nil {
		http.Redirect(w, r, login.Target(r.FormValue("next")), http.StatusSeeOther)
		return
	}
	v := s.visitOf(r)
	view := loginView{
		frame: v.newFrame(v.T("login.title")), Methods: g.Login.Methods(), Next: login.Target(r.FormValue("next")),
		Command: g.LinkCommand, LinkUser: g.LinkUser,
	}
	code := http.StatusOK
	if err != nil {
		code, view.Error = g.explainLogin(w, v, err)
	}
	if err := s.showPage(w, code, "login", view); err != nil {
		s.answerError(w, r, err)
	}
}

// explainLogin returns the status code and text for a failed login.
func (*Guard) explainLogin(w http.ResponseWriter, v visit, err error) (code int, text string) {
	var busy *login.BusyError
	switch {
	case errors.As(err, &busy):
		w.Header().Set("Retry-After", strconv.Itoa(busy.Seconds()))
		return http.StatusTooManyRequests, v.T("login.busy", busy.Seconds())
	case errors.As(err, new(*login.WrongError)):
		return http.StatusUnauthorized, v.T("login.wrong")
	case errors.As(err, new(*login.LinkError)):
		return http.StatusForbidden, v.T("login.link")
	}
	return http.StatusForbidden, err.Error()
}

// logInByPassword logs in a local user.
func (g *Guard) logInByPassword(s *Server, w http.ResponseWriter, r *http.Request) {
	if err := parseForm(w, r); err != nil {
		s.answerError(w, r, err)
		return
	}
	session, err := g.Login.LogIn(w, r, r.PostForm.Get("user"), r.PostForm.Get("password"))
	g.finishLogin(s, w, r, session, login.Target(r.PostForm.Get("next")), err)
}

// finishLogin redirects the browser after a successful login, or shows the login page again.
func (g *Guard) finishLogin(
	s *Server, w http.ResponseWriter, r *http.Request, session *login.Session, next string, err error,
) {
	if err != nil {
		g.showLogin(s, w, r, err)
		return
	}
	http.Redirect(w, r, session.WithPageKey(next), http.StatusSeeOther)
}
