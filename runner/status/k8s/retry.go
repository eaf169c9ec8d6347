package k8s

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"vmop/runner/status"
	"vmop/vmstatus"
)

// Times of reporting.
const (
	// gatherTime: what happens in a row becomes one report.
	gatherTime = 200 * time.Millisecond
	// settleTime is what a machine that was taken over has to answer in, so that what
	// its new runner doesn't know yet is not told to have ended.
	settleTime = 5 * time.Second
	// Between two attempts; each failure doubles it.
	shortestRetry = time.Second
	longestRetry  = 30 * time.Second
	// absentRetry is for a VM that is not there. It may come: a VM can be deleted
	// without its pod, and be made again.
	absentRetry = time.Minute
	// lastRetry is for when the runner is about to end.
	lastRetry = 500 * time.Millisecond
)

// gathering is how long more is waited for before a status is reported, which may
// be the first. The end is reported at once.
func gathering(s status.Status, first bool) time.Duration {
	switch {
	case s.State == vmstatus.StateStopped:
		return 0
	case first && s.State == vmstatus.StateBooting && s.Reason == vmstatus.ReasonRunnerRestarted:
		return settleTime
	}
	return gatherTime
}

// delay is how long to wait after so many failures in a row, of which err is the
// last: longer and longer, and not as long as others, so that not all runners come at
// once to an API server that is back. What the API server asks for is obeyed.
func delay(err error, failures int) time.Duration {
	wait := longestRetry
	if failures < 6 {
		wait = min(wait, shortestRetry<<max(failures-1, 0))
	}
	if code(err) == http.StatusNotFound {
		wait = absentRetry
	}
	wait = wait/2 + rand.N(wait/2+1)
	var answer *AnswerError
	if errors.As(err, &answer) {
		wait = max(wait, min(time.Duration(answer.Details.RetryAfterSeconds)*time.Second, absentRetry))
	}
	return wait
}
