package k8s

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"vmop/runner/status"
	"vmop/vmstatus"
)

// A Reporter reports the status of a tracker to the API server. Its methods may be called from any goroutine.
type Reporter struct {
	pod *Pod
	log *slog.Logger

	mu     sync.Mutex
	end    chan struct{}      // closed when everything is reported; nil until Follow
	hasten context.CancelFunc // stops the waiting between attempts
	cancel context.CancelFunc // stops the attempts
	absent atomic.Bool
}

// NewReporter returns the reporter of a pod.
func NewReporter(pod *Pod, log *slog.Logger) *Reporter { return &Reporter{pod: pod, log: log} }

// PodUID returns the uid of the pod; empty if it is not known.
func (r *Reporter) PodUID() string { return r.pod.UID }

// Heard reports whether the resource exists: false if the API server has answered that there is no such VM.
func (r *Reporter) Heard() bool { return !r.absent.Load() }

// Follow starts to report the tracker's status in the background, until it has reported that the VM has stopped.
// The namespace is the VM's; empty means the pod's. The end of the context does not end the reports, see Close.
// Call Follow at most once.
func (r *Reporter) Follow(ctx context.Context, tracker *status.Tracker, namespace string) {
	c := &client{pod: r.pod, namespace: namespace, server: connection{account: r.pod.account}}
	if namespace == "" {
		c.namespace = r.pod.Namespace
	}
	f := &follower{client: c, log: r.log, events: newDiary(c, r.log), since: transitions{}, absent: &r.absent}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	patient, hasten := context.WithCancel(life)
	end := make(chan struct{})
	r.mu.Lock()
	r.end, r.hasten, r.cancel = end, hasten, cancel
	r.mu.Unlock()
	go func() {
		defer close(end)
		defer cancel()
		f.followStatus(life, patient, tracker)
	}()
}

// Done returns a channel that is closed when the final status is reported, or can't be. Call it after Follow.
func (r *Reporter) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}

// Close waits until the final status is reported, or the context is done.
func (r *Reporter) Close(ctx context.Context) {
	r.mu.Lock()
	end, hasten, cancel := r.end, r.hasten, r.cancel
	r.mu.Unlock()
	if end == nil {
		return
	}
	hasten()
	select {
	case <-end:
	case <-ctx.Done():
		cancel()
		<-end
	}
}

// follower is the only goroutine of a reporter.
type follower struct {
	client *client
	log    *slog.Logger
	events *diary
	absent *atomic.Bool

	newest   status.Status
	since    transitions
	looked   bool   // since contains the conditions of the resource
	failures int    // in a row
	trouble  string // logged last

	arrived bool      // the status reports an arriving guest
	again   time.Time // when to report the same status again; zero means never
}

// followStatus reports until the VM has stopped or life ends. After the end of patient, it only waits briefly between
// attempts.
func (f *follower) followStatus(life, patient context.Context, tracker *status.Tracker) {
	sub := tracker.Subscribe(status.DefaultPace())
	defer sub.Close()
	for {
		s, err := f.nextReport(life, sub)
		if err != nil {
			return // the final status was reported, or reporting was canceled
		}
		f.replaceStatus(s)
		f.collectChanges(patient, sub, gatherDuration(s, !f.looked))
		for {
			err := f.sendReport(life)
			if f.noteResult(err) {
				break
			}
			if life.Err() != nil {
				f.log.Warn("the VM's final status can't be reported", "err", err)
				return
			}
			if patient.Err() == nil {
				f.collectChanges(patient, sub, retryDelay(err, f.failures))
			} else {
				f.collectChanges(life, sub, lastRetry)
			}
		}
	}
}

// replaceStatus makes s the status to report.
func (f *follower) replaceStatus(s status.Status) {
	f.events.recordHappenings(f.newest, s, time.Now())
	f.newest = s
}

// collectChanges takes in new statuses until the limit; the end of the VM ends it early.
func (f *follower) collectChanges(ctx context.Context, sub *status.Subscription, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		s, err := sub.Next(ctx)
		if errors.Is(err, io.EOF) {
			<-ctx.Done()
		}
		if err != nil {
			return
		}
		f.replaceStatus(s)
		if s.State == vmstatus.StateStopped {
			return
		}
	}
}

// sendReport reports the newest status.
func (f *follower) sendReport(ctx context.Context) error {
	switch {
	case isLeaving(f.newest):
		return nil
	case isArriving(f.newest):
		return f.reportArrival(ctx)
	}
	if !f.looked {
		found, err := f.client.readByPatch(ctx)
		if err != nil {
			return err
		}
		f.looked = true
		f.since.rememberTimes(found.Status.Conditions)
	}
	r := newReport(f.client.pod, f.newest, f.since)
	found, err := f.applyReport(ctx, r)
	if isRefusal(err) {
		f.logOnce("a part of the status is not reported: the API server refuses it", err)
		if found, err = f.applyReport(ctx, r.withoutOthers()); isRefusal(err) {
			f.logOnce("the status is not reported: the API server refuses it", err)
			return nil // the next report may be accepted
		}
	} else if err == nil {
		f.logRecovered()
	}
	if err == nil {
		f.since.rememberTimes(found.Status.Conditions)
		f.afterArrival(ctx)
		f.events.sendEvents(ctx, found.Metadata.UID)
	}
	return err
}

// isRefusal reports whether the API server, or a proxy in between, rejects the content; it may accept less.
func isRefusal(err error) bool {
	return statusCode(err) == http.StatusUnprocessableEntity || statusCode(err) == http.StatusRequestEntityTooLarge
}

func (f *follower) applyReport(ctx context.Context, r report) (object, error) {
	body, err := r.bodyJSON()
	if err != nil {
		return object{}, err
	}
	return f.client.applyStatus(ctx, body)
}

// noteResult records the result of a report. It returns true if the report needs no further attempt: it succeeded,
// or the resource of a stopped VM no longer exists.
func (f *follower) noteResult(err error) bool {
	absent := statusCode(err) == http.StatusNotFound
	f.absent.Store(absent)
	if err == nil {
		f.failures = 0
		return true
	}
	f.failures++
	const manyFailures = 2
	switch statusCode(err) {
	case http.StatusNotFound: // it was deleted; a new resource has other times
		f.looked, f.since = false, transitions{}
		f.log.Debug("the status is not reported", "err", err)
	case http.StatusForbidden: // a just started API server also answers this
		if f.failures > manyFailures {
			f.logOnce("this pod may not report how its VM is", err)
		}
	case 0:
		f.logOnce("the status is not reported: the API server cannot be reached; the VM runs on, and what was missed will be caught up", err)
	default:
		f.logOnce("the status is not reported; it will be tried again", err)
	}
	return absent && f.newest.State == vmstatus.StateStopped
}

// logOnce logs a problem once.
func (f *follower) logOnce(what string, err error) {
	trouble := what
	if isRefusal(err) {
		trouble += err.Error()
	}
	if trouble != f.trouble {
		f.trouble = trouble
		f.log.Warn(what, "err", err)
	}
}

// logRecovered logs that reporting works again.
func (f *follower) logRecovered() {
	if f.trouble != "" {
		f.trouble = ""
		f.log.Info("the status is reported again")
	}
}
