package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"vmop/cli"
	"vmop/runner/images"
)

// progressTime is how often a line that tells how far something has come is written anew.
const progressTime = 200 * time.Millisecond

// progress shows how far something has come: on a terminal in one line that is written anew, else a
// line for each step.
type progress struct {
	cmd      *cobra.Command
	terminal bool
	step     images.Step
	last     string
	written  time.Time
}

func newProgress(cmd *cobra.Command) *progress {
	return &progress{cmd: cmd, terminal: term.IsTerminal(int(os.Stderr.Fd()))}
}

// show shows a progress. One goroutine calls it at a time.
func (p *progress) show(now images.Progress) {
	if now.Step != p.step {
		p.step, p.written = now.Step, time.Time{}
	} else if !p.terminal {
		return
	}
	p.write(now.String())
}

// write shows a text, unless the last one was shown a moment ago.
func (p *progress) write(text string) {
	switch now := time.Now(); {
	case text == p.last || p.terminal && now.Sub(p.written) < progressTime:
	case p.terminal:
		const clearLine = "\r\x1b[K"
		p.cmd.PrintErr(clearLine, cli.Printable(text))
		p.last, p.written = text, now
	default:
		p.cmd.PrintErrln(cli.Printable(text))
		p.last = text
	}
}

// end takes the line away.
func (p *progress) end() {
	if p.terminal && p.last != "" {
		p.cmd.PrintErr("\r\x1b[K")
	}
	p.last = ""
}

// amount returns a number of bytes for a table: "2.0 GiB", "-" for none.
func amount(n int64) string {
	const unit = 1024
	switch {
	case n == 0:
		return "-"
	case n < unit*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/(unit*unit))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(unit*unit*unit))
}
