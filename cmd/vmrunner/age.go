package main

import (
	"fmt"
	"time"
)

// firstNonEmpty returns the first text that is not empty.
func firstNonEmpty(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// shortDuration formats a duration in one or two units: "45s", "3m20s", "5h", "12d".
func shortDuration(d time.Duration) string {
	seconds := int(max(d, 0).Seconds())
	switch {
	case seconds < 120:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 600:
		return fmt.Sprintf("%dm%ds", seconds/60, seconds%60)
	case seconds < 3*3600:
		return fmt.Sprintf("%dm", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%dh", seconds/3600)
	}
	return fmt.Sprintf("%dd", seconds/(24*3600))
}
