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

// A Reporter tells the API server what a tracker knows. Its methods may be called
// from any goroutine.
type Reporter struct {
	pod *Pod
	log *slog.Logger

	mu     sync.Mutex
	end    chan struct{}      // closed when everything is reported; nil until Follow
	hasten context.CancelFunc // no more waiting between attempts
	cancel context.CancelFunc // no more attempts
	absent atomic.Bool
}

// NewReporter returns the reporter of a pod.
func NewReporter(pod *Pod, log *slog.Logger) *Reporter { return &Reporter{pod: pod, log: log} }

// PodUID is the uid of the pod; empty if that is not known.
func (r *Reporter) PodUID() string { return r.pod.UID }

// Heard reports whether there is a resource to report to: false if the API server has said
// that there is no such VM.
func (r *Reporter) Heard() bool { return !r.absent.Load() }

// Follow begins to report what a tracker says, in the background, until it says
// that the VM has stopped, and that is reported. The namespace is that of the VM;
// empty means the pod's. What ends the context does not end this: see Close. It is
// called once at most.
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
		f.follow(life, patient, tracker)
	}()
}

// Done is closed when the final status is reported, or can't be. It is
// called after Follow.
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

// follower is the one goroutine of a reporter.
type follower struct {
	client *client
	log    *slog.Logger
	events *diary
	absent *atomic.Bool

	newest   status.Status
	since    transitions
	looked   bool   // since has what the resource says
	failures int    // in a row
	trouble  string // that was logged

	arrived bool      // the status says that the guest is to come
	again   time.Time // when the same is reported again; zero: never
}

// follow reports until the VM has stopped or life is over; when patient is over it
// doesn't wait any more for a better time.
func (f *follower) follow(life, patient context.Context, tracker *status.Tracker) {
	sub := tracker.Subscribe(status.DefaultPace())
	defer sub.Close()
	for {
		s, err := f.next(life, sub)
		if err != nil {
			return // the end has been reported, or is not to be
		}
		f.replace(s)
		f.collect(patient, sub, gathering(s, !f.looked))
		for {
			err := f.report(life)
			if f.settled(err) {
				break
			}
			if life.Err() != nil {
				f.log.Warn("the VM's final status can't be reported", "err", err)
				return
			}
			if patient.Err() == nil {
				f.collect(patient, sub, delay(err, f.failures))
			} else {
				f.collect(life, sub, lastRetry)
			}
		}
	}
}

// replace makes a status the one to be reported.
func (f *follower) replace(s status.Status) {
	f.events.record(f.newest, s, time.Now())
	f.newest = s
}

// collect takes in what comes within a time; the end of the VM ends it.
func (f *follower) collect(ctx context.Context, sub *status.Subscription, limit time.Duration) {
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
		f.replace(s)
		if s.State == vmstatus.StateStopped {
			return
		}
	}
}

// report reports the newest status.
func (f *follower) report(ctx context.Context) error {
	switch {
	case isLeaving(f.newest):
		return nil
	case isArriving(f.newest):
		return f.reportArrival(ctx)
	}
	if !f.looked {
		found, err := f.client.read(ctx)
		if err != nil {
			return err
		}
		f.looked = true
		f.since.remember(found.Status.Conditions)
	}
	r := newReport(f.client.pod, f.newest, f.since)
	found, err := f.apply(ctx, r)
	if refused(err) {
		f.complain("a part of the status is not reported: the API server refuses it", err)
		if found, err = f.apply(ctx, r.plain()); refused(err) {
			f.complain("the status is not reported: the API server refuses it", err)
			return nil // the next one may be better
		}
	} else if err == nil {
		f.content()
	}
	if err == nil {
		f.since.remember(found.Status.Conditions)
		f.afterArrival(ctx)
		f.events.send(ctx, found.Metadata.UID)
	}
	return err
}

// refused reports whether the API server, or what is between, does not take what was said:
// less of it may be taken.
func refused(err error) bool {
	return code(err) == http.StatusUnprocessableEntity || code(err) == http.StatusRequestEntityTooLarge
}

func (f *follower) apply(ctx context.Context, r report) (object, error) {
	body, err := r.body()
	if err != nil {
		return object{}, err
	}
	return f.client.apply(ctx, body)
}

// settled takes note of how a report went. It reports whether there is nothing more
// to do about it: it was reported, or there is nothing to report to.
func (f *follower) settled(err error) bool {
	absent := code(err) == http.StatusNotFound
	f.absent.Store(absent)
	if err == nil {
		f.failures = 0
		return true
	}
	f.failures++
	const manyFailures = 2
	switch code(err) {
	case http.StatusNotFound: // it was deleted; what is made anew has other times
		f.looked, f.since = false, transitions{}
		f.log.Debug("the status is not reported", "err", err)
	case http.StatusForbidden: // says an API server, too, that has just been started
		if f.failures > manyFailures {
			f.complain("this pod may not report how its VM is", err)
		}
	case 0:
		f.complain("the status is not reported: the API server cannot be reached; the VM runs on, and what was missed will be caught up", err)
	default:
		f.complain("the status is not reported; it will be tried again", err)
	}
	return absent && f.newest.State == vmstatus.StateStopped
}

// complain logs what is wrong, once.
func (f *follower) complain(what string, err error) {
	trouble := what
	if refused(err) {
		trouble += err.Error()
	}
	if trouble != f.trouble {
		f.trouble = trouble
		f.log.Warn(what, "err", err)
	}
}

// content logs that all is well again.
func (f *follower) content() {
	if f.trouble != "" {
		f.trouble = ""
		f.log.Info("the status is reported again")
	}
}
