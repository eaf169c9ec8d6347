package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"vmop/vmstatus"
)

// A Migrator moves the guest to another runner.
type Migrator interface {
	// Migrate returns nil if the guest continues at the target, and this VM has ended. If ctx ends before the
	// guest has been released, it stays. Migrate calls tell often, possibly concurrently. It returns a Refusal if
	// the guest can't be moved.
	Migrate(ctx context.Context, r MigrationRequest, tell func(vmstatus.Progress)) error
}

// A MigrationRequest contains the target of a migration and its limits.
type MigrationRequest struct {
	// Invitation is the text that the target's runner has written.
	Invitation json.RawMessage `json:"invitation"`
	// Downtime is how long the guest may be paused at the end, in nanoseconds; 0 means the default.
	Downtime time.Duration `json:"downtime,omitempty"`
	// Bandwidth limits the bytes sent per second; 0 means no limit.
	Bandwidth int64 `json:"bandwidth,omitempty"`
}

// migrationLine is a line of the answer: the progress, or the end.
type migrationLine struct {
	Progress *vmstatus.Progress `json:"progress,omitempty"`
	Moved    bool               `json:"moved,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// getInvitation hands out the invitation.
func (s *Server) getInvitation(w http.ResponseWriter, _ *http.Request) error {
	var text json.RawMessage
	if s.opts.Invitation != nil {
		text = s.opts.Invitation()
	}
	if text == nil {
		return notThere("this runner doesn't wait for the guest of another runner")
	}
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write(text) // the client may have disconnected
	return nil
}

// Invitation returns what the source needs to move its guest to this runner, which waits for a guest. It contains
// a key.
func (c *Client) Invitation(ctx context.Context) (json.RawMessage, error) {
	r, err := c.doRequest(ctx, http.MethodGet, "/v1/invitation", nil, nil)
	if err != nil {
		return nil, err
	}
	defer r.closeRequest()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("read the invitation: %w", causeOf(ctx, err))
	}
	return text, nil
}

// postMigrate moves the guest. If the client doesn't wait for the end, the guest stays, unless it was already
// released.
func (s *Server) postMigrate(w http.ResponseWriter, r *http.Request) error {
	if s.opts.Migrator == nil {
		return notThere("this VM cannot be migrated")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a unix socket has deadlines
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var request MigrationRequest
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.DisallowUnknownFields()
		err = dec.Decode(&request)
	}
	if err == nil && (request.Downtime < 0 || request.Bandwidth < 0 || request.Invitation == nil) {
		err = errors.New("must be an invitation, and neither downtime nor bandwidth below 0")
	}
	if err != nil {
		return badRequest{fmt.Errorf("read the request to migrate: %w", err)}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	ctx, cancel := actionContext(r.Context(), snapshotTime)
	defer cancel()
	client := senderOf(r).String()
	s.opts.Log.Info("requested by a user", "command", "migrate", "client", client)
	var mu sync.Mutex
	begun, over := false, false
	write := func(l migrationLine) {
		mu.Lock()
		defer mu.Unlock()
		if over { // the end was written, and w must not be used any more
			return
		}
		over = l.Progress == nil
		if !begun {
			w.Header().Set("Content-Type", eventsType)
			begun = true
		}
		_ = json.NewEncoder(w).Encode(l) // the client may have disconnected
		_ = http.NewResponseController(w).Flush()
	}
	err = s.opts.Migrator.Migrate(ctx, request, func(p vmstatus.Progress) { write(migrationLine{Progress: &p}) })
	mu.Lock()
	early := err != nil && !begun
	over = early
	mu.Unlock()
	switch {
	case early:
		return err
	case err != nil:
		write(migrationLine{Error: err.Error()})
	default:
		write(migrationLine{Moved: true})
	}
	return nil
}

// ErrMigrationUnknown reports that a guest may have been moved.
var ErrMigrationUnknown = errors.New("it is not known whether the guest has been moved")

// Migrate asks the runner to move its guest. It returns when the guest continues in the other runner, or the
// reason why it stays. If ctx ends earlier, the guest stays, unless it was already released: the error wraps the
// cause of ctx.
func (c *Client) Migrate(ctx context.Context, request MigrationRequest, tell func(vmstatus.Progress)) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := c.doRequest(ctx, http.MethodPost, "/v1/migrate", body, nil)
	if errors.Is(err, errNoAnswer) {
		return fmt.Errorf("%w: %w", ErrMigrationUnknown, err)
	} else if err != nil {
		return err
	}
	defer r.closeRequest()
	for lines := json.NewDecoder(r.Body); ; {
		var l migrationLine
		err := lines.Decode(&l)
		switch {
		case err != nil:
			return fmt.Errorf("%w: the runner's answer has ended: %w", ErrMigrationUnknown, causeOf(ctx, err))
		case l.Error != "":
			return errors.New(l.Error)
		case l.Moved:
			return nil
		case l.Progress != nil:
			tell(*l.Progress)
		}
	}
}
