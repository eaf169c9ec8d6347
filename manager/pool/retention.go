package pool

import (
	"fmt"
	"strconv"
	"strings"
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

// longest is what a longer duration counts as: 100 years, which a time.Duration can hold twice.
const longest = 100 * 365 * 24 * time.Hour

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
	r := Retention{}
	rest, is := strings.CutPrefix(upper, "P")
	date, clock, timed := strings.Cut(rest, "T")
	if !is || rest == "" || timed && clock == "" || !r.addUnits(date, "WD") || !r.addUnits(clock, "HMS") {
		return Retention{}, fmt.Errorf("spec.retention is %q: want a duration such as PT1h, or a time such as "+
			"2026-12-24T18:00:00Z", text)
	}
	return r, nil
}

// addUnits adds a part of a duration, whose units are some of those in the order given. Years and months have no
// fixed length.
func (r *Retention) addUnits(text, units string) (ok bool) {
	lengths := map[rune]time.Duration{
		'W': 7 * 24 * time.Hour, 'D': 24 * time.Hour, 'H': time.Hour, 'M': time.Minute, 'S': time.Second,
	}
	for _, unit := range units {
		number, rest, has := strings.Cut(text, string(unit))
		if !has {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || n < 0 || n >= 1e9 || strings.Trim(number, "0123456789.") != "" ||
			unit != 'S' && strings.Contains(number, ".") {
			return false
		}
		r.For = min(longest, r.For+time.Duration(min(n*float64(lengths[unit]), float64(longest))))
		text = rest
	}
	return text == ""
}

// End returns until when a VM is kept that was last used at a time.
func (r Retention) End(lastUsed time.Time) time.Time {
	if !r.Until.IsZero() {
		return r.Until
	}
	return lastUsed.Add(r.For)
}
