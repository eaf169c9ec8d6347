package changes

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/test/tier"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// Each case is an edit of a running machine and the resulting pending changes: lines with path, operation and both
// values as JSON.
var edits = []struct {
	about string
	from  Machine
	edit  func(m *Machine)
	want  string
}{
	{"nothing", rich(), func(*Machine) {}, ""},
	{"the name of a section that was absent", plain(), func(m *Machine) {
		m.VM.Kernel = &vmspec.Kernel{Image: "/boot/vmlinuz"}
	}, `vm.kernel add null {"image":"/boot/vmlinuz"}`},
	{"a section is gone", rich(), func(m *Machine) { m.VM.Display.VNC = nil }, `
		vm.display.vnc remove {"address":"127.0.0.1","port":5911} null`},
	{"a drive more", rich(), func(m *Machine) {
		m.VM.Drives = append(m.VM.Drives, vmspec.Drive{
			Type: vmspec.DriveRaw, File: "/images/more", Format: "raw",
			Bootindex: new(0),
		})
		m.VM.Drives[0].Bootindex = nil
	}, `
		vm.drives[0].bootindex remove 0 null
		vm.drives[5] add null {"bootindex":0,"file":"/images/more","format":"raw","type":"raw"}`},
	{"the first of two disks is gone", Machine{VMType: "standard", VM: vmspec.Spec{
		Name: "two", Network: []vmspec.Network{}, Drives: []vmspec.Drive{{File: "/a"}, {File: "/b", ReadOnly: true}},
	}.WithDefaults()}, func(m *Machine) { m.VM.Drives = m.VM.Drives[1:] }, `
		vm.drives[0].file replace "/a" "/b"
		vm.drives[0].readOnly replace false true
		vm.drives[0].serial replace "a" "b"
		vm.drives[1] remove {"file":"/b","format":"raw","readOnly":true,"serial":"b","type":"raw"} null`},
	{"sizes have their unit", rich(), func(m *Machine) { m.VM.MaximumRAM = 6 * vmspec.GiB }, `
		vm.maximumRam replace "4 GiB" "6 GiB"`},
	{"more CPUs than there may be", rich(), func(m *Machine) { m.VM.MaximumCPUs, m.VM.CurrentCPUs = 16, 12 }, `
		vm.maximumCpus replace 8 16
		vm.currentCpus replace 2 12`},
	{"fewer CPUs than there are", rich(), func(m *Machine) { m.VM.MaximumCPUs, m.VM.CurrentCPUs = 4, 4 }, `
		vm.maximumCpus replace 8 4`},
	{"more memory than there may be", rich(), func(m *Machine) {
		m.VM.MaximumRAM, m.VM.CurrentRAM = 8*vmspec.GiB, 5*vmspec.GiB
	}, `
		vm.maximumRam replace "4 GiB" "8 GiB"
		vm.currentRam replace "2 GiB" "5 GiB"`},
	{"CPUs of a machine in which none can be plugged", func() Machine {
		m := rich()
		m.VM.Firmware = vmspec.FirmwareSecure4M
		return m
	}(), func(m *Machine) { m.VM.CurrentCPUs = 4 }, `
		vm.currentCpus replace 2 4`},
	{"a topology instead of a number", plain(), func(m *Machine) {
		m.VM.Sockets, m.VM.CoresPerDie, m.VM.MaximumCPUs = 2, 2, 4
	}, `
		vm.maximumCpus replace 1 4
		vm.sockets add null 2
		vm.coresPerDie add null 2`},
	{"another kind of network", rich(), func(m *Machine) {
		n := &m.VM.Network[0]
		n.Type, n.Bridge, n.Ifname, n.Lease, n.Filter = vmspec.NetworkUser, "", "", nil, nil
	}, `
		vm.network[0].type replace "tap" "user"
		vm.network[0].bridge remove "br0" null
		vm.network[0].ifname remove "vmfb68b969bn0" null
		vm.network[0].lease remove {"address":"10.66.10.14/24","gateway":"10.66.10.1","nameservers":{"addresses":["10.66.10.1"],"search":["example.org"]},"routes":[{"to":"10.7.0.0/16","via":"10.66.10.2"}]} null
		vm.network[0].filter remove true null`},
	{"two that swap what only one can have", rich(), func(m *Machine) {
		m.VM.Drives[0].Bootindex, m.VM.Drives[2].Bootindex = new(1), new(0)
	}, `
		vm.drives[0].bootindex replace 0 1
		vm.drives[2].bootindex replace 1 0`},
	{"first in the order, and in no order", rich(), func(m *Machine) {
		m.VM.Drives[0].Bootindex, m.VM.Drives[3].Bootindex = nil, new(0)
	}, `
		vm.drives[0].bootindex remove 0 null
		vm.drives[3].bootindex add null 0`},
	{"a file becomes a device", rich(), func(m *Machine) {
		m.VM.Drives[0].File, m.VM.Drives[0].Device = "", "/dev/vg/root"
	}, `
		vm.drives[0].file remove "/images/root.qcow2" null
		vm.drives[0].device add null "/dev/vg/root"`},
	{"a CD drive becomes a disk", rich(), func(m *Machine) {
		m.VM.Drives[2] = vmspec.Drive{Type: vmspec.DriveRaw, File: "/images/disk", Format: "raw", Serial: "new"}
	}, `
		vm.drives[2].type replace "ide-cd" "raw"
		vm.drives[2].bootindex remove 1 null
		vm.drives[2].file replace "/images/install.iso" "/images/disk"
		vm.drives[2].bus remove "ide" null
		vm.drives[2].serial replace "cd0" "new"`},
	{"a medium beside what is listed", rich(), func(m *Machine) {
		m.VM.Drives[2].File, m.VM.Drives[2].Bus = "/other.iso", "scsi"
	}, `
		vm.drives[2].bus replace "ide" "scsi"`},
	{"the display's password", rich(), func(m *Machine) { m.DisplayPassword = false }, `
		display-password replace true false`},
	{"a password for no display", plain(), func(m *Machine) { m.DisplayPassword = true }, ""},
	{"other data for cloud-init", rich(), func(m *Machine) { m.CloudInit = "sha256:2" }, `
		cloudInit replace "sha256:1" "sha256:2"`},
	{"data for cloud-init at last", plain(), func(m *Machine) { m.CloudInit = "sha256:2" }, `
		cloudInit add null "sha256:2"`},
	{"another VM type", rich(), func(m *Machine) { m.VMType = "watchdog" }, `
		vmType replace "standard" "watchdog"`},
	{"a VM type that says the same", rich(), func(m *Machine) { m.VMType = "copy" }, ""},
	{"another VM type and a value that matters to both", rich(), func(m *Machine) {
		m.VMType, m.VM.RTCBase = "watchdog", "localtime"
	}, `
		vmType replace "standard" "watchdog"
		vm.rtcBase replace "utc" "localtime"`},
	{
		"another VM type that is for another value", optional(map[string]any{"odd": int64(1), "even": int64(1)}),
		func(m *Machine) {
			m.VMType, m.VM.Options = "copy", nil
		}, `
		vmType replace "options" "copy"
		vm.options.even remove 1 null
		vm.options.odd remove 1 null`,
	},
	{"options that matter together", optional(map[string]any{"other": true}), func(m *Machine) {
		m.VM.Options = map[string]any{"other": false, "left": true, "right": true}
	}, `
		vm.options.left add null true
		vm.options.right add null true`},
	{
		"options that can only change together", optional(map[string]any{"odd": int64(1), "even": int64(1), "x": "y"}),
		func(m *Machine) {
			m.VM.Options = map[string]any{"odd": int64(2), "even": int64(2), "x": "z"}
		}, `
		vm.options.even replace 1 2
		vm.options.odd replace 1 2`,
	},
	{"options of which three must be there", optional(nil), func(m *Machine) {
		m.VM.Options = map[string]any{"vote1": true, "vote2": true, "vote3": true, "vote4": true}
	}, `
		vm.options.vote3 add null true`},
	{"options that come to the same", optional(map[string]any{"a": int64(1), "b": int64(2)}), func(m *Machine) {
		m.VM.Options = map[string]any{"a": int64(2), "b": int64(1)}
	}, ""},
	{
		"options within options", optional(map[string]any{"deep": map[string]any{"list": []any{"a", "c", "d"}}}),
		func(m *Machine) {
			m.VM.Options = map[string]any{"deep": map[string]any{"list": []any{"a", "b"}, "other": nil}}
		}, `
		vm.options.deep.list[1] replace "c" "b"
		vm.options.deep.list[2] remove "d" null`,
	},
	{"what is outside of the vm section", rich(), func(m *Machine) {
		m.DataDir, m.RuntimeDir = "/data/other", "/run/other"
	}, `
		dataDir replace "/data/rich" "/data/other"
		runtimeDir replace "/run/rich" "/run/other"`},
}

