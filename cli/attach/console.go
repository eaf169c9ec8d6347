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

	"vmop/cli"
	"vmop/runner/control"
)

// Modes are the flags by which a user says how to open a console or a screen.
type Modes struct{ watch, takeOver bool }

// Add adds the flags to a verb. keys says how watching ends, for the help.
func (m *Modes) Add(cmd *cobra.Command, keys string) {
	cmd.Flags().BoolVar(&m.watch, "watch", false, "only watch"+keys)
	cmd.Flags().BoolVar(&m.takeOver, "take-over", false, "disconnect the client that is typing")
}

// Mode returns the mode that the flags say.
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

// Console connects the serial console with the standard streams, until it ends, the user
// detaches or ctx of cmd is done. connected is said on a terminal first.
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
	return converse(cmd.Context(), conn, cmd.InOrStdin(), cmd.OutOrStdout())
}

// HintTakeOver adds what the user can do if another client is typing.
func HintTakeOver(err error) error {
	var refused *control.AnswerError
	if errors.As(err, &refused) && refused.Code == http.StatusLocked {
		return errors.Join(err, errors.New("use --watch to only watch, or --take-over to disconnect the other client"))
	}
	return err
}

// converse copies in both directions until the console ends, the user detaches or a
// signal arrives. At the end of the input it continues, so that a script sees the
// output of its commands.
func converse(ctx context.Context, conn net.Conn, in io.Reader, out io.Writer) error {
	shown, detached := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := io.Copy(out, conn)
		shown <- err
	}()
	go func() {
		if left, _ := forwardKeys(conn, in); left { // the end of the console is seen by the other goroutine
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
