package changes

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

func TestSets(t *testing.T) {
	t.Parallel()
	a, b := setOf("1", "2"), setOf("2", "3")
	b["4"] = false
	require.Equal(t, setOf("2"), a.commonWith(b))
	require.Equal(t, setOf("2"), b.commonWith(a))
	require.Equal(t, set{}, a.commonWith(nil))
	require.Equal(t, setOf("1"), a.withoutPath("2"))
	require.Equal(t, setOf("1", "2"), a, "it has not changed")
	require.Equal(t, set{"1": true, "2": true, "3": true, "4": false, "5": true}, a.unionWith(b, "5"))
}

func TestPlacesOfPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][2]string{ // the item and the section
		"vm.network[0].ports[1].host": {"vm.network[0]", "vm.network"},
		"vm.network[10]":              {"vm.network[10]", "vm.network"},
		"vm.display.spice.port":       {"vm.display.spice.port", "vm.display"},
		"vm.useTpm":                   {"vm.useTpm", "vm.useTpm"},
		"vmType":                      {"vmType", "vmType"},
		"cloudInit.userData":          {"cloudInit.userData", "cloudInit"},
	} {
		require.Equal(t, want, [2]string{itemOf(path), sectionKey(path)}, path)
	}
	for _, c := range []struct {
		path, other string
		want        bool
	}{
		{"vm.cpu", "", true},
		{"vm.cpu", "vm.cpu", true},
		{"vm.cpu.model", "vm.cpu", true},
		{"vm.drives[0]", "vm.drives", true},
		{"vm.cpuModel", "vm.cpu", false},
		{"vm.cpu", "vm.cpu.model", false},
	} {
		require.Equal(t, c.want, isWithin(c.path, c.other), "%s in %s", c.path, c.other)
	}
}

// A change is tried with only the fields that the errors name, and otherwise with its item, its section, or everything.
func TestNeeds(t *testing.T) {
	t.Parallel()
	running, wanted := plain(), copied(plain())
	wanted.VM.MaximumCPUs, wanted.VM.CurrentCPUs = 8, 4
	wanted.VM.RTCBase = "localtime"
	launch := func(context.Context, Machine) (*plan.Plan, error) { return &plan.Plan{}, nil }
	s := &search{ctx: t.Context(), running: running, wanted: wanted, launch: launch}
	s.all = Differences(running, wanted)
	require.ElementsMatch(t, []string{"vm.maximumCpus", "vm.currentCpus", "vm.rtcBase"}, pathsOf(s.all))
	needs, _, ok := s.neededWith("vm.currentCpus", []vmspec.Fault{{Path: "vm.maximumCpus"}})
	require.True(t, ok)
	require.Equal(t, setOf("vm.maximumCpus"), needs)
	needs, _, ok = s.neededWith("vm.currentCpus", []vmspec.Fault{{Path: "vm.name"}})
	require.True(t, ok)
	require.Equal(t, setOf("vm.maximumCpus", "vm.rtcBase"), needs, "no fault helps, and neither does the section")
	needs, _, ok = s.neededWith("vm.maximumCpus", nil)
	require.True(t, ok)
	require.Empty(t, needs, "alone it is valid")
	s.launch = func(context.Context, Machine) (*plan.Plan, error) { return nil, errors.New("never") }
	_, _, ok = s.neededWith("vm.maximumCpus", nil)
	require.False(t, ok)
	s.all = []status.Change{{Path: "vm.network[0].mac"}, {Path: "vm.network[0].ports"}, {Path: "vm.network[1].mac"}}
	require.Equal(t, []string{"vm.network[0].mac", "vm.network[0].ports"}, s.pathsBelow("vm.network[0]"))
	for _, f := range []vmspec.Fault{{Path: "x", Also: []string{"vm.network[1]"}}, {Path: "vm.network[1].mac.x"}} {
		require.Equal(t, []string{"vm.network[1].mac"}, s.namedPaths([]vmspec.Fault{f}))
	}
}
