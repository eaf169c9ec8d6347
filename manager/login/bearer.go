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

	"vmop/manager/access"
)

// Tokens reviews bearer tokens.
type Tokens interface {
	// Review returns whose token it is; an empty identity if it isn't valid for the
	// audience. An error means that the cluster doesn't answer.
	Review(ctx context.Context, token, audience string) (access.Identity, error)
}

const (
	reviewLifetime = 10 * time.Second
	reviewPatience = 3 * time.Second
	mostReviews    = 5_000 // remembered
	mostReviewing  = 8     // at once
	longestToken   = 16 << 10
	serviceAccount = "system:serviceaccount:"
)

// reviews remembers answers by hashes of tokens.
type reviews struct {
	mu       sync.Mutex
	answers  map[[32]byte]review
	underway int
}

type review struct {
	who   access.Identity
	until time.Time
}

// bearer returns the token of a request.
func bearer(r *http.Request) (token string, given bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// byToken returns the session of a bearer token, which lasts as long as the token.
func (s *Service) byToken(r *http.Request, token string) (*Session, error) {
	fail := func(err error) (*Session, error) {
		return nil, s.refuse(r, refusedToken, &TokenError{Err: err}, "method", byToken)
	}
	expires, err := s.readable(token)
	if err != nil {
		return fail(err)
	}
	byAddress, _, _ := rates()
	failure := newClaim(byAddress, "token", network(s.address(r)))
	who, known := s.recall(token)
	if !known {
		if wait, ok := s.limits.reserve(failure); !ok || wait > 0 {
			if ok {
				s.limits.waited()
			}
			return nil, s.refuse(r, refusedBusy, &BusyError{Wait: wait}, "method", byToken)
		}
		if who, err = s.review(r.Context(), token); err != nil {
			s.limits.giveBack(failure)
			return nil, s.refuse(r, refusedToken, &TokenError{Unavailable: true, Err: err}, "method", byToken)
		}
		if who.User != "" {
			s.limits.giveBack(failure)
		}
	}
	if !strings.HasPrefix(who.User, serviceAccount) {
		return fail(errors.New("it is no service account's, or not valid"))
	}
	sum := sha256.Sum256([]byte(token))
	t := ticket{
		ID: hex.EncodeToString(sum[:]), User: who.User, Method: byToken, Roles: who.Groups,
		Mark: token, Cluster: who, Until: expires,
	}
	now := s.opts.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions.byKey[t.key()]
	if session == nil {
		session = s.sessions.add(s, t, now)
	}
	session.used = now
	s.sessions.order.MoveToFront(session.place)
	return session, nil
}

// readable returns when a token expires, if there is a point in having it reviewed: tokens of
// other audiences are none of the cluster's business, nor ours.
func (s *Service) readable(token string) (expires time.Time, err error) {
	audience := s.config.Load().TokenAudience
	if s.opts.Tokens == nil || audience == "" {
		return time.Time{}, errors.New("tokens are not accepted here (tokenAudience in the configuration)")
	}
	parts := strings.Split(token, ".")
	if len(token) > longestToken || len(parts) != 3 {
		return time.Time{}, errors.New("it is no JWT")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, errors.New("it is no JWT")
	}
	var claims struct {
		Audience any   `json:"aud"`
		Expires  int64 `json:"exp"`
	}
	if err := json.Unmarshal(data, &claims); err != nil {
		return time.Time{}, errors.New("it is no JWT")
	}
	if !slices.Contains(texts(claims.Audience), audience) {
		return time.Time{}, errors.New("it is for another audience (kubectl create token --audience " + audience + ")")
	}
	if expires = time.Unix(claims.Expires, 0); !s.opts.Now().Before(expires) {
		return time.Time{}, errors.New("it has expired")
	}
	return expires, nil
}

// recall returns an answer that is remembered.
func (s *Service) recall(token string) (access.Identity, bool) {
	s.reviews.mu.Lock()
	defer s.reviews.mu.Unlock()
	r, known := s.reviews.answers[sha256.Sum256([]byte(token))]
	return r.who, known && s.opts.Now().Before(r.until)
}

// review has a token reviewed, and remembers the answer.
func (s *Service) review(ctx context.Context, token string) (access.Identity, error) {
	s.reviews.mu.Lock()
	if s.reviews.underway >= mostReviewing {
		s.reviews.mu.Unlock()
		return access.Identity{}, errors.New("too many tokens are being reviewed")
	}
	s.reviews.underway++
	s.reviews.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	who, err := s.opts.Tokens.Review(ctx, token, s.config.Load().TokenAudience)
	s.reviews.mu.Lock()
	defer s.reviews.mu.Unlock()
	s.reviews.underway--
	if err != nil {
		return access.Identity{}, err
	}
	if len(s.reviews.answers) >= mostReviews {
		clear(s.reviews.answers)
	}
	s.reviews.answers[sha256.Sum256([]byte(token))] = review{who, s.opts.Now().Add(reviewLifetime)}
	return who, nil
}

// checkToken has a session's token reviewed again. While the cluster doesn't answer, it lasts.
func (s *Service) checkToken(ctx context.Context, session *Session) error {
	who, known := s.recall(session.ticket.Mark)
	var err error
	if !known {
		who, err = s.review(ctx, session.ticket.Mark)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	switch fault := s.fault(session.ticket, now, now); {
	case fault != nil:
		s.sessions.end(session, fault)
	case err == nil && who.User != session.ticket.User:
		s.sessions.end(session, ErrWithdrawn)
	}
	return session.cause
}
