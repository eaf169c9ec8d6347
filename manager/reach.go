package manager

import (
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// reach tracks whether the API server answers. The libraries don't log watches that can't be opened, so a manager
// without a connection would look like an idle manager.
type reach struct {
	log *slog.Logger

	mu       sync.Mutex
	answered time.Time // time of the last answer
	away     bool
}

// patient is how long requests may fail without any answer before the API server counts as unreachable.
const patient = 10 * time.Second

// wrapTransport wraps the transport in the configuration of a client.
func (r *reach) wrapTransport(next http.RoundTripper) http.RoundTripper { return reacher{r, next} }

type reacher struct {
	*reach
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r reacher) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err == nil || request.Context().Err() == nil { // otherwise the caller has given up
		r.recordRequest(err, time.Now())
	}
	return response, err
}

// recordRequest records the result of a request.
func (r *reach) recordRequest(err error, now time.Time) {
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
		r.log.Error("the API server does not answer: VMs keep running, and are managed again when it is back", "err", err)
	}
}

// isAway reports whether the API server does not answer.
func (r *reach) isAway() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away
}
