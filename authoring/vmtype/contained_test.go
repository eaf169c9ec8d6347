package vmtype

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/introspect"
	"vmop/authoring/lint"
	"vmop/authoring/sample"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// Launches of a type share a process; two types never do. If a shared process ends, its last launch is repeated.
func TestLaunchesShareProcesses(t *testing.T) {
	t.Parallel()
	one := "def launch(vm, host):\n    if vm.bootMenu:\n        fail(\"no menu\")\n" +
		"    return part(executable = \"/bin/qemu\")\n"
	in := contained{
		source: vmtypes.Source{Modules: map[string]string{"one.star": one, "two.star": one}},
		policy: &policyCheck{given: func() bool { return false }}, idle: &idleProcesses{},
	}
	defer in.close()
	launch := func(vmType, section string) (*plan.Plan, error) {
		spec, err := sample.ParseVM([]byte(section))
		require.NoError(t, err)
		return in.Launch(t.Context(), vmType, spec, sample.HostFacts{}.Host())
	}
	for launches := range 3 {
		p, err := launch("one", "network: []\n")
		require.NoError(t, err)
		require.Equal(t, "/bin/qemu", p.QEMU.Executable)
		require.Len(t, in.idle.list, 1)
		require.Equal(t, launches+1, in.idle.list[0].launches)
	}
	_, err := launch("one", "bootMenu: true\n")
	require.ErrorContains(t, err, "no menu")
	require.Equal(t, 4, in.idle.list[0].launches, "a refusal does not end the process")
	_, err = launch("two", "network: []\n")
	require.NoError(t, err)
	require.Len(t, in.idle.list, 2)

	in.idle.list[0].cancel(errors.New("a limit"))
	_, err = launch("one", "network: []\n")
	require.NoError(t, err)
	require.Len(t, in.idle.list, 2)
	require.Equal(t, "one", in.idle.list[1].vmType)
	require.Equal(t, 1, in.idle.list[1].launches, "it is a new process")
}

// The linter keeps the findings of plans instead of the plans, also of plans with different QEMUs.
func TestLintKeepsFewPlans(t *testing.T) {
	t.Parallel()
	p := planLint{
		linting: &linting{notes: io.Discard},
		folder:  &lint.Folder{Modules: map[string]string{"one.star": "def launch(vm, host):\n    pass\n"}},
		qemus:   map[string]*introspect.QEMU{},
	}
	for i := range 3 * mostPlans {
		made := &plan.Plan{}
		made.QEMU.Executable = []string{"/none/qemu-system-one", "/none/qemu-system-two"}[i%2]
		made.QEMU.Args = []plan.Option{
			{Flag: "-machine", Value: "q35", List: true},
			{
				Flag: "-device", Value: "edu", List: true,
				Origin: plan.Origin{{File: "one.star", Line: 1 + i%2, Function: "launch"}},
			},
		}
		require.NoError(t, p.addPlan(t.Context(), made))
		require.Less(t, len(p.pending), mostPlans)
	}
	require.Len(t, p.found, 1)
	require.Equal(t, "implicit-address", p.found[0].Rule)
	require.Len(t, p.qemus, 2)
}

// The launches of an editor share a process until a module changes. The processes of the earlier version end, also if
// they were working.
func TestLaunchesOfAnEditor(t *testing.T) {
	t.Parallel()
	const one = "def launch(vm, host):\n    return part(executable = \"/bin/qemu\")\n"
	l := &editorLaunches{}
	spec, err := sample.ParseVM([]byte("network: []\n"))
	require.NoError(t, err)
	launch := func(text string) contained {
		source := vmtypes.Source{Dir: "/types", Modules: map[string]string{"one.star": text}}
		_, err := l.Launch(t.Context(), source, "one", spec, sample.HostFacts{}.Host())
		require.NoError(t, err)
		return l.current
	}
	before := launch(one)
	require.Same(t, before.idle, launch(one).idle)
	require.Equal(t, 2, before.idle.list[0].launches)
	working := before.idle.take("one")
	after := launch(one + "# changed\n")
	require.NotSame(t, before.idle, after.idle)
	before.idle.keepProcess(working)
	require.Empty(t, before.idle.list)
	l.close()
	require.Empty(t, after.idle.list)
}