// optional returns a machine of the type options.
func optional(options map[string]any) Machine {
	m := plain()
	m.VMType, m.VM.Options = "options", options
	return m
}

func TestPending(t *testing.T) {
	t.Parallel()
	for _, e := range edits {
		t.Run(e.about, func(t *testing.T) {
			t.Parallel()
			launch, _ := launcher(t)
			wanted := copied(e.from)
			e.edit(&wanted)
			require.Empty(t, wanted.VM.Check())
			require.Equal(t, strings.Fields(e.want), strings.Fields(textOf(t, pending(t, launch, e.from, wanted))))
		})
	}
}

// Pending changes show the changed QEMU arguments. Live changes change no arguments.
func TestArguments(t *testing.T) {
	t.Parallel()
	launch, _ := launcher(t)
	wanted := copied(rich())
	wanted.VM.Drives[2].File, wanted.VM.RTCBase, wanted.VM.UseTPM = "/other.iso", "localtime", false
	p, err := launch(t.Context(), rich())
	require.NoError(t, err)
	got, err := Pending(t.Context(), launch, rich(), wanted, Live(p.Rules, wanted.VM))
	require.NoError(t, err)
	require.Equal(t, []string{"vm.useTpm", "vm.rtcBase"}, pathsOf(got.Changes))
	require.Equal(t, []string{
		"- -rtc base=utc,clock=rt,driftfix=slew", "+ -rtc base=localtime,clock=rt,driftfix=slew",
	}, slices.DeleteFunc(got.Arguments, func(a string) bool { return strings.Contains(a, "tpm") }))
	require.Len(t, got.Arguments, 5)

	back, err := Pending(t.Context(), launch, rich(), rich(), Live(p.Rules, rich().VM))
	require.NoError(t, err)
	require.Empty(t, back.Arguments)

	many := "qemu /q\n" + strings.Repeat("    -device "+strings.Repeat("x", 500)+"\n", 100)
	all := argumentChanges("qemu /q\n", many+"socket x\n    -not QEMU's\n")
	require.Len(t, all, mostArguments)
	require.Equal(t, "... and 37 more", all[mostArguments-1])
	require.Len(t, []rune(all[0]), len("+ ")+longestArgument)
}

