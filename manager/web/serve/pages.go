package serve

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"

	"vmop/manager/access"
	"vmop/manager/access/login"
	"vmop/manager/web"
	"vmop/manager/web/fleet"
)

// Options are the dependencies of Pages.
type Options struct {
	// Fleet contains the VMs. Rights returns the input for access decisions about a VM.
	Fleet  fleet.Fleet
	Rights func(vm *fleet.VM) access.VM
	// PoolRights returns the input for access decisions about a pool; nil means that there are no pools.
	PoolRights func(pool string) access.Pool
	// Namespace contains the VMs.
	Namespace string
	// Secrets of the managers' namespace contain what the managers share.
	Secrets core.SecretInterface
	// Reviews answers access reviews, if the policy uses them. Tokens validates bearer tokens.
	Reviews authorization.SubjectAccessReviewInterface
	Tokens  authentication.TokenReviewInterface
	// Title is shown on all pages. FirstStep is a command that creates a first VM.
	Title, FirstStep string
	// Version of the program.
	Version string
	// Log receives logins, actions and errors.
	Log *slog.Logger
}

// Config is the administrator's configuration.
type Config struct {
	// Port to listen on, at all addresses.
	Port int
	// TLSFolder contains tls.crt and tls.key, such as a mounted Secret of type kubernetes.io/tls. "" means that a
	// proxy, if anything, provides TLS.
	TLSFolder string
	// ForgetFile makes native viewers delete their connection file after they have started.
	ForgetFile bool
	Login      login.Config
	Access     access.Policy
}

// Pages are the pages of a manager. Their methods are safe for concurrent use.
type Pages struct {
	opts     Options
	visitors *login.Service
	pages    *web.Server
	config   atomic.Pointer[Config]
	changed  chan struct{} // signals a new configuration
	sessions sessions

	authorizer atomic.Pointer[access.Authorizer]
	reviews    *access.Reviews

	mu    sync.Mutex
	fault error // why the pages are not served
}

// New returns pages that are not served yet.
func New(opts Options, config Config) (*Pages, error) {
	p := &Pages{
		opts: opts, changed: make(chan struct{}, 1),
		sessions: sessions{
			Secret: login.Secret{Client: opts.Secrets, Log: opts.Log, Now: time.Now, Sleep: login.Sleep},
			begin:  make(chan struct{}), adopted: make(chan struct{}),
		},
		reviews: access.NewReviews(&reviewer{
			of: access.Kubernetes{Client: opts.Reviews, Namespace: opts.Namespace}, log: opts.Log,
		}, time.Now),
	}
	var err error
	p.visitors, err = login.New(login.Options{
		Log: opts.Log, Now: time.Now, Sleep: login.Sleep,
		Shared: &p.sessions, Tokens: login.Kubernetes{Client: opts.Tokens},
	})
	if err != nil {
		return nil, err
	}
	guard := &web.Guard{
		Login: p.visitors, Rights: opts.Rights, PoolRights: opts.PoolRights,
		Access:   func() access.Authorizer { return *p.authorizer.Load() },
		Callback: func() string { return p.config.Load().Login.CallbackPath() },
	}
	p.pages, err = web.New(web.Options{
		Fleet: opts.Fleet, Visitors: guard, Title: opts.Title, Version: opts.Version,
		FirstStep: opts.FirstStep, Log: opts.Log, ForgetFile: func() bool { return p.config.Load().ForgetFile },
	})
	if err != nil {
		return nil, err
	}
	p.Configure(config)
	return p, nil
}

// Configure replaces the configuration, with immediate effect.
func (p *Pages) Configure(c Config) {
	p.config.Store(&c)
	p.authorizer.Store(&access.Authorizer{Policy: c.Access, Reviews: p.reviews})
	p.visitors.Configure(c.Login)
	select {
	case p.changed <- struct{}{}:
	default: // an earlier signal is still pending
	}
}

// Run serves until ctx is done, and then returns nil. It logs errors and tries again.
func (p *Pages) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.visitors.Run(ctx) })
	group.Go(func() error {
		if !p.awaitUsers(ctx) {
			return nil
		}
		close(p.sessions.begin)
		group.Go(func() error { return p.pages.Run(ctx) })
		if !p.awaitKey(ctx) {
			return nil
		}
		p.serveAgain(ctx)
		return nil
	})
	return group.Wait()
}

// Ready returns nil if the pages are served, or if no user can log in. Otherwise it returns why they are not served.
func (p *Pages) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// Figures are counts for metrics.
type Figures struct {
	Login login.Figures
	Open  web.Figures
}

// Figures returns the counts.
func (p *Pages) Figures() Figures { return Figures{p.visitors.Figures(), p.pages.Figures()} }

// setFault records why nothing is served, and logs new errors.
func (p *Pages) setFault(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && (p.fault == nil || p.fault.Error() != err.Error()) {
		p.opts.Log.Error("the pages are not served, trying again", "err", err)
	}
	p.fault = err
}

// usersCheck is how often to check whether a user can log in, until one can.
const usersCheck = time.Second

// awaitUsers waits until a user can log in. It returns false when ctx is done.
func (p *Pages) awaitUsers(ctx context.Context) bool {
	tick := time.NewTicker(usersCheck)
	defer tick.Stop()
	for logged := false; ; logged = true {
		methods := p.visitors.Methods()
		if methods.Password || len(methods.Providers) > 0 || p.config.Load().Login.TokenAudience != "" {
			return true
		}
		if !logged {
			p.opts.Log.Info("no pages are served, because no user can log in yet: configure users, a provider of "+
				"OpenID Connect, or tokens (docs/tasks/users.md)", "usersFile", p.config.Load().Login.UsersFile)
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		case <-p.changed:
		}
	}
}

// awaitKey waits for the key of the sessions. It returns false when ctx is done.
func (p *Pages) awaitKey(ctx context.Context) bool {
	p.setReady(fmt.Errorf("the key of the sessions, in the Secret %s, has not been read yet", login.SecretName))
	select {
	case <-ctx.Done():
		return false
	case <-p.sessions.adopted:
		return true
	}
}

// setReady sets the result of Ready without logging it. Package login logs the error.
func (p *Pages) setReady(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = err
}

// sessions are the shared session data, read only when needed.
type sessions struct {
	login.Secret
	begin   chan struct{} // closed when needed
	adopted chan struct{} // closed when the key is in use
	once    sync.Once
}

// Follow implements login.Shared.
func (s *sessions) Follow(ctx context.Context, publish func(key []byte, revoked map[string]time.Time)) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.begin:
	}
	return s.Secret.Follow(ctx, func(key []byte, revoked map[string]time.Time) {
		publish(key, revoked)
		s.once.Do(func() { close(s.adopted) })
	})
}

// A reviewer logs when access reviews start to fail.
type reviewer struct {
	of      access.Reviewer
	log     *slog.Logger
	failing atomic.Bool
}

// Review implements access.Reviewer.
func (r *reviewer) Review(ctx context.Context, who access.Identity, what access.Right) (bool, string, error) {
	allowed, reason, err := r.of.Review(ctx, who, what)
	if failed := err != nil; r.failing.Swap(failed) != failed && failed {
		r.log.Error("the manager can't ask RBAC for permissions, so all requests are denied: it needs the cluster role "+
			"system:auth-delegator (deploy/auth-delegator)", "err", err)
	}
	return allowed, reason, err
}
