package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// snapshotTime limits the copying of disks.
const snapshotTime = 7 * 24 * time.Hour

// A Snapshotter creates snapshots of the VM. Its methods may be called concurrently.
type Snapshotter interface {
	// Snapshot creates a snapshot. If ctx ends before it is complete, it is removed. Snapshot calls tell often.
	// It returns a Refusal if the VM can't do it now.
	Snapshot(ctx context.Context, name string, freeze bool, tell func(CopyProgress)) (SnapshotAnswer, error)
}

// CopyProgress is the progress of copying the disks, in bytes.
type CopyProgress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// A SnapshotAnswer is the result of a request for a snapshot.
type SnapshotAnswer struct {
	Name string `json:"name"`
	// Frozen reports whether the guest's file systems were frozen. Otherwise the snapshot is crash-consistent,
	// and Message contains the reason.
	Frozen  bool   `json:"frozen"`
	Message string `json:"message,omitempty"`
}

// snapshotLine is a line of the answer: the progress, or the end.
type snapshotLine struct {
	Progress *CopyProgress   `json:"progress,omitempty"`
	Snapshot *SnapshotAnswer `json:"snapshot,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// postSnapshot creates a snapshot as long as the client waits for the answer, which has a line of JSON for each
// step.
func (s *Server) postSnapshot(w http.ResponseWriter, r *http.Request) error {
	if s.opts.Snapshotter == nil {
		return notThere("this VM cannot make snapshots")
	}
	freeze := true
	if text := r.URL.Query().Get("freeze"); text != "" {
		var err error
		if freeze, err = strconv.ParseBool(text); err != nil {
			return badRequest{fmt.Errorf("freeze=%q: must be true or false", text)}
		}
	}
	ctx, cancel := actionContext(r.Context(), snapshotTime)
	defer cancel()
	name, client := r.URL.Query().Get("name"), senderOf(r).String()
	s.opts.Log.Info("requested by a user", "command", "snapshot", "name", name, "client", client)
	begun := false
	say := func(l snapshotLine) {
		if !begun {
			w.Header().Set("Content-Type", eventsType)
			begun = true
		}
		_ = json.NewEncoder(w).Encode(l) // the client may have disconnected
		_ = http.NewResponseController(w).Flush()
	}
	tell := func(p CopyProgress) { say(snapshotLine{Progress: &p}) }
	answer, err := s.opts.Snapshotter.Snapshot(ctx, name, freeze, tell)
	if err != nil {
		if isClientGone(ctx) {
			err = errors.Join(errWithdrawn, err)
		}
		s.opts.Log.Warn("there is no snapshot", "name", name, "client", client, "err", err)
		if !begun {
			return err
		}
		say(snapshotLine{Error: err.Error()})
		return nil
	}
	s.opts.Log.Info("a snapshot was created", "name", name, "frozen", answer.Frozen)
	say(snapshotLine{Snapshot: &answer})
	return nil
}

// Snapshot asks the runner to create a snapshot of the VM. If freeze is true and it is possible, the guest's file
// systems are frozen. The runner gives up if the client ends before the snapshot is complete.
func (c *Client) Snapshot(
	ctx context.Context, name string, freeze bool, tell func(CopyProgress),
) (a SnapshotAnswer, err error) {
	path := "/v1/snapshots?name=" + url.QueryEscape(name) + "&freeze=" + strconv.FormatBool(freeze)
	r, err := c.doRequest(ctx, http.MethodPost, path, nil, nil)
	if err != nil {
		return a, err
	}
	defer r.closeRequest()
	for lines := json.NewDecoder(r.Body); ; {
		var l snapshotLine
		err := lines.Decode(&l)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return a, causeOf(ctx, errors.New("the runner has ended before the snapshot was whole; there is none"))
		case err != nil:
			return a, fmt.Errorf("read the runner's answer: %w", causeOf(ctx, err))
		case l.Error != "":
			return a, errors.New(l.Error)
		case l.Snapshot != nil:
			return *l.Snapshot, nil
		case l.Progress != nil:
			tell(*l.Progress)
		}
	}
}
