package attach

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"vmop/internal/cli"
	"vmop/runner/control"
)

// Modes contains the flags for how to open a console or a screen.
type Modes struct{ watch, takeOver bool }

// Add adds the flags to a verb. keys describes for the help how to stop watching.
func (m *Modes) Add(cmd *cobra.Command, keys string) {
	cmd.Flags().BoolVar(&m.watch, "watch", false, "only watch"+keys)
	cmd.Flags().BoolVar(&m.takeOver, "take-over", false, "disconnect the client that is typing, and type instead")
}

// Mode returns the mode that the flags select.
func (m *Modes) Mode() (control.Mode, error) {
	switch {
	case m.watch && m.takeOver:
		return "", cli.UsageError{Err: errors.New("--watch and --take-over are mutually exclusive")}
	case m.watch:
		return control.Watch, nil
	case m.takeOver:
		return control.Take, nil
	}
	return control.Type, nil
}

// Console connects the serial console with the standard streams, until the console ends, the user detaches or ctx of
// cmd is done. On a terminal it first prints connected.
func Console(cmd *cobra.Command, client Runner, mode control.Mode, connected string) error {
	conn, err := client.Console(cmd.Context(), mode)
	if err != nil {
		return HintTakeOver(err)
	}
	defer conn.Close()
	if stdin := int(os.Stdin.Fd()); term.IsTerminal(stdin) {
		ctrlC := InterruptGuest
		if mode == control.Watch {
			ctrlC = InterruptProgram
		}
		restore, err := ConsoleMode(stdin, ctrlC)
		if err != nil {
			return err
		}
		defer restore()
		cmd.PrintErrln(connected)
	}
	return converseWith(cmd.Context(), conn, cmd.InOrStdin(), cmd.OutOrStdout())
}

// HintTakeOver adds a hint to the error if another client is typing.
func HintTakeOver(err error) error {
	var refused *control.AnswerError
	if errors.As(err, &refused) && refused.Code == http.StatusLocked {
		return errors.Join(err, errors.New("use --watch to only watch, or --take-over to disconnect the other client"))
	}
	return err
}

// converseWith copies in both directions until the console ends, the user detaches or a signal arrives. It continues at
// the end of the input, so a script sees the output of its commands.
func converseWith(ctx context.Context, conn net.Conn, in io.Reader, out io.Writer) error {
	shown, detached := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := io.Copy(out, conn)
		shown <- err
	}()
	go func() {
		if left, _ := forwardKeys(conn, in); left { // the other goroutine notices the end of the console
			close(detached)
		}
	}()
	select {
	case err := <-shown:
		return err
	case <-detached:
	case <-ctx.Done():
	}
	return nil
}
