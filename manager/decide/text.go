package decide

import (
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"vmop/printable"
)

// MaxMessage bounds messages, in bytes; the CRD refuses more than 8192 characters.
const MaxMessage = 4096

// Readable makes a text of another program one printable line of at most MaxMessage bytes.
func Readable(text string) string {
	return Shorten(printable.Line(strings.TrimSpace(text)), MaxMessage)
}

// Shorten cuts a text after at most so many bytes, between characters.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xC0 == 0x80 {
		limit--
	}
	return text[:limit] + "…"
}

// HappenedAt is when an event happened last, in whichever field its writer's version of
// the API has that.
func HappenedAt(e *eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.DeprecatedLastTimestamp.IsZero():
		return e.DeprecatedLastTimestamp.Time
	}
	return e.EventTime.Time
}
