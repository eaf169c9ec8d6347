package login

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"vmop/internal/printable"
	"vmop/manager/access"
)

// Tokens reviews bearer tokens.
type Tokens interface {
	// Review returns the identity that a token belongs to. The identity is empty if the token is not valid for
	// the audience. An error means that the cluster does not answer.
	Review(ctx context.Context, token, audience string) (access.Identity, error)
}

const (
	reviewLifetime = 10 * time.Second
	reviewPatience = 3 * time.Second
	mostReviews    = 5_000 // remembered answers
	mostReviewing  = 8     // concurrent reviews
	longestToken   = 16 << 10
	serviceAccount = "system:serviceaccount:"
)

// reviews caches answers by hashes of tokens.
type reviews struct {
	mu       sync.Mutex
	answers  map[[32]byte]review
	underway int
}

// review is the owner of a token; without a user if the token is invalid.
type review struct {
	who   ticket
	until time.Time
}

// bearerToken returns the bearer token of a request.
func bearerToken(r *http.Request) (token string, given bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// byToken returns the session of a bearer token. The session lasts as long as the token.
func (s *Service) byToken(r *http.Request, token string) (*Session, error) {
	fail := func(err error) (*Session, error) {
		return nil, s.refuseLogin(r, refusedToken, &tokenError{Err: err}, "method", byToken)
	}
	said, err := s.readToken(token)
	if err != nil {
		return fail(err)
	}
	byAddress, _, _ := attemptRates()
	failure := newClaim(byAddress, "token", networkOf(s.clientAddress(r)))
	who, known := s.recallTicket(token)
	if !known {
		if wait, ok := s.limits.reserveAttempt(failure); !ok || wait > 0 {
			if ok {
				s.limits.endWait()
			}
			return nil, s.refuseLogin(r, refusedBusy, &BusyError{Wait: wait}, "method", byToken)
		}
		if who, err = s.reviewToken(r.Context(), said, token); err != nil {
			s.limits.giveBack(failure)
			return nil, s.refuseLogin(r, refusedToken, &tokenError{Unavailable: true, Err: err}, "method", byToken)
		}
		if who.User != "" {
			s.limits.giveBack(failure)
		}
	}
	switch {
	case who.User == "" && who.Mark != "":
		return fail(errors.New(who.Mark))
	case who.User == "":
		return fail(errors.New("it does not belong to a service account, or is not valid"))
	}
	sum := sha256.Sum256([]byte(token))
	t := who
	t.ID, t.Method, t.Mark, t.Until = hex.EncodeToString(sum[:]), byToken, token, said.expires
	now := s.opts.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions.byKey[t.sessionKey()]
	if session == nil {
		session = s.sessions.addSession(s, t, now)
	}
	session.used = now
	s.sessions.order.MoveToFront(session.place)
	return session, nil
}

// contents are the unverified claims of a token, read before the review.
type contents struct {
	// provider is the issuer of the token. Its name is "" if the cluster issued the token.
	provider Provider
	expires  time.Time
}

// readToken returns the contents of a token if a review could accept it. Tokens for other audiences are refused
// here, so they never reach the cluster.
func (s *Service) readToken(token string) (contents, error) {
	parts := strings.Split(token, ".")
	if len(token) > longestToken || len(parts) != 3 {
		return contents{}, errors.New("it is no JWT")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return contents{}, errors.New("it is no JWT")
	}
	var claims struct {
		Issuer   string `json:"iss"`
		Audience any    `json:"aud"`
		Expires  int64  `json:"exp"`
	}
	if err := json.Unmarshal(data, &claims); err != nil {
		return contents{}, errors.New("it is no JWT")
	}
	c := s.config.Load()
	what := contents{expires: time.Unix(claims.Expires, 0)}
	audience, how := c.TokenAudience, "kubectl create token --audience "+c.TokenAudience
	for _, p := range c.Providers {
		if claims.Issuer != "" && claims.Issuer == p.issuerURL() {
			what.provider, audience, how = p, p.ClientID, "of this provider it must be an ID token for "+p.ClientID
		}
	}
	switch {
	case what.provider.Name == "" && (s.opts.Tokens == nil || audience == ""):
		err = errors.New("it is of no provider that is configured, and tokens of service accounts are not accepted here " +
			"(tokenAudience in the configuration)")
	case !slices.Contains(textsOf(claims.Audience), audience):
		err = errors.New("it is for another audience (" + how + ")")
	case !s.opts.Now().Before(what.expires):
		err = errors.New("it has expired")
	}
	return what, err
}

// recallTicket returns a remembered answer.
func (s *Service) recallTicket(token string) (ticket, bool) {
	s.reviews.mu.Lock()
	defer s.reviews.mu.Unlock()
	r, known := s.reviews.answers[sha256.Sum256([]byte(token))]
	return r.who, known && s.opts.Now().Before(r.until)
}

// reviewToken reviews a token and remembers the answer.
func (s *Service) reviewToken(ctx context.Context, of contents, token string) (ticket, error) {
	s.reviews.mu.Lock()
	if s.reviews.underway >= mostReviewing {
		s.reviews.mu.Unlock()
		return ticket{}, errors.New("too many tokens are being reviewed")
	}
	s.reviews.underway++
	s.reviews.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	who, err := s.askForReview(ctx, of, token)
	s.reviews.mu.Lock()
	defer s.reviews.mu.Unlock()
	s.reviews.underway--
	if err != nil {
		return ticket{}, err
	}
	if len(s.reviews.answers) >= mostReviews {
		clear(s.reviews.answers)
	}
	s.reviews.answers[sha256.Sum256([]byte(token))] = review{who, s.opts.Now().Add(reviewLifetime)}
	return who, nil
}

// askForReview finds the owner of a token: it asks the cluster, or verifies the token with the provider's keys. For
// an invalid token it returns a ticket without a user; the ticket's Mark may contain the reason.
func (s *Service) askForReview(ctx context.Context, of contents, token string) (ticket, error) {
	c := s.config.Load()
	if of.provider.Name == "" {
		who, err := s.opts.Tokens.Review(ctx, token, c.TokenAudience)
		if err != nil || !strings.HasPrefix(who.User, serviceAccount) {
			return ticket{}, err
		}
		return ticket{User: who.User, Roles: who.Groups, Cluster: who}, nil
	}
	at, err := s.providers.endpointsOf(ctx, of.provider)
	if err != nil {
		return ticket{}, err
	}
	var all claims
	var t ticket
	valid, err := at.verifier(&oidc.Config{ClientID: of.provider.ClientID, Now: s.opts.Now}).Verify(
		oidc.ClientContext(ctx, at.http), token)
	if err == nil {
		err = valid.Claims(&all)
	}
	if err == nil {
		t, err = all.ticketFor(of.provider)
	}
	if err == nil {
		err = c.refuseForeign(of.provider, t.User)
	}
	switch {
	case err != nil && strings.Contains(err.Error(), "fetching keys"): // the library has no error type for this case
		return ticket{}, err
	case err != nil:
		return ticket{Mark: printable.Clip(printable.Line(err.Error()), longestFault)}, nil
	}
	return t, nil
}

// longestFault limits the reason for refusing a token, in bytes.
const longestFault = 300

// checkToken reviews a session's token again. The session continues while the cluster does not answer.
func (s *Service) checkToken(ctx context.Context, session *Session) error {
	who, known := s.recallTicket(session.ticket.Mark)
	var err error
	if !known {
		if of, wrong := s.readToken(session.ticket.Mark); wrong == nil {
			who, err = s.reviewToken(ctx, of, session.ticket.Mark)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	switch fault := s.endReason(session.ticket, now, now); {
	case fault != nil:
		s.sessions.endSession(session, fault)
	case err == nil && who.User != session.ticket.User:
		s.sessions.endSession(session, errWithdrawn)
	}
	return session.cause
}
