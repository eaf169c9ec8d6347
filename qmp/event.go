package qmp

import (
	"encoding/json"
	"sync"
	"time"
)

// Event is a QMP event. See the events of the QEMU QMP Reference Manual.
type Event struct {
	Name string          // as QEMU spells it: SHUTDOWN
	Data json.RawMessage // a JSON object, nil if the event has no data
	Time time.Time       // from the host's clock; zero if QEMU did not know it
}

// eventQueue is the bounded buffer between the reader of the connection, which must never wait, and the only
// consumer of the events.
type eventQueue struct {
	maxCount, maxBytes int

	out  chan Event    // read by the consumer
	wake chan struct{} // notifies pump of changes
	stop chan struct{} // closed to stop the delivery

	mu      sync.Mutex
	events  []Event
	counts  map[string]int // of the queued events, by name
	bytes   int            // of the queued events
	dropped uint64
	ended   bool // no more events will arrive
	stopped bool
}

func newEventQueue(maxCount, maxBytes int) *eventQueue {
	return &eventQueue{
		maxCount: maxCount,
		maxBytes: maxBytes,
		out:      make(chan Event),
		wake:     make(chan struct{}, 1),
		stop:     make(chan struct{}),
		counts:   map[string]int{},
	}
}

func (e Event) sizeInBytes() int { return len(e.Name) + len(e.Data) }

// putEvent appends an event and drops events beyond the limits. It does not wait.
func (q *eventQueue) putEvent(e Event) {
	q.mu.Lock()
	if !q.stopped {
		q.events = append(q.events, e)
		q.counts[e.Name]++
		q.bytes += e.sizeInBytes()
		for len(q.events) > 1 && (len(q.events) > q.maxCount || q.bytes > q.maxBytes) {
			q.removeAt(q.victimIndex())
			q.dropped++
		}
	}
	q.mu.Unlock()
	q.signalPump()
}

// victimIndex returns the index of the oldest event of the most frequent kind.
func (q *eventQueue) victimIndex() int {
	most := 0
	for _, n := range q.counts {
		most = max(most, n)
	}
	for i, e := range q.events {
		if q.counts[e.Name] == most {
			return i
		}
	}
	return 0
}

func (q *eventQueue) removeAt(i int) Event {
	e := q.events[i]
	if i == 0 {
		q.events[0] = Event{}
		q.events = q.events[1:]
	} else {
		copy(q.events[i:], q.events[i+1:])
		q.events[len(q.events)-1] = Event{}
		q.events = q.events[:len(q.events)-1]
	}
	q.bytes -= e.sizeInBytes()
	if q.counts[e.Name]--; q.counts[e.Name] == 0 {
		delete(q.counts, e.Name)
	}
	return e
}

// popEvent returns the next event. If the queue is empty, more reports whether further events may arrive.
func (q *eventQueue) popEvent() (e Event, ok, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return Event{}, false, !q.ended
	}
	return q.removeAt(0), true, true
}

// endQueue marks the end of the events. Queued events are still delivered.
func (q *eventQueue) endQueue() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	q.signalPump()
}

// discardAll ends the queue and drops its events.
func (q *eventQueue) discardAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.stopped, q.ended = true, true
	q.events, q.counts, q.bytes = nil, nil, 0
	close(q.stop)
}

func (q *eventQueue) signalPump() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// listenAt passes events to the consumer until the queue has ended and is empty, or is discarded. It then closes the
// consumer's channel.
func (q *eventQueue) listenAt() {
	defer close(q.out)
	for {
		e, ok, more := q.popEvent()
		switch {
		case ok:
			select {
			case q.out <- e:
			case <-q.stop:
				return
			}
		case !more:
			return
		default:
			select {
			case <-q.wake:
			case <-q.stop:
				return
			}
		}
	}
}
