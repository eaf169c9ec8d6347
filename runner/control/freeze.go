package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"vmop/runner/status"
)

// How long the guest's file systems may be frozen: by default, and at most.
const (
	FreezeTime    = 10 * time.Second
	MaxFreezeTime = 60 * time.Second
)

// A Freezer freezes the guest's file systems, and thaws them. Its methods may be called concurrently. They return
// a Refusal if it isn't possible now.
type Freezer interface {
	// Freeze freezes them until Thaw, or until the limit is over. If it is not possible, the answer contains the
	// reason. If ctx ends before there is an answer, they are thawed.
	Freeze(ctx context.Context, limit time.Duration) (status.FreezeAnswer, error)
	// Thaw returns when they are thawed. If ctx ends earlier, the attempts continue.
	Thaw(ctx context.Context) (status.FreezeAnswer, error)
}

// errNoFreezer is the error if there is no VM that could freeze.
const errNoFreezer = notThere("this VM cannot freeze its guest's file systems")

func (s *Server) postFreeze(w http.ResponseWriter, r *http.Request) error {
	limit := FreezeTime
	if text := r.URL.Query().Get("time"); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil || limit <= 0 || limit > MaxFreezeTime {
			return badRequest{fmt.Errorf("time=%q: must be a duration such as %s, at most %s", text, FreezeTime,
				MaxFreezeTime)}
		}
	}
	return s.freezeFor(w, r, "freeze", limit+actionTime, func(ctx context.Context) (status.FreezeAnswer, error) {
		return s.opts.Freezer.Freeze(ctx, limit)
	})
}

func (s *Server) postThaw(w http.ResponseWriter, r *http.Request) error {
	return s.freezeFor(w, r, "thaw", actionTime, func(ctx context.Context) (status.FreezeAnswer, error) {
		return s.opts.Freezer.Thaw(ctx)
	})
}

// freezeFor carries out a request as long as the client waits for the answer.
func (s *Server) freezeFor(w http.ResponseWriter, r *http.Request, what string, limit time.Duration,
	do func(context.Context) (status.FreezeAnswer, error),
) error {
	if s.opts.Freezer == nil {
		return errNoFreezer
	}
	ctx, cancel := actionContext(r.Context(), limit)
	defer cancel()
	client := senderOf(r).String()
	s.opts.Log.Info("requested by a user", "command", what, "client", client)
	answer, err := do(ctx)
	if err != nil {
		if isClientGone(ctx) {
			err = errors.Join(errWithdrawn, err)
		}
		s.opts.Log.Info("the request was not carried out", "command", what, "client", client, "err", err)
		return err
	}
	return giveJSON(w, answer)
}

// Freeze asks the runner to freeze the guest's file systems for a time, at most MaxFreezeTime. The answer reports
// whether they are frozen. The runner thaws them if the client ends before it has the answer.
func (c *Client) Freeze(ctx context.Context, limit time.Duration) (a status.FreezeAnswer, err error) {
	err = c.postJSON(ctx, "/v1/freeze?time="+url.QueryEscape(limit.String()), nil, &a)
	return a, err
}

// Thaw returns when the guest's file systems are thawed.
func (c *Client) Thaw(ctx context.Context) (a status.FreezeAnswer, err error) {
	err = c.postJSON(ctx, "/v1/thaw", nil, &a)
	return a, err
}
