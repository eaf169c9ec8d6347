package pool

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Retention is for how long a VM is kept for its user: For after the last use, or Until a time, if that
// isn't zero.
type Retention struct {
	For   time.Duration
	Until time.Time
}

// defaultRetention is that of a pool without one.
const defaultRetention = time.Hour

// durations are those that the definition of the resource accepts: ISO 8601 without years and months, which
// have no fixed length.
var durations = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,8})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?$`)
})

// ParseRetention reads spec.retention: a duration of ISO 8601, or a time of RFC 3339, with or without seconds. ""
// is the default.
func ParseRetention(text string) (Retention, error) {
	if text == "" {
		return Retention{For: defaultRetention}, nil
	}
	upper := strings.ReplaceAll(strings.ToUpper(text), ",", ".")
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, upper); err == nil {
			return Retention{Until: at}, nil
		}
	}
	parts := durations().FindStringSubmatch(upper)
	if parts == nil || upper == "P" || strings.HasSuffix(upper, "T") {
		return Retention{}, fmt.Errorf("spec.retention is %q: want a duration such as PT1h, or a time such as "+
			"2026-12-24T18:00:00Z", text)
	}
	var r Retention
	day := 24 * time.Hour
	for i, unit := range []time.Duration{7 * day, day, time.Hour, time.Minute, time.Second} {
		number, err := strconv.ParseFloat(parts[i+1], 64)
		if err != nil {
			number = 0 // left out
		}
		r.For += time.Duration(number * float64(unit))
	}
	return r, nil
}

// End returns until when a VM is kept that was last used at a time.
func (r Retention) End(lastUsed time.Time) time.Time {
	if !r.Until.IsZero() {
		return r.Until
	}
	return lastUsed.Add(r.For)
}
