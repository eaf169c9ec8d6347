package manager

import (
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// reach knows whether the API server answers. The libraries say nothing of watches
// that nobody takes, so that a manager that hears nothing looked like one that has
// nothing to do.
type reach struct {
	log *slog.Logger

	mu       sync.Mutex
	answered time.Time // last
	away     bool
}

// patient is how long failures and answers may alternate before it is said that the
// API server is away.
const patient = 10 * time.Second

// wrap is for the configuration of a client.
func (r *reach) wrap(next http.RoundTripper) http.RoundTripper { return reacher{r, next} }

type reacher struct {
	*reach
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r reacher) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err == nil || request.Context().Err() == nil { // else nobody waits for an answer any more
		r.note(err, time.Now())
	}
	return response, err
}

// note notes how a request went.
func (r *reach) note(err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.answered = now
		if r.away {
			r.away = false
			r.log.Info("the API server answers again")
		}
	case !r.away && now.Sub(r.answered) > patient:
		r.away = true
		r.log.Error("the API server does not answer: VMs run on, and what is to be done is done when it is back", "err", err)
	}
}

// isAway tells whether the API server does not answer.
func (r *reach) isAway() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away
}
