package cli

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// progressTime is the minimum time between two updates of the progress line.
const progressTime = 200 * time.Millisecond

// Progress shows the progress of an operation on standard error: on a terminal as one line that is updated,
// otherwise as one line per step. It isn't safe for concurrent use.
type Progress struct {
	cmd      *cobra.Command
	terminal bool
	step     string
	last     string
	written  time.Time
}

// NewProgress returns a Progress for a verb.
func NewProgress(cmd *cobra.Command) *Progress {
	return &Progress{cmd: cmd, terminal: term.IsTerminal(int(os.Stderr.Fd()))}
}

// Show shows a text about a step. A terminal shows every text. Other output shows only the first text of each step.
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

// clearLine returns to the beginning of the line and clears it.
const clearLine = "\r\x1b[K"

// OnTerminal reports whether the progress line can be updated.
func (p *Progress) OnTerminal() bool { return p.terminal }

// End removes the progress line.
func (p *Progress) End() {
	if p.terminal && p.last != "" {
		p.cmd.PrintErr(clearLine)
	}
	p.last = ""
}
