package draw

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/test/tier"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// loaded returns a type among modules.
func loaded(t *testing.T, source vmtypes.Source, name string) *vmtypes.Type {
	t.Helper()
	vmType, err := source.Library().Load(t.Context(), name)
	require.NoError(t, err)
	return vmType
}

// runType draws VMs for a type.
func runType(t *testing.T, vmType *vmtypes.Type, seed uint64, number int) Report {
	t.Helper()
	report, err := Run(t.Context(), NewSource(seed, vmType.Describe().Options), number, vmType.Launch)
	require.NoError(t, err)
	return report
}

// The stock types and the examples have a plan for each drawn VM that they don't refuse.
func TestDrawnVMsOfStockTypesAndExamples(t *testing.T) {
	t.Parallel()
	number := tier.Rounds(150)
	source, err := vmtypes.ReadSource("../../examples/vmtypes")
	require.NoError(t, err)
	samples, err := sample.Find("../../examples/vmtypes")
	require.NoError(t, err)
	machines, err := sample.Find("../../vmtypes/testdata/golden")
	require.NoError(t, err)
	samples = append(samples, machines...)
	for _, name := range source.Library().Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			description := source.Modules[name+".star"]
			if !vmtypes.IsStock(name) && !strings.Contains(description, "def launch(") {
				return
			}
			vmType := loaded(t, source, name)
			from := NewSource(1, vmType.Describe().Options)
			for _, path := range samples {
				if s, err := sample.Read(path); err == nil && s.Type == name {
					vm, err := FromSample(path)
					require.NoError(t, err)
					from.Accept(vm)
				}
			}
			report, err := Run(t.Context(), from, number, vmType.Launch)
			require.NoError(t, err)
			for _, c := range report.Found {
				t.Error(c.Error())
			}
			require.Less(t, report.Refused, report.Drawn, "%v", report.Reason)
			t.Logf("%d of %d refused", report.Refused, report.Drawn)
		})
	}
}

const faulty = `"""faulty: fails for certain VMs."""

load("@vmtypes//standard.star", standard = "launch")

options = {
    "level": attr.int(minimum = 1, maximum = 9),
    "words": attr.list(attr.string()),
    "more": attr.record({"enabled": attr.bool(), "size": attr.size()}),
}

def launch(vm, host):
    """Returns the machine."""
    %s
    return standard(vm, host)
`

// A VM for which a type fails is reduced to the values that matter.
func TestCounterexamplesAreSmall(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ line, section, host, message string }{
		{
			"vm.display.spice.port if vm.bootMenu else 1", "bootMenu: true\n", "",
			"vm.display is None if the VM has no display",
		},
		{"1 // (0 if vm.options.level == 9 else 1)", "options:\n  level: 9\n", "", "floored division by zero"},
		{"[1][len(vm.options.words or []) // 2]", "options:\n  words:\n    - \"\"\n    - \"\"\n", "", "out of range"},
		{"1 // (0 if host.kvm else 1)", "# all defaults\n", `{"kvm":true}`, "floored division by zero"},
		{
			`return combine(standard(vm, host), part(options = [option("-device", "x", {"id": "a"})] * len(vm.drives)))`,
			"", "", "cannot work",
		},
	} {
		text := fmt.Sprintf(faulty, row.line)
		vmType := loaded(t, vmtypes.Source{Modules: map[string]string{"faulty.star": text}}, "faulty")
		report := runType(t, vmType, 1, 120)
		require.NotEmpty(t, report.Found, row.line)
		found := report.Found[0]
		if row.section == "" {
			require.Len(t, found.VM.Section, 1)
			require.Len(t, found.VM.Section["drives"], 2)
		} else {
			require.Equal(t, row.section, found.VM.YAML())
		}
		require.Equal(t, row.host, found.VM.hostText())
		require.ErrorContains(t, found.Err, row.message)
	}
}

// A type that computes different plans for the same VM fails. A refusal is not a failure.
func TestDifferentPlansAndRefusals(t *testing.T) {
	t.Parallel()
	number := 0
	random := func(context.Context, vmspec.Spec, vmtypes.Host) (*plan.Plan, error) {
		number++
		return &plan.Plan{Type: fmt.Sprint(number)}, nil
	}
	report, err := Run(t.Context(), NewSource(1, nil), 3, random)
	require.NoError(t, err)
	require.Len(t, report.Found, 1)
	require.ErrorContains(t, report.Found[0].Err, "computes another plan for the same VM")
	require.Equal(t, "# all defaults\n", report.Found[0].VM.YAML())

	text := fmt.Sprintf(faulty, `fail("not today")`)
	report = runType(t, loaded(t, vmtypes.Source{Modules: map[string]string{"faulty.star": text}}, "faulty"), 1, 10)
	require.Empty(t, report.Found)
	require.Equal(t, 10, report.Refused)
	require.ErrorContains(t, report.Reason, "not today")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = Run(ctx, NewSource(1, nil), 3, random)
	require.EqualError(t, err, "enough")
}

// The same seed draws the same VMs. All keys of the vm section that types see are drawn.
func TestDraws(t *testing.T) {
	t.Parallel()
	drawn := map[string]bool{}
	first, second := NewSource(7, nil), NewSource(7, nil)
	for range 800 {
		vm := first.Next()
		require.Equal(t, vm, second.Next())
		addPaths(drawn, "vm", vm.Section)
	}
	for _, d := range vmspec.Defaults() {
		path := strings.ReplaceAll(d.Path, "[]", "")
		if !strings.Contains(path, ".nbd") && !strings.Contains(path, ".source") && path != "vm.options" {
			require.True(t, drawn[path], "%s is never drawn", path)
		}
	}
	require.NotEqual(t, NewSource(8, nil).Next(), NewSource(9, nil).Next())
}

func addPaths(paths map[string]bool, path string, v any) {
	paths[path] = true
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			addPaths(paths, path+"."+key, value)
		}
	case []any:
		for _, value := range v {
			addPaths(paths, path, value)
		}
	}
}
