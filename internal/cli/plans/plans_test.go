package plans

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/vmtypes/confinement"
	"vmop/vmtypes/plan"
)

func TestPlacesArePainted(t *testing.T) {
	t.Parallel()
	const text = "# type a#\n    -append a # b  # a.star:3 launch\n"
	require.Equal(t, "# type a#\n    -append a # b  # A.STAR:3 LAUNCH\n", paintPlaces(strings.ToUpper, text))
}

func TestFlagsOfPlans(t *testing.T) {
	t.Parallel()
	var form string
	var why bool
	execute := func(args ...string) error {
		cmd := &cobra.Command{Use: "plan", Run: func(*cobra.Command, []string) {}}
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		AddFlags(cmd, &form, &why)
		cmd.SetArgs(args)
		return cmd.Execute()
	}
	require.ErrorContains(t, execute("-o", "xml"), "must be one of text, argv, shell, json")
	require.NoError(t, execute("--why"))
	require.Equal(t, "text", form)
	require.True(t, why)
}

func TestPrintedPlans(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{Type: "t", QEMU: plan.Process{Executable: "/q", Args: []plan.Option{{Flag: "-a", Value: "b"}}}}
	for form, want := range map[string]string{
		"text": "type t\nqemu /q\n    -a b\n", "argv": p.Command(), "shell": p.Shell(),
	} {
		var out bytes.Buffer
		require.NoError(t, Print(&out, p, form, false))
		require.Equal(t, want, out.String())
	}
	var out bytes.Buffer
	require.NoError(t, Print(&out, p, "text", true))
	require.Equal(t, p.Why(), out.String())
	domains := []confinement.Domain{{Process: "qemu"}}
	for _, why := range []bool{false, true} {
		out.Reset()
		require.NoError(t, PrintConfinement(&out, domains, "text", why))
		require.Equal(t, domains[0].Text(why), out.String())
	}
	out.Reset()
	require.NoError(t, PrintConfinement(&out, domains, "json", false))
	require.True(t, strings.HasSuffix(out.String(), "]\n"))
	require.ErrorContains(t, PrintConfinement(&out, domains, "shell", false), "there is only text and json")
}
