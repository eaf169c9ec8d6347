package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
)

// Limits of the queue of a reader of events.
const (
	maxQueue      = 256
	maxQueueBytes = 256 << 10
)

// An Event is one line of the stream of events.
type Event struct {
	// Type is TypeStatus, TypeQMP or TypeDropped.
	Type string `json:"type"`
	// Time is when it happened.
	Time time.Time `json:"time"`
	// Status is the whole status after a change (TypeStatus).
	Status *status.Status `json:"status,omitempty"`
	// Event is the name of QEMU's event, Data its data (TypeQMP).
	Event string          `json:"event,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
	// Count is the number of QMP events that are missing here because the reader was too slow (TypeDropped).
	Count int `json:"count,omitempty"`
}

// The types of events.
const (
	TypeStatus  = "status"
	TypeQMP     = "qmp"
	TypeDropped = "dropped"
)

// feed distributes events to their readers.
type feed struct {
	mu      sync.Mutex
	readers map[*reader]struct{}
}

// reader is the queue of one reader.
type reader struct {
	wake chan struct{}

	mu      sync.Mutex
	queue   []line
	bytes   int
	dropped int
	ended   bool
}

// line is an encoded Event.
type line struct {
	kind string
	text []byte
}

func (f *feed) addReader() *reader {
	r := &reader{wake: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers == nil {
		f.readers = map[*reader]struct{}{}
	}
	f.readers[r] = struct{}{}
	return r
}

func (f *feed) removeReader(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
}

// putEvent queues a QMP event for all readers. It doesn't wait for them.
func (f *feed) putEvent(e qmp.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) == 0 {
		return
	}
	l, err := encodeEvent(Event{Type: TypeQMP, Time: e.Time.UTC(), Event: e.Name, Data: e.Data})
	if err != nil {
		return // QEMU's data is JSON: the session has parsed it
	}
	for r := range f.readers {
		r.putLine(l)
	}
}

func encodeEvent(e Event) (line, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return line{}, fmt.Errorf("encode an event: %w", err)
	}
	return line{kind: e.Type, text: append(text, '\n')}, nil
}

// putLine appends a line. A status replaces earlier statuses. If there are too many QMP events, the oldest are
// dropped.
func (r *reader) putLine(l line) {
	r.mu.Lock()
	if l.kind == TypeStatus {
		r.removeLines(func(old line) bool { return old.kind == TypeStatus }, len(r.queue))
	}
	r.queue = append(r.queue, l)
	r.bytes += len(l.text)
	for r.bytes > maxQueueBytes || len(r.queue) > maxQueue {
		n := r.removeLines(func(old line) bool { return old.kind == TypeQMP }, 1)
		if n == 0 {
			break // a status is queued regardless of its size
		}
		r.dropped += n
	}
	r.mu.Unlock()
	r.signalReader()
}

// removeLines removes the oldest lines of a kind, at most atMost.
func (r *reader) removeLines(which func(line) bool, atMost int) int {
	removed, kept := 0, r.queue[:0]
	for _, l := range r.queue {
		if removed < atMost && which(l) {
			removed++
			r.bytes -= len(l.text)
			continue
		}
		kept = append(kept, l)
	}
	clear(r.queue[len(kept):])
	r.queue = kept
	return removed
}

// endLines marks the end of the lines.
func (r *reader) endLines() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.signalReader()
}

func (r *reader) signalReader() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// nextLines waits for lines and returns all queued lines; io.EOF after the last.
func (r *reader) nextLines(ctx context.Context) ([]byte, error) {
	for {
		text, ended, err := r.collectLines()
		switch {
		case err != nil:
			return nil, err
		case len(text) > 0:
			return text, nil
		case ended:
			return nil, io.EOF
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *reader) collectLines() (text []byte, ended bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped > 0 {
		l, err := encodeEvent(Event{Type: TypeDropped, Time: time.Now().UTC(), Count: r.dropped})
		if err != nil {
			return nil, false, err
		}
		text = l.text
	}
	for _, l := range r.queue {
		text = append(text, l.text...)
	}
	r.queue, r.bytes, r.dropped = nil, 0, 0
	return text, r.ended, nil
}

// Event queues a QMP event for all readers of events. It doesn't wait for them.
func (s *Server) Event(e qmp.Event) { s.feed.putEvent(e) }

// getHistory answers with the latest happenings.
func (s *Server) getHistory(w http.ResponseWriter, _ *http.Request) error {
	return giveJSON(w, s.opts.Tracker.History())
}

// getEvents streams events until the VM has stopped or the client disconnects.
func (s *Server) getEvents(w http.ResponseWriter, req *http.Request) error {
	want, err := eventTypes(req.URL.Query().Get("types"))
	if err != nil {
		return err
	}
	r := &reader{wake: make(chan struct{}, 1)}
	if want[TypeQMP] {
		r = s.feed.addReader()
		defer s.feed.removeReader(r)
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	var publishing sync.WaitGroup
	defer publishing.Wait()
	defer cancel()
	publishing.Go(func() { s.publishStatus(ctx, r, want[TypeStatus]) })
	w.Header().Set("Content-Type", eventsType)
	for {
		if err := http.NewResponseController(w).Flush(); err != nil { // the header, before the first event
			return nil
		}
		text, err := r.nextLines(ctx)
		if err != nil {
			return nil // the VM has stopped, or the client has disconnected
		}
		if _, err := w.Write(text); err != nil {
			return nil
		}
	}
}

// publishStatus queues status changes for a reader, and their end.
func (s *Server) publishStatus(ctx context.Context, r *reader, wanted bool) {
	defer r.endLines()
	sub := s.opts.Tracker.Subscribe(status.DefaultPace())
	defer sub.Close()
	for {
		st, err := sub.Next(ctx)
		if err != nil {
			return
		}
		if !wanted {
			continue
		}
		if l, err := encodeEvent(Event{Type: TypeStatus, Time: time.Now().UTC(), Status: &st}); err == nil {
			r.putLine(l)
		}
	}
}

// eventTypes parses the list of requested types.
func eventTypes(list string) (map[string]bool, error) {
	if list == "" {
		list = TypeStatus + "," + TypeQMP
	}
	want := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if name != TypeStatus && name != TypeQMP {
			return nil, badRequest{fmt.Errorf("types=%q: must be status, qmp or both", list)}
		}
		want[name] = true
	}
	return want, nil
}
