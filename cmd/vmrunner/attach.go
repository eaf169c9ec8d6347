package main

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

func newConsole(f *flags) *cobra.Command {
	var watch, takeOver bool
	cmd := &cobra.Command{
		Use:   "console [NAME]",
		Short: "Show the guest's serial console and type on it",
		Long: "console shows the serial console, beginning with the last 64 KiB of its output.\n" +
			"On a terminal ^] disconnects; all other keys go to the guest. One client can type\n" +
			"at a time; any number can watch.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "only watch; on a terminal, Ctrl-C disconnects, too")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "disconnect the client that is typing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if watch && takeOver {
			return cli.UsageError{Err: errors.New("--watch and --take-over are mutually exclusive")}
		}
		client, err := vm.dial(cmd, args)
		if err != nil {
			return err
		}
		mode, ctrlC := control.Type, interruptGuest
		if watch {
			mode, ctrlC = control.Watch, interruptProgram
		}
		if takeOver {
			mode = control.Take
		}
		return showConsole(cmd, client, mode, ctrlC)
	}
	return cmd
}

// showConsole connects the console with the standard streams.
func showConsole(cmd *cobra.Command, client *control.Client, mode control.Mode, ctrlC interruptKey) error {
	conn, err := client.Console(cmd.Context(), mode)
	if err != nil {
		return hintTakeOver(err)
	}
	defer conn.Close()
	if stdin := int(os.Stdin.Fd()); term.IsTerminal(stdin) {
		restore, err := consoleMode(stdin, ctrlC)
		if err != nil {
			return err
		}
		defer restore()
		cmd.PrintErrln("Connected. ^] disconnects.")
	}
	return converse(cmd.Context(), conn, cmd.InOrStdin(), cmd.OutOrStdout())
}

// hintTakeOver adds what the user can do if another client is typing.
func hintTakeOver(err error) error {
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
