package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"vmop/internal/cli"
	"vmop/manager/access/login"
)

func newHashPassword() *cobra.Command {
	return &cobra.Command{
		Use:   "hash-password",
		Short: "Print the hash of a password, for a local user",
		Long: "Read a password from the terminal or from the first line of standard input, and print\n" +
			"its bcrypt hash for the configuration.",
		Args: cli.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, err := readPassword(cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			hash, err := login.HashPassword(password)
			if err != nil {
				return cli.UsageError{Err: err}
			}
			fmt.Fprintln(cmd.OutOrStdout(), hash)
			return nil
		},
	}
}

// readPassword reads a password. A terminal does not show it.
func readPassword(from io.Reader, prompt io.Writer) (string, error) {
	if file, ok := from.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprint(prompt, "Password: ")
		data, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(prompt)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		return string(data), nil
	}
	line, err := bufio.NewReader(io.LimitReader(from, 4096)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}
