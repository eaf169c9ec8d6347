package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vmop/spelling"
)

// SetUp gives a program's root command what all programs have alike: a fault of usage is a
// UsageError, the caller prints errors, and "version" and --version print the version, if
// there is one.
func SetUp(root *cobra.Command, version string) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return UsageError{Err: flagFault(cmd, err)} })
	addMan(root)
	if version == "" {
		return
	}
	root.Version = version
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version", Args: NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), root.Name(), version)
			return err
		},
	})
}

// flagFault says what is wrong with a flag in words of a user, and which one may be meant: of values the library has
// the words of Go's parsers.
func flagFault(cmd *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		var all []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
		if near := spelling.Nearest(unknown.GetSpecifiedName(), all); near != "" {
			return fmt.Errorf("%w; did you mean --%s?", err, near)
		}
		return err
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag := invalid.GetFlag()
	kind := strings.TrimRight(flag.Value.Type(), "0123456789")
	wrong, want := map[string]string{
		"int": "not a number", "uint": "not a number", "float": "not a number", "duration": "not a duration",
		"bool": "neither true nor false",
	}[kind], map[string]string{
		"int": "want a whole number such as 2", "uint": "want a whole number such as 2, not below 0",
		"float": "want a number such as 0.5", "duration": "want one such as 90s or 5m", "bool": "want one of them",
	}[kind]
	switch {
	case wrong == "":
		wrong, want = errors.Unwrap(invalid).Error(), flag.Usage
	case errors.Is(err, strconv.ErrRange):
		wrong = "out of range"
	}
	return fmt.Errorf("--%s %s: %s; %s", flag.Name, Printable(invalid.GetValue()), wrong, want)
}
