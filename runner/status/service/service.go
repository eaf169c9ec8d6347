// Package service reports the state of the VM to the service manager that has started the runner, for example
// systemd.
package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"vmop/runner/status"
	"vmop/runner/status/notify"
	"vmop/vmstatus"
)

// While the VM is being stopped or its disks are being created, the runner asks the service manager every
// extendEvery for extendBy more time. powerdownTimeout and the steps after it bound the duration of a stop
// (stop.go).
const (
	extendEvery = 20 * time.Second
	extendBy    = time.Minute
)

// A Service is the connection of one runner.
type Service struct {
	manager *notify.Manager // nil if there is no manager
	log     *slog.Logger
	alive   chan struct{} // see Alive
}

// New returns the connection with a manager; nil means that there is no manager.
func New(manager *notify.Manager, log *slog.Logger) *Service {
	return &Service{manager: manager, log: log}
}

// Alive returns a channel for the loop that controls the VM. The loop must receive from it whenever it waits;
// this proves to the manager's watchdog that the loop is running. The channel is nil without a watchdog, and
// valid after the call of Inform.
func (s *Service) Alive() <-chan struct{} { return s.alive }

// Reloading reports that the configuration is being read again.
func (s *Service) Reloading() {
	if s.manager != nil {
		s.sendMessages(notify.Reloading()...)
	}
}

// Reloaded reports the end of a reload, see Reloading.
func (s *Service) Reloaded() {
	if s.manager != nil {
		s.sendMessages(notify.Ready)
	}
}

// Inform passes the status on to the service manager until the VM has stopped. The returned function waits for
// that.
func (s *Service) Inform(ctx context.Context, tracker *status.Tracker) (wait func()) {
	if s.manager == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a stop request isn't the end
	if s.manager.Watchdog() > 0 {
		s.alive = make(chan struct{})
		go s.feedWatchdog(ctx)
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		s.followStatus(ctx, tracker)
	}()
	return func() {
		<-told
		cancel()
	}
}

// followStatus passes the status on.
func (s *Service) followStatus(ctx context.Context, tracker *status.Tracker) {
	pace := status.DefaultPace()
	pace.Burst = 4 * pace.Burst // the message that a stop takes longer must not wait
	sub := tracker.Subscribe(pace)
	defer sub.Close()
	var before status.Status
	again := time.Now() // when to extend the timeout next
	for {
		next, cancel := context.WithDeadline(ctx, again)
		if !isSlow(before) {
			cancel()
			next, cancel = context.WithCancel(ctx)
		}
		after, err := sub.Next(next)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			s.sendMessages(notify.ExtendTimeout(extendBy))
			again = time.Now().Add(extendEvery)
			continue
		case err != nil: // the end
			return
		}
		s.sendMessages(messagesFor(before, after)...)
		if isSlow(after) && !isSlow(before) || isEnding(after.State) && before.State != after.State {
			again = time.Now().Add(extendEvery)
		}
		before = after
	}
}

// isEnding reports whether the VM is being ended or cleaned up.
func isEnding(s vmstatus.State) bool {
	return s == vmstatus.StateTerminating || s == vmstatus.StateStopped
}

// isSlow reports whether the current step may exceed the manager's timeout: the end of a VM, or creating its disks
// from images. Both have their own limits.
func isSlow(s status.Status) bool {
	return isEnding(s.State) || s.Reason == vmstatus.ReasonPreparingDisks
}

// messagesFor returns the messages that report a change. To the manager, READY means that the start has finished: the
// guest is running.
func messagesFor(before, after status.Status) []string {
	var messages []string
	if after.State.Active() && !before.State.Active() {
		messages = append(messages, notify.Ready)
	}
	switch {
	case isEnding(after.State) && before.State != after.State:
		messages = append(messages, notify.Stopping, notify.ExtendTimeout(extendBy))
	case isSlow(after) && !isSlow(before):
		messages = append(messages, notify.ExtendTimeout(extendBy))
	}
	if text := inWords(after); text != inWords(before) {
		messages = append(messages, notify.Status(text))
	}
	return messages
}

// inWords describes a VM's state in one line.
func inWords(s status.Status) string {
	var words []string
	add := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			words = append(words, text)
		}
	}
	if ready := s.Condition(vmstatus.ConditionReady); s.State.Active() && ready.Status != vmstatus.True {
		add(ready.Message)
	} else {
		add(string(s.State))
		add(s.Message)
	}
	if s.State.Active() && s.Guest != nil && s.Guest.OS != nil {
		add(s.Guest.OS.PrettyName)
	}
	if fault, _, _ := strings.Cut(s.Configuration.Error, "\n"); !isEnding(s.State) {
		add(fault)
	}
	if len(s.RestartAwaitingChanges) > 0 {
		add("changes need a restart")
	}
	for _, p := range s.Problems {
		add(p.Path + " " + p.Message)
	}
	return strings.Join(words, "; ")
}

// feedWatchdog reports to the manager's watchdog that the VM's loop is running, twice as often as required.
func (s *Service) feedWatchdog(ctx context.Context) {
	tick := time.NewTicker(s.manager.Watchdog() / 2)
	defer tick.Stop()
	for {
		select {
		case s.alive <- struct{}{}:
			s.sendMessages(notify.Watchdog)
		case <-ctx.Done():
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sendMessages sends messages. Errors are only logged; they don't affect the VM.
func (s *Service) sendMessages(messages ...string) {
	if len(messages) == 0 {
		return
	}
	if err := s.manager.Send(messages...); err != nil {
		s.log.Warn("service manager", "err", err)
	}
}
