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

// snapshotTime limits how long the copy of disks may take.
const snapshotTime = 7 * 24 * time.Hour

// A Snapshotter makes snapshots of the VM. Its methods may be called concurrently.
type Snapshotter interface {
	// Snapshot makes one. If ctx ends before it is whole, nothing is left of it. tell is called
	// often. It returns a Refusal if the VM can't do that now.
	Snapshot(ctx context.Context, name string, freeze bool, tell func(CopyProgress)) (SnapshotAnswer, error)
}

// CopyProgress is how much of the disks was copied, in bytes.
type CopyProgress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// A SnapshotAnswer is what became of a request for a snapshot.
type SnapshotAnswer struct {
	Name string `json:"name"`
	// Frozen reports whether the guest's file systems were frozen. If not, the snapshot is
	// crash-consistent, and Message says why.
	Frozen  bool   `json:"frozen"`
	Message string `json:"message,omitempty"`
}

// snapshotLine is a line of the answer: how far it has come, or the end.
type snapshotLine struct {
	Progress *CopyProgress   `json:"progress,omitempty"`
	Snapshot *SnapshotAnswer `json:"snapshot,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// postSnapshot makes a snapshot as long as the client awaits the answer, which is a line of JSON
// for each step.
func (s *Server) postSnapshot(w http.ResponseWriter, r *http.Request) error {
	if s.opts.Snapshotter == nil {
		return notThere("this VM cannot make snapshots")
	}
	freeze := true
	if text := r.URL.Query().Get("freeze"); text != "" {
		var err error
		if freeze, err = strconv.ParseBool(text); err != nil {
			return badRequest{fmt.Errorf("freeze=%q: want true or false", text)}
		}
	}
	ctx, cancel := withdrawable(r.Context(), snapshotTime)
	defer cancel()
	name, client := r.URL.Query().Get("name"), who(r).String()
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
		if isGone(ctx) {
			err = errors.Join(errWithdrawn, err)
		}
		s.opts.Log.Warn("there is no snapshot", "name", name, "client", client, "err", err)
		if !begun {
			return err
		}
		say(snapshotLine{Error: err.Error()})
		return nil
	}
	s.opts.Log.Info("a snapshot was made", "name", name, "frozen", answer.Frozen)
	say(snapshotLine{Snapshot: &answer})
	return nil
}

// Snapshot has the runner make a snapshot of the VM, with the guest's file systems frozen if that is
// wanted and possible. The runner gives up if the client ends before.
func (c *Client) Snapshot(
	ctx context.Context, name string, freeze bool, tell func(CopyProgress),
) (a SnapshotAnswer, err error) {
	path := "/v1/snapshots?name=" + url.QueryEscape(name) + "&freeze=" + strconv.FormatBool(freeze)
	r, err := c.do(ctx, http.MethodPost, path, nil, nil)
	if err != nil {
		return a, err
	}
	defer r.close()
	for lines := json.NewDecoder(r.Body); ; {
		var l snapshotLine
		err := lines.Decode(&l)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return a, because(ctx, errors.New("the runner has ended before the snapshot was whole; there is none"))
		case err != nil:
			return a, fmt.Errorf("read the runner's answer: %w", because(ctx, err))
		case l.Error != "":
			return a, errors.New(l.Error)
		case l.Snapshot != nil:
			return *l.Snapshot, nil
		case l.Progress != nil:
			tell(*l.Progress)
		}
	}
}
