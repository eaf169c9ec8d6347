// Package service tells the service manager that has started a runner, systemd for
// example, how the VM is.
package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"vmop/runner/notify"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// While the VM is being stopped, or its disks are being made, the service manager gets a message
// every extendEvery that it takes extendBy longer. How long a stop lasts is bounded by
// powerdownTimeout and by what follows it (stop.go).
const (
	extendEvery = 20 * time.Second
	extendBy    = time.Minute
)

// A Service is the connection of one runner.
type Service struct {
	manager *notify.Manager // nil: there is none
	log     *slog.Logger
	alive   chan struct{} // see Alive
}

// New returns the connection with a manager; nil means that there is none.
func New(manager *notify.Manager, log *slog.Logger) *Service {
	return &Service{manager: manager, log: log}
}

// Alive is to be received from by the loop that looks after the VM, whenever it
// waits: it proves to the manager's watchdog that the loop turns. It is nil where
// there is no watchdog, and is valid once Inform was called.
func (s *Service) Alive() <-chan struct{} { return s.alive }

// Reloading says that the configuration is being read again; Reloaded that it has
// been.
func (s *Service) Reloading() {
	if s.manager != nil {
		s.send(notify.Reloading()...)
	}
}

// Reloaded ends what Reloading began.
func (s *Service) Reloaded() {
	if s.manager != nil {
		s.send(notify.Ready)
	}
}

// Inform tells the service manager what the status says, until it says that
// the VM has stopped. The function that is returned waits for that.
func (s *Service) Inform(ctx context.Context, tracker *status.Tracker) (wait func()) {
	if s.manager == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a stop request isn't the end
	if s.manager.Watchdog() > 0 {
		s.alive = make(chan struct{})
		go s.watch(ctx)
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		s.follow(ctx, tracker)
	}()
	return func() {
		<-told
		cancel()
	}
}

// follow hands on what the status says.
func (s *Service) follow(ctx context.Context, tracker *status.Tracker) {
	pace := status.DefaultPace()
	pace.Burst = 4 * pace.Burst // the message that a stop takes longer must not wait
	sub := tracker.Subscribe(pace)
	defer sub.Close()
	var before status.Status
	again := time.Now() // when to extend the end's time, if it isn't over
	for {
		next, cancel := context.WithDeadline(ctx, again)
		if !slow(before) {
			cancel()
			next, cancel = context.WithCancel(ctx)
		}
		after, err := sub.Next(next)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			s.send(notify.ExtendTimeout(extendBy))
			again = time.Now().Add(extendEvery)
			continue
		case err != nil: // the end
			return
		}
		s.send(news(before, after)...)
		if slow(after) && !slow(before) || ending(after.State) && before.State != after.State {
			again = time.Now().Add(extendEvery)
		}
		before = after
	}
}

// ending reports whether the VM is being ended, or everything cleaned up after it.
func ending(s vmstatus.State) bool {
	return s == vmstatus.StateTerminating || s == vmstatus.StateStopped
}

// slow reports whether what is being done may take longer than the manager waits: the end of a VM,
// or making its disks of images, which has limits of its own.
func slow(s status.Status) bool {
	return ending(s.State) || s.Reason == vmstatus.ReasonPreparingDisks
}

// news are the messages that tell of a change. The manager takes READY for the
// end of the start: the guest runs.
func news(before, after status.Status) []string {
	var messages []string
	if after.State.Active() && !before.State.Active() {
		messages = append(messages, notify.Ready)
	}
	switch {
	case ending(after.State) && before.State != after.State:
		messages = append(messages, notify.Stopping, notify.ExtendTimeout(extendBy))
	case slow(after) && !slow(before):
		messages = append(messages, notify.ExtendTimeout(extendBy))
	}
	if text := inWords(after); text != inWords(before) {
		messages = append(messages, notify.Status(text))
	}
	return messages
}

// inWords says in one line how a VM is.
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
	if fault, _, _ := strings.Cut(s.Configuration.Error, "\n"); !ending(s.State) {
		add(fault)
	}
	if len(s.RestartAwaitingChanges) > 0 {
		add("changes await a restart")
	}
	for _, p := range s.Problems {
		add(p.Path + " " + p.Message)
	}
	return strings.Join(words, "; ")
}

// watch tells the manager's watchdog that the VM's loop turns, twice as often
// as the manager wants to hear it.
func (s *Service) watch(ctx context.Context) {
	tick := time.NewTicker(s.manager.Watchdog() / 2)
	defer tick.Stop()
	for {
		select {
		case s.alive <- struct{}{}:
			s.send(notify.Watchdog)
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

// send sends messages. A manager that can't be reached changes nothing for the
// VM.
func (s *Service) send(messages ...string) {
	if len(messages) == 0 {
		return
	}
	if err := s.manager.Send(messages...); err != nil {
		s.log.Warn("service manager", "err", err)
	}
}
