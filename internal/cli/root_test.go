package cli_test

import (
	"net"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/internal/cli"
)

// An invalid flag value is reported in plain words with an example of a valid value.
func TestWrongValuesOfFlags(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--cpus=x":                    "--cpus x: not a number; use a whole number such as 2",
		"-cx":                         "--cpus x: not a number; use a whole number such as 2",
		"--cpus=99999999999999999999": "--cpus 99999999999999999999: out of range; use a whole number such as 2",
		"--small=300":                 "--small 300: out of range; use a whole number such as 2",
		"--port=-1":                   "--port -1: not a number; use a whole number such as 2, not below 0",
		"--timeout=5":                 "--timeout 5: not a duration; use a duration such as 90s or 5m",
		"--wait=\x1b[31mmaybe":        "--wait �[31mmaybe: neither true nor false; use one of them",
		"--nothing":                   "unknown flag: --nothing",
		"--share=x":                   "--share x: not a number; use a number such as 0.5",
		"--from=x":                    "--from x: invalid CIDR address: x; the address",
		"--label=x":                   "--label x: x must be formatted as key=value; a label, NAME=VALUE",
		"--cpus":                      "flag needs an argument: --cpus",
		"--tiemout=5":                 "unknown flag: --tiemout; did you mean --timeout?",
	} {
		cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
		cli.SetUp(cmd, "")
		cmd.Flags().Int64P("cpus", "c", 0, "")
		cmd.Flags().Int8("small", 0, "")
		cmd.Flags().Uint16("port", 0, "")
		cmd.Flags().Duration("timeout", 0, "")
		cmd.Flags().Bool("wait", false, "")
		cmd.Flags().Float64("share", 0, "")
		cmd.Flags().IPNet("from", net.IPNet{}, "the address")
		cmd.Flags().StringToString("label", nil, "a label, `NAME=VALUE`")
		cmd.SetArgs([]string{arg})
		err := cmd.Execute()
		require.EqualError(t, err, want, arg)
		require.ErrorAs(t, err, new(cli.UsageError))
	}
}
