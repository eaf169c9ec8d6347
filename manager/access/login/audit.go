package login

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"vmop/internal/printable"
)

// WrongError means that the user does not exist or the password is wrong.
type WrongError struct{}

func (*WrongError) Error() string { return "the name or the password is wrong" }

// BusyError means that too many earlier attempts have failed.
type BusyError struct {
	// Wait is how long to wait before the next attempt.
	Wait time.Duration
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("too many attempts, try again in %d s", e.Seconds())
}

// Seconds returns Wait in whole seconds, at least 1, for the Retry-After header.
func (e *BusyError) Seconds() int { return max(1, int((e.Wait+time.Second-1)/time.Second)) }

// rolesError means that a user has too many roles for a cookie.
type rolesError struct{ Roles int }

func (e *rolesError) Error() string {
	return fmt.Sprintf("you have %d roles, more than a session can have: the administrator can choose those that matter "+
		"(rolesMatching of the provider)", e.Roles)
}

// providerError means that an OIDC log-in failed.
type providerError struct {
	// Provider is the provider's name; "" if it is unknown.
	Provider string
	// Unavailable reports that the provider did not answer correctly.
	Unavailable bool
	Err         error
}

func (e *providerError) Error() string { return "log in at " + e.Provider + ": " + e.Err.Error() }
func (e *providerError) Unwrap() error { return e.Err }

// tokenError means that a bearer token was refused.
type tokenError struct {
	// Unavailable reports that the cluster could not be asked.
	Unavailable bool
	Err         error
}

func (e *tokenError) Error() string { return "the bearer token is not accepted: " + e.Err.Error() }
func (e *tokenError) Unwrap() error { return e.Err }

// LinkError means that a one-time link was used before or never existed.
type LinkError struct{}

func (*LinkError) Error() string {
	return "the link has been used or is too old; get a new link: vmmanager local link"
}

// refusalStatus returns the HTTP status of a refused token.
func refusalStatus(err error) int {
	var busy *BusyError
	var token *tokenError
	switch {
	case errors.As(err, &busy):
		return http.StatusTooManyRequests
	case errors.As(err, &token) && token.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusUnauthorized
}

// Causes of refusals, the keys of Figures.Refused.
const (
	refusedWrong    = "password"
	refusedBusy     = "rate"
	refusedRoles    = "roles"
	refusedProvider = "provider"
	refusedToken    = "token"
	refusedLink     = "link"
)

// figures are the counters.
type figures struct {
	logIns, logOuts, delayed               atomic.Int64
	wrong, busy, roles, provider, tok, lnk atomic.Int64
}

func (f *figures) refusalCounters() map[string]*atomic.Int64 {
	return map[string]*atomic.Int64{
		refusedWrong: &f.wrong, refusedBusy: &f.busy, refusedRoles: &f.roles, refusedProvider: &f.provider,
		refusedToken: &f.tok, refusedLink: &f.lnk,
	}
}

// Figures are counts since the program started, for metrics.
type Figures struct {
	// LogIns and LogOuts count users, Delayed counts attempts.
	LogIns, LogOuts, Delayed int64
	// Refused counts refused log-ins by cause: password, rate, roles, provider, token, link.
	Refused map[string]int64
	// Sessions is the number of current sessions.
	Sessions int
}

// Figures returns the counts.
func (s *Service) Figures() Figures {
	f := Figures{
		LogIns: s.figures.logIns.Load(), LogOuts: s.figures.logOuts.Load(), Delayed: s.figures.delayed.Load(),
		Refused: map[string]int64{},
	}
	for cause, count := range s.figures.refusalCounters() {
		f.Refused[cause] = count.Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Sessions = len(s.sessions.byKey)
	return f
}

// refuseLogin counts and logs a refusal, and returns it.
func (s *Service) refuseLogin(r *http.Request, cause string, err error, attrs ...any) error {
	s.figures.refusalCounters()[cause].Add(1)
	s.auditLog(r, "log-in refused", append(attrs, "cause", cause, "err", printable.Line(err.Error()))...)
	return err
}

// auditLog logs what a user did.
func (s *Service) auditLog(r *http.Request, message string, attrs ...any) {
	s.opts.Log.InfoContext(r.Context(), message, append(attrs, "address", s.clientAddress(r))...)
}

// nameForLog returns a name in the form used in the log.
func nameForLog(name string) string { return printable.Clip(printable.Line(name), 64) }
