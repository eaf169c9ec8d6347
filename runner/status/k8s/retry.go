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
	// gatherTime is how long changes are collected for one report.
	gatherTime = 200 * time.Millisecond
	// settleTime is the time for an adopted machine to answer, so that its new runner doesn't report as ended
	// what it doesn't know yet.
	settleTime = 5 * time.Second
	// The bounds of the delay between two attempts; each failure doubles it.
	shortestRetry = time.Second
	longestRetry  = 30 * time.Second
	// absentRetry is the delay for a missing VM. It may appear: a VM can be deleted without its pod, and created
	// again.
	absentRetry = time.Minute
	// lastRetry is the delay when the runner is about to end.
	lastRetry = 500 * time.Millisecond
)

// gatherDuration returns how long to collect more changes before reporting a status. first marks the first report. The
// end of a VM is reported immediately.
func gatherDuration(s status.Status, first bool) time.Duration {
	switch {
	case s.State == vmstatus.StateStopped:
		return 0
	case first && s.State == vmstatus.StateBooting && s.Reason == vmstatus.ReasonRunnerRestarted:
		return settleTime
	}
	return gatherTime
}

// retryDelay returns how long to wait after a number of failures in a row; err is the last error. The delay grows, and
// is random, so that runners don't all return to a recovered API server at the same time. The delay requested by
// the API server is respected.
func retryDelay(err error, failures int) time.Duration {
	wait := longestRetry
	if failures < 6 {
		wait = min(wait, shortestRetry<<max(failures-1, 0))
	}
	if statusCode(err) == http.StatusNotFound {
		wait = absentRetry
	}
	wait = wait/2 + rand.N(wait/2+1)
	var answer *AnswerError
	if errors.As(err, &answer) {
		wait = max(wait, min(time.Duration(answer.Details.RetryAfterSeconds)*time.Second, absentRetry))
	}
	return wait
}