func textOf(t *testing.T, changes []status.Change) string {
	t.Helper()
	var text strings.Builder
	for _, c := range changes {
		values, err := json.Marshal([]any{c.CurrentValue, c.DesiredValue})
		require.NoError(t, err)
		var both []json.RawMessage
		require.NoError(t, json.Unmarshal(values, &both))
		text.WriteString(strings.Join([]string{c.Path, c.Operation, string(both[0]), string(both[1])}, " ") + "\n")
	}
	return text.String()
}

func TestPendingNeedsTwoMachines(t *testing.T) {
	t.Parallel()
	launch, _ := launcher(t)
	never := func(string) bool { return false }
	wanted := copied(rich())
	wanted.VM.MachineType = "microvm"
	_, err := Pending(t.Context(), launch, rich(), wanted, never)
	require.ErrorContains(t, err, `plan of what is configured: vm.machineType: can't be "microvm": this type is for q35 machines`)
	_, err = Pending(t.Context(), launch, wanted, rich(), never)
	require.ErrorContains(t, err, "plan of what is running: ")
}

// Pending returns an error when its context ends.
func TestPendingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	launch, count := launcher(t)
	wanted := copied(rich())
	wanted.VM.RTCBase, wanted.VM.UseTPM, wanted.VM.Drives[0].Bootindex, wanted.VM.Drives[2].Bootindex = "localtime",
		false, new(1), new(0)
	wanted.VM.MaximumCPUs, wanted.VM.CurrentCPUs = 16, 16
	never := func(string) bool { return false }
	_, err := Pending(t.Context(), launch, rich(), wanted, never)
	require.NoError(t, err)
	over := errors.New("the time is over")
	for after := range *count {
		ctx, cancel := context.WithCancelCause(t.Context())
		left := after
		changes, err := Pending(ctx, func(ctx context.Context, m Machine) (*plan.Plan, error) {
			if left--; left < 0 {
				cancel(over)
				return nil, ctx.Err()
			}
			return launch(ctx, m)
		}, rich(), wanted, never)
		require.ErrorIs(t, err, context.Canceled, "launch number %d", after)
		require.Zero(t, changes)
	}
}

