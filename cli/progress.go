package cli

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// progressTime is how often a line that tells how far something has come is written anew.
const progressTime = 200 * time.Millisecond

// Progress shows on the standard error how far something has come: on a terminal in one line that is written anew,
// else a line for each step. One goroutine uses it at a time.
type Progress struct {
	cmd      *cobra.Command
	terminal bool
	step     string
	last     string
	written  time.Time
}

// NewProgress returns the progress of what a verb does.
func NewProgress(cmd *cobra.Command) *Progress {
	return &Progress{cmd: cmd, terminal: term.IsTerminal(int(os.Stderr.Fd()))}
}

// Show shows a text about a step. Of several about the same step only a terminal gets more than the first.
func (p *Progress) Show(step, text string) {
	if step != p.step {
		p.step, p.written = step, time.Time{}
	} else if !p.terminal && p.last != "" {
		return
	}
	switch now := time.Now(); {
	case text == p.last || p.terminal && now.Sub(p.written) < progressTime:
	case p.terminal:
		p.cmd.PrintErr(clearLine, Printable(text))
		p.last, p.written = text, now
	default:
		p.cmd.PrintErrln(Printable(text))
		p.last = text
	}
}

// clearLine goes to the beginning of the line, and clears it.
const clearLine = "\r\x1b[K"

// OnTerminal reports whether the line can be written anew.
func (p *Progress) OnTerminal() bool { return p.terminal }

// End takes the line away.
func (p *Progress) End() {
	if p.terminal && p.last != "" {
		p.cmd.PrintErr(clearLine)
	}
	p.last = ""
}
