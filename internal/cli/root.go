package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vmop/internal/spelling"
)

// SetUp configures a program's root command as in all our programs: a usage error is a UsageError, the caller prints
// errors, and "version" and --version print the version if it isn't empty.
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

// flagFault describes in the user's terms what is wrong with a flag, and suggests the intended flag. The library's
// own message for a value is the message of Go's parsers.
func flagFault(cmd *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		var all []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
		if meant := flagSynonym(cmd, unknown.GetSpecifiedName()); meant != "" {
			return fmt.Errorf("%w; %s", err, meant)
		}
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
		"int": "use a whole number such as 2", "uint": "use a whole number such as 2, not below 0",
		"float": "use a number such as 0.5", "duration": "use a duration such as 90s or 5m", "bool": "use one of them",
	}[kind]
	switch {
	case wrong == "":
		wrong = errors.Unwrap(invalid).Error()
		_, want = pflag.UnquoteUsage(flag)
	case errors.Is(err, strconv.ErrRange):
		wrong = "out of range"
	}
	return fmt.Errorf("--%s %s: %s; %s", flag.Name, Printable(invalid.GetValue()), wrong, want)
}

// flagSynonym returns what to use instead of a flag of other programs; "" if that is unknown.
func flagSynonym(cmd *cobra.Command, name string) string {
	if name == "name" || name == "vm" {
		if strings.Contains(cmd.Use, "NAME") {
			return "the name is an argument: " + cmd.CommandPath() + strings.TrimPrefix(cmd.Use, cmd.Name())
		}
		return ""
	}
	for flag, words := range map[string][]string{
		"ram": {"memory", "mem"}, "cpus": {"cpu", "vcpus", "vcpu", "smp", "cores"},
		"cd": {"iso", "cdrom", "dvd"}, "image": {"os", "os-variant", "template", "base"},
		"network": {"net", "nic", "bridge"}, "display": {"graphics", "vga", "screen"},
		"yes": {"assume-yes", "non-interactive", "no-prompt"}, "output": {"format"}, "force": {"now"},
	} {
		if cmd.Flags().Lookup(flag) != nil && slices.Contains(words, name) {
			return "did you mean --" + flag + "?"
		}
	}
	return ""
}
