package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"

	"golang.org/x/term"
)

// Bounds of what is kept while the console is shown.
const (
	longestPrompt = 4096 // of an incomplete line of the guest, in bytes
	mostHeld      = 500  // log records
)

// A consoleLog writes the guest's console and the log. Where both are the same terminal, no
// line of the guest is torn while the console is shown: records below the level warn are
// held until it is left, and others get lines of their own, after which the incomplete line
// of the guest is written again.
type consoleLog struct {
	console, log io.Writer
	shared       bool // they are the same terminal
	holds        bool // records below warn are held

	mu      sync.Mutex
	shown   bool
	begun   bool   // the cursor is in a line of the guest
	line    []byte // that line, unless it is too long
	held    [][]byte
	dropped int // of the oldest that were held
}

// newConsoleLog returns the consoleLog of the standard streams. holds says that records below
// the level warn can wait until the console is left.
func newConsoleLog(holds bool) *consoleLog {
	c := &consoleLog{console: os.Stdout, log: os.Stderr, holds: holds}
	out, err := os.Stdout.Stat()
	other, otherErr := os.Stderr.Stat()
	c.shared = err == nil && otherErr == nil && os.SameFile(out, other) && term.IsTerminal(int(os.Stderr.Fd()))
	return c
}

// show begins to show the console.
func (c *consoleLog) show() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = true
}

// leave ends the guest's incomplete line, and writes what was held.
func (c *consoleLog) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun && c.shared {
		fmt.Fprintln(c.log)
	}
	c.shown, c.begun, c.line = false, false, nil
	c.writeHeld()
}

// release writes what was held, and holds nothing from now on.
func (c *consoleLog) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = false
	c.writeHeld()
}

func (c *consoleLog) writeHeld() {
	if c.held == nil {
		return
	}
	all := bytes.Join(c.held, nil)
	if c.dropped > 0 {
		all = append(fmt.Appendf(nil, "(%d earlier messages of the log are left out)\n", c.dropped), all...)
	}
	c.held, c.dropped = nil, 0
	_, _ = c.between(all) // as a log does
}

// between writes whole lines.
func (c *consoleLog) between(lines []byte) (int, error) {
	if !c.shown || !c.shared || !c.begun {
		return c.log.Write(lines)
	}
	whole := slices.Concat([]byte("\n"), lines, c.line)
	if c.line == nil {
		c.begun = false
	}
	_, err := c.log.Write(whole)
	return len(lines), err
}

// Write writes what the guest has.
func (c *consoleLog) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.console.Write(data)
	if i := bytes.LastIndexByte(data, '\n'); i >= 0 {
		data, c.line, c.begun = data[i+1:], nil, false
	}
	if len(data) > 0 {
		c.line = append(c.line, data...)
		c.begun = true
	}
	if len(c.line) > longestPrompt {
		c.line = nil
	}
	return n, err
}

// consoleLines writes lines of the log or of this program to its terminal, held or at once.
type consoleLines struct {
	*consoleLog

	urgent bool
}

func (w consoleLines) Write(lines []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.urgent || !w.shown || !w.shared || !w.holds {
		return w.between(lines)
	}
	w.held = append(w.held, bytes.Clone(lines))
	if len(w.held) > mostHeld {
		w.held = w.held[1:]
		w.dropped++
	}
	return len(lines), nil
}

// byUrgency is a handler that has two others write: records from the level warn on, and the
// rest.
type byUrgency struct{ urgent, other slog.Handler }

func (h byUrgency) to(level slog.Level) slog.Handler {
	if level >= slog.LevelWarn {
		return h.urgent
	}
	return h.other
}

func (h byUrgency) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to(level).Enabled(ctx, level)
}

func (h byUrgency) Handle(ctx context.Context, r slog.Record) error {
	return h.to(r.Level).Handle(ctx, r)
}

func (h byUrgency) WithAttrs(attrs []slog.Attr) slog.Handler {
	return byUrgency{h.urgent.WithAttrs(attrs), h.other.WithAttrs(attrs)}
}

func (h byUrgency) WithGroup(name string) slog.Handler {
	return byUrgency{h.urgent.WithGroup(name), h.other.WithGroup(name)}
}
