// Package logbook stores the output of programs, for tests.
package logbook

import (
	"strings"
	"sync"
)

// Logbook is a writer that can be read at any time. The zero value is empty.
type Logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *Logbook) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// String returns the complete output so far.
func (l *Logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