// After many random edits, the listed and live changes together lead to the wanted machine. If the list is empty, the
// live changes are sufficient.
func TestRandomEdits(t *testing.T) {
	t.Parallel()
	launch, count := launcher(t)
	most := 0
	for seed := range uint64(tier.Rounds(100)) {
		random := rand.New(rand.NewPCG(seed, 0))
		running, wanted := randomly(t, random), randomly(t, random)
		p, err := launch(t.Context(), running)
		require.NoError(t, err)
		isLive := Live(p.Rules, wanted.VM)
		*count = 0
		awaiting, err := Pending(t.Context(), launch, running, wanted, isLive)
		require.NoError(t, err, "seed %d", seed)
		got := awaiting.Changes
		all := differencesBelow("", reflect.ValueOf(running), reflect.ValueOf(wanted))
		most = max(most, *count-2*len(all))
		applied := setOf(pathsOf(got)...)
		for _, d := range all {
			if isLive(d.Path) {
				applied[d.Path] = true
			}
		}
		for _, c := range got {
			require.Contains(t, all, c, "seed %d", seed)
			require.False(t, isLive(c.Path), "seed %d: %s", seed, c.Path)
		}
		reached := mixMachines(running, wanted, applied)
		if len(reached.VM.Check()) > 0 {
			continue // an unimportant value is needed for validity
		}
		require.Equal(t, effectOf(t, launch, wanted), effectOf(t, launch, reached), "seed %d: %s", seed, textOf(t, got))
	}
	require.LessOrEqual(t, most, 8, "launches beyond two for each difference")
}

func effectOf(t *testing.T, launch Launch, m Machine) string {
	t.Helper()
	p, err := launch(t.Context(), m)
	require.NoError(t, err)
	return startEffect(p, m)
}

// randomly returns a valid machine: the rich machine after some edits.
func randomly(t *testing.T, random *rand.Rand) Machine {
	t.Helper()
	for {
		m := copied(rich())
		for range random.IntN(12) {
			tr := trials[random.IntN(len(trials))]
			if fieldAt(reflect.ValueOf(&m.VM), "vm", tr.path).IsValid() { // still exists after the other edits
				edited, _ := tr.apply(m)
				m = copied(edited)
			}
		}
		if len(m.VM.Check()) == 0 {
			return m
		}
	}
}

func TestMixed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		a, b := randomly(t, random), randomly(t, random)
		all := differencesBelow("", reflect.ValueOf(a), reflect.ValueOf(b))
		require.Equal(t, a, mixMachines(a, b, nil))
		require.Empty(t, differencesBelow("", reflect.ValueOf(b),
			reflect.ValueOf(mixMachines(a, b, setOf(pathsOf(all)...)))))
		some := set{}
		for _, d := range all {
			if random.IntN(2) == 0 {
				some[d.Path] = true
			}
		}
		left := setOf(pathsOf(differencesBelow("", reflect.ValueOf(a), reflect.ValueOf(mixMachines(a, b, some))))...)
		for path := range maps.Keys(left) {
			require.True(t, some[itemMoved(path, some)], "seed %d: %s was not to change", seed, path)
		}
	}
}

// itemMoved returns the path itself, or the path of an earlier removed item, which shifts the following indexes.
func itemMoved(path string, some set) string {
	if some[path] {
		return path
	}
	for other := range some {
		if strings.HasSuffix(other, "]") && strings.HasPrefix(path, other[:strings.LastIndexByte(other, '[')]) {
			return other
		}
	}
	return path
}
