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
	// atOnce is how many passwords are compared at a time: each takes a CPU.
	atOnce = 2
	// longestPassword is bcrypt's bound, in bytes.
	longestPassword = 72
	// leastCost and mostCost bound the work of a comparison: 1 ms to about 1 s.
	leastCost, mostCost = bcrypt.MinCost, 14
)

// HashPassword returns the bcrypt hash of a password of 1 to 72 bytes, as configurations have
// it.
func HashPassword(password string) (string, error) {
	if password == "" || len(password) > longestPassword {
		return "", fmt.Errorf("a password has 1 to %d bytes, this one has %d", longestPassword, len(password))
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), 12)
	if err != nil {
		return "", fmt.Errorf("hash the password: %w", err)
	}
	return string(hash), nil
}

// CheckHash returns why a text is no hash of a password. It never quotes the text.
func CheckHash(hash string) error {
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil || len(hash) != 60 {
		return errors.New("it is no bcrypt hash")
	}
	if cost < leastCost || cost > mostCost {
		return fmt.Errorf("its cost is %d, want %d to %d", cost, leastCost, mostCost)
	}
	return nil
}

// mark tells one hash from another without being of use to guess the password.
func mark(hash string) string {
	sum := sha256.Sum256([]byte("vmop " + hash))
	return hex.EncodeToString(sum[:12])
}

// passwords compares passwords, few at a time. All comparisons take the same work: the time does
// not show that a user doesn't exist, or that a hash is cheaper than another.
type passwords struct {
	slots   chan struct{}
	highest atomic.Int64 // cost of all hashes
	work    func(cost int)
}

func newPasswords() *passwords {
	p := &passwords{slots: make(chan struct{}, atOnce)}
	p.highest.Store(int64(bcrypt.DefaultCost))
	p.work = func(cost int) { _, _ = bcrypt.GenerateFromPassword(nil, cost) }
	return p
}

func (p *passwords) configure(users []User) {
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

// compare reports whether a password has a hash, "" for that of no user.
func (p *passwords) compare(ctx context.Context, hash, password string) (bool, error) {
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
	for ; cost < highest; cost++ { // 2^cost is the work: c + c + (c+1) + … + (h-1) is h
		p.work(cost)
	}
	return matches, nil
}

// LogIn logs a local user in and sets the cookie. It may wait for seconds: for its turn, and
// because attempts before have failed. The error is a WrongError, a BusyError, or that of the
// context.
func (s *Service) LogIn(w http.ResponseWriter, r *http.Request, name, password string) (*Session, error) {
	attrs := []any{"user", shown(name), "method", byPassword}
	if CheckName(name) != nil || password == "" || len(password) > longestPassword {
		name, password = "", "" // it costs the same as any
	}
	claims := s.claims(r, name)
	wait, ok := s.limits.reserve(claims...)
	if !ok {
		return nil, s.refuse(r, refusedBusy, &BusyError{Wait: wait}, attrs...)
	}
	if wait > 0 {
		s.figures.delayed.Add(1)
		err := s.opts.Sleep(r.Context(), wait)
		s.limits.waited()
		if err != nil {
			return nil, err
		}
	}
	user, _ := s.config.Load().user(name)
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	matches, err := s.passwords.compare(ctx, user.Hash, password)
	switch {
	case err != nil:
		return nil, s.refuse(r, refusedBusy, &BusyError{Wait: patience}, attrs...)
	case !matches:
		return nil, s.refuse(r, refusedWrong, &WrongError{}, attrs...)
	}
	s.limits.giveBack(claims...)
	s.remember(w, r, name)
	return s.begin(w, r, ticket{User: name, Name: user.FullName, Method: byPassword, Mark: mark(user.Hash)})
}

// known is what a browser keeps of a user who has logged in.
type known struct {
	User string `json:"u"`
	ID   string `json:"i"`
}

// remember gives a browser a rate of its own for a user's name.
func (s *Service) remember(w http.ResponseWriter, r *http.Request, name string) {
	value, err := s.keys.Load().known.close(known{name, random()})
	if err == nil {
		http.SetCookie(w, s.cookie(r, knownCookie, value, 365*24*time.Hour))
	}
}

// claims returns the rates that an attempt counts for.
func (s *Service) claims(r *http.Request, name string) []claim {
	byAddress, byUser, byBrowser := rates()
	if cookie, err := r.Cookie(s.cookieName(r, knownCookie)); err == nil {
		var k known
		if s.keys.Load().known.open(cookie.Value, &k) == nil && k.User == name && name != "" {
			return []claim{newClaim(byBrowser, "browser", k.ID)}
		}
	}
	return []claim{
		newClaim(byAddress, "address", network(s.address(r))), newClaim(byUser, "user", name),
	}
}
