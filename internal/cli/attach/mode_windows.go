package attach

import (
	"fmt"

	"golang.org/x/term"
)

// ConsoleMode makes the terminal deliver each key unprocessed. Ctrl-C always goes to the guest.
func ConsoleMode(fd int, _ Interrupt) (restore func(), err error) {
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("set the terminal for the console: %w", err)
	}
	return func() { _ = term.Restore(fd, before) }, nil // the terminal may be gone
}
