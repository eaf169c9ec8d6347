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
		Long: "console shows the serial console, with the last 64 KiB of what was written on it.\n" +
			"On a terminal ^] leaves it, all other keys go to the guest. One at a time can\n" +
			"type; any number can watch.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "only watch; on a terminal, Ctrl-C leaves, too")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "send away whoever types")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if watch && takeOver {
			return cli.UsageError{Err: errors.New("--watch and --take-over exclude each other")}
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
			cmd.PrintErrln("Connected. ^] leaves.")
		}
		return converse(cmd.Context(), conn, cmd.InOrStdin(), cmd.OutOrStdout())
	}
	return cmd
}

// hintTakeOver adds what a user could do.
func hintTakeOver(err error) error {
	var refused *control.AnswerError
	if errors.As(err, &refused) && refused.Code == http.StatusLocked {
		return errors.Join(err, errors.New("hint: --watch only watches, --take-over takes it"))
	}
	return err
}

// converse copies both ways until the console ends, the user detaches or a
// signal comes. The end of the input is not the end: a script may want to see
// what its words do.
func converse(ctx context.Context, conn net.Conn, in io.Reader, out io.Writer) error {
	shown, detached := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := io.Copy(out, conn)
		shown <- err
	}()
	go func() {
		if left, _ := forwardKeys(conn, in); left { // a console that has ended says so on the other way
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
