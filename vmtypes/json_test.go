package vmtypes_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// Writing the plan of each golden as JSON and reading it again results in the same plan, including the origins.
func TestPlanAsJSONIsComplete(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Open(examples)
	require.NoError(t, err)
	defer library.Close()
	paths := machines(t)
	for _, path := range paths {
		golden, err := sample.Read(path)
		require.NoError(t, err)
		made, err := golden.Plan(t.Context(), library)
		require.NoError(t, err)
		text, err := made.JSON()
		require.NoError(t, err)
		var back plan.Plan
		require.NoError(t, json.Unmarshal(text, &back))
		name := filepath.Base(path)
		require.Equal(t, made.Text(), back.Text(), name)
		require.Equal(t, made.Why(), back.Why(), name)
		require.Equal(t, made.Shell(), back.Shell(), name)
		require.Equal(t, made, &back, name)
	}
}

func TestPlacesAsText(t *testing.T) {
	t.Parallel()
	for _, f := range []plan.Frame{
		{File: "a.star", Line: 1, Function: "launch"},
		{File: "@vmtypes//lib/tpm.star", Line: 99, Function: "lambda"},
		{File: "my type: 3.star", Line: 7, Function: "f"},
	} {
		text, err := f.MarshalText()
		require.NoError(t, err)
		var back plan.Frame
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, f, back)
	}
	for _, text := range []string{"", " ", "a.star", "a.star:x f", "a.star 1 f"} {
		require.Error(t, new(plan.Frame).UnmarshalText([]byte(text)), text)
	}
	var rules plan.Rules
	require.ErrorContains(t, json.Unmarshal([]byte(`[{"gravity": {}}]`), &rules), `rule "gravity"`)
}

// A plan that is too large, or has too long errors, is rejected with a short message.
func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	p := plan.Plan{QEMU: plan.Process{
		Name: "qemu", Executable: "/bin/true",
		Args: make([]plan.Option, plan.MaxOptions+1),
	}}
	require.Equal(t, []plan.Fault{{Message: "the plan has 16385 options, files, taps, sockets and rules, at most " +
		"16384 are allowed"}}, p.Check())
	p.QEMU.Args = make([]plan.Option, 1000)
	for i := range p.QEMU.Args {
		p.QEMU.Args[i] = plan.Option{Flag: "-device", Value: "x\x00" + strings.Repeat("y", 1<<16), List: true}
	}
	faults := p.Check()
	require.Len(t, faults, 101)
	require.Equal(t, "901 more errors", faults[100].Message)
	require.Less(t, len(faults[0].Message), 2100)
	p.QEMU.Args = []plan.Option{{Flag: "-name", Value: "\xc3"}}
	require.Equal(t, `qemu: -name is not UTF-8: ["-name" "\xc3"]`, p.Check()[0].Message)
}
