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

// Limits of the data kept while the console is shown.
const (
	longestPrompt = 4096 // of the guest's incomplete line, in bytes
	mostHeld      = 500  // log records
)

// consoleLog writes the guest's console and the log. If both go to the same terminal, the log does not interrupt
// the guest's lines while the console is shown. Records below the level warn are held until the console is left.
// Other records are written on separate lines, and the guest's incomplete line is written again after them.
type consoleLog struct {
	console, log io.Writer
	shared       bool // console and log use the same terminal
	holds        bool // records below warn are held

	mu      sync.Mutex
	shown   bool
	begun   bool   // the cursor is within a line of the guest
	line    []byte // that line, unless it is too long
	held    [][]byte
	dropped int // number of dropped records, the oldest held
}

// newConsoleLog returns the consoleLog of the standard streams. holds specifies whether records below the level
// warn wait until the console is left.
func newConsoleLog(holds bool) *consoleLog {
	c := &consoleLog{console: os.Stdout, log: os.Stderr, holds: holds}
	out, err := os.Stdout.Stat()
	other, otherErr := os.Stderr.Stat()
	c.shared = err == nil && otherErr == nil && os.SameFile(out, other) && term.IsTerminal(int(os.Stderr.Fd()))
	return c
}

// showConsole marks the console as shown.
func (c *consoleLog) showConsole() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = true
}

// endLine ends the guest's incomplete line and writes the held records.
func (c *consoleLog) endLine() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun && c.shared {
		fmt.Fprintln(c.log)
	}
	c.shown, c.begun, c.line = false, false, nil
	c.writeHeld()
}

// releaseHeld writes the held records and stops holding records.
func (c *consoleLog) releaseHeld() {
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
	_, _ = c.writeBetween(all) // like a log, ignore errors
}

// writeBetween writes whole lines between the guest's output.
func (c *consoleLog) writeBetween(lines []byte) (int, error) {
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

// Write writes the guest's output.
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

// consoleLines writes lines of the log or of this program to the terminal, either immediately or when the console
// is left.
type consoleLines struct {
	*consoleLog

	urgent bool
}

func (w consoleLines) Write(lines []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.urgent || !w.shown || !w.shared || !w.holds {
		return w.writeBetween(lines)
	}
	w.held = append(w.held, bytes.Clone(lines))
	if len(w.held) > mostHeld {
		w.held = w.held[1:]
		w.dropped++
	}
	return len(lines), nil
}

// byUrgency is a handler that passes records from the level warn on to one handler, and the rest to another.
type byUrgency struct{ urgent, other slog.Handler }

func (h byUrgency) handlerFor(level slog.Level) slog.Handler {
	if level >= slog.LevelWarn {
		return h.urgent
	}
	return h.other
}

func (h byUrgency) Enabled(ctx context.Context, level slog.Level) bool {
	return h.handlerFor(level).Enabled(ctx, level)
}

func (h byUrgency) Handle(ctx context.Context, r slog.Record) error {
	return h.handlerFor(r.Level).Handle(ctx, r)
}

func (h byUrgency) WithAttrs(attrs []slog.Attr) slog.Handler {
	return byUrgency{h.urgent.WithAttrs(attrs), h.other.WithAttrs(attrs)}
}

func (h byUrgency) WithGroup(name string) slog.Handler {
	return byUrgency{h.urgent.WithGroup(name), h.other.WithGroup(name)}
}
