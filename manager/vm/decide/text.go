package decide

import (
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"vmop/internal/printable"
)

// MaxMessage limits messages, in bytes; the CRD rejects more than 8192 characters.
const MaxMessage = 4096

// Readable converts another program's text to one printable line of at most MaxMessage bytes.
func Readable(text string) string {
	return Shorten(printable.Line(strings.TrimSpace(text)), MaxMessage)
}

// Shorten cuts a text after at most limit bytes, between characters.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xC0 == 0x80 {
		limit--
	}
	return text[:limit] + "…"
}

// HappenedAt returns when an event last happened. The field depends on the API version that the event's writer used.
func HappenedAt(e *eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.DeprecatedLastTimestamp.IsZero():
		return e.DeprecatedLastTimestamp.Time
	}
	return e.EventTime.Time
}
