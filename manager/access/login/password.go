package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	// atOnce is the maximum number of concurrent password comparisons. Each comparison occupies a CPU.
	atOnce = 2
	// longestPassword is bcrypt's limit, in bytes.
	longestPassword = 72
	// leastCost and mostCost limit the work of a comparison: 1 ms to about 1 s.
	leastCost, mostCost = bcrypt.MinCost, 14
)

// HashPassword returns the bcrypt hash of a password of 1 to 72 bytes, for use in a configuration.
func HashPassword(password string) (string, error) {
	if password == "" || len(password) > longestPassword {
		return "", fmt.Errorf("a password must have 1 to %d bytes, but has %d", longestPassword, len(password))
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), 12)
	if err != nil {
		return "", fmt.Errorf("hash the password: %w", err)
	}
	return string(hash), nil
}

// CheckHash returns an error if a text is not a bcrypt hash with an accepted cost. The error never quotes the
// text.
func CheckHash(hash string) error {
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil || len(hash) != 60 {
		return errors.New("it is not a bcrypt hash")
	}
	if cost < leastCost || cost > mostCost {
		return fmt.Errorf("its cost is %d, but must be %d to %d", cost, leastCost, mostCost)
	}
	return nil
}

// hashMark returns a value that distinguishes one hash from another, but does not help to guess the password.
func hashMark(hash string) string {
	sum := sha256.Sum256([]byte("vmop " + hash))
	return hex.EncodeToString(sum[:12])
}

// passwords compares a few passwords at a time. All comparisons take the same work, so their duration does not
// reveal that a user does not exist or that a hash is cheaper than another.
type passwords struct {
	slots   chan struct{}
	highest atomic.Int64 // highest cost of all hashes
	work    func(cost int)
}

func newPasswords() *passwords {
	p := &passwords{slots: make(chan struct{}, atOnce)}
	p.highest.Store(int64(bcrypt.DefaultCost))
	p.work = func(cost int) { _, _ = bcrypt.GenerateFromPassword(nil, cost) }
	return p
}

func (p *passwords) setUsers(users []User) {
	highest := bcrypt.DefaultCost
	if len(users) > 0 {
		highest = leastCost
	}
	for _, u := range users {
		if cost, err := bcrypt.Cost([]byte(u.Hash)); err == nil {
			highest = max(highest, cost)
		}
	}
	p.highest.Store(int64(highest))
}

// comparePassword reports whether a password matches a hash; "" is the hash of an unknown user.
func (p *passwords) comparePassword(ctx context.Context, hash, password string) (bool, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	highest := int(p.highest.Load())
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil {
		p.work(highest)
		return false, nil
	}
	matches := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
	for ; cost < highest; cost++ { // the work is 2^cost: c + c + (c+1) + … + (h-1) is h
		p.work(cost)
	}
	return matches, nil
}

// LogIn logs a local user in and sets the cookie. It may take seconds, because it waits for its turn and for the
// delay that failed attempts have caused. Its error is a WrongError, a BusyError, or the context's error.
func (s *Service) LogIn(w http.ResponseWriter, r *http.Request, name, password string) (*Session, error) {
	attrs := []any{"user", nameForLog(name), "method", byPassword}
	if CheckName(name) != nil || password == "" || len(password) > longestPassword {
		name, password = "", "" // takes as long as any other attempt
	}
	claims := s.rateClaims(r, name)
	wait, ok := s.limits.reserveAttempt(claims...)
	if !ok {
		return nil, s.refuseLogin(r, refusedBusy, &BusyError{Wait: wait}, attrs...)
	}
	if wait > 0 {
		s.figures.delayed.Add(1)
		err := s.opts.Sleep(r.Context(), wait)
		s.limits.endWait()
		if err != nil {
			return nil, err
		}
	}
	user, _ := s.config.Load().localUser(name)
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	matches, err := s.passwords.comparePassword(ctx, user.Hash, password)
	switch {
	case err != nil:
		return nil, s.refuseLogin(r, refusedBusy, &BusyError{Wait: patience}, attrs...)
	case !matches:
		return nil, s.refuseLogin(r, refusedWrong, &WrongError{}, attrs...)
	}
	s.limits.giveBack(claims...)
	s.rememberBrowser(w, r, name)
	return s.beginSession(w, r, ticket{User: name, Name: user.FullName, Method: byPassword, Mark: hashMark(user.Hash)})
}

// known is the information that a browser keeps about a user who has logged in.
type known struct {
	User string `json:"u"`
	ID   string `json:"i"`
}

// rememberBrowser gives a browser its own rate for a user's name.
func (s *Service) rememberBrowser(w http.ResponseWriter, r *http.Request, name string) {
	value, err := s.keys.Load().known.sealValue(known{name, randomText()})
	if err == nil {
		http.SetCookie(w, s.newCookie(r, knownCookie, value, 365*24*time.Hour))
	}
}

// rateClaims returns the rates that an attempt counts towards.
func (s *Service) rateClaims(r *http.Request, name string) []claim {
	byAddress, byUser, byBrowser := attemptRates()
	if cookie, err := r.Cookie(s.cookieName(r, knownCookie)); err == nil {
		var k known
		if s.keys.Load().known.openValue(cookie.Value, &k) == nil && k.User == name && name != "" {
			return []claim{newClaim(byBrowser, "browser", k.ID)}
		}
	}
	return []claim{
		newClaim(byAddress, "address", networkOf(s.clientAddress(r))), newClaim(byUser, "user", name),
	}
}
