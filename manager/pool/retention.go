package pool

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Retention defines how long a VM is kept for its user: Until a fixed time or, if that is zero, For a duration after
// the last use.
type Retention struct {
	For   time.Duration
	Until time.Time
}

// defaultRetention applies to pools without spec.retention.
const defaultRetention = time.Hour

// longest is the maximum duration: 100 years. The sum of two fits into a time.Duration.
const longest = 100 * 365 * 24 * time.Hour

// ParseRetention parses spec.retention: an ISO 8601 duration, or an RFC 3339 time with or without seconds. "" means the
// default.
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
		return Retention{}, fmt.Errorf("spec.retention is %q: must be a duration such as PT1h, or a time such as "+
			"2026-12-24T18:00:00Z", text)
	}
	return r, nil
}

// addUnits adds one part of an ISO 8601 duration. units lists the allowed units in order. Years and months are not
// supported, as their length varies.
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

// End returns until when a VM that was last used at this time is kept.
func (r Retention) End(lastUsed time.Time) time.Time {
	if !r.Until.IsZero() {
		return r.Until
	}
	return lastUsed.Add(r.For)
}
