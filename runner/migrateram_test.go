package runner_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/tier"
)

// moving is a migration of Linux between two VMs of the same definition.
type moving struct {
	from, to *vm
	types    string // the folder of their VM type, or "" for the tests' folder
}

// newMoving starts the first VM, with the configuration of both.
func newMoving(t *testing.T, types, vmType, maximum string, section ...string) *moving {
	t.Helper()
	m := &moving{types: types}
	lines := append(kernel(t, ""), append([]string{"network: []", "maximumCpus: 4"}, section...)...)
	lines[2] = "maximumRam: " + maximum
	for _, v := range []**vm{&m.from, &m.to} {
		*v = newVM(t, vmType, lines...)
		if types != "" {
			(*v).types = types
		}
	}
	c := attach(m.from)
	m.from.runs()
	c.Await(`READY`)
	return m
}

// moves moves the guest, and waits until it runs at the target.
func (m *moving) moves(t *testing.T) {
	t.Helper()
	require.NoError(t, m.from.migrates(t.Context(), m.to.receives()))
	m.to.log.await(t, m.to.ended, "the guest was received, and continues here")
	m.to.becomes("running", func(s status.Status) bool { return s.QEMU.RunState == "running" })
}

// After a migration, hot-plugged CPUs and ballooned memory are unchanged. They then follow the target's configuration,
// whether it differed before or changes later.
func TestCPUsAndABalloonMoveWithTheGuest(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	for there, ram := range map[int]int64{2: 192, 3: 256} {
		t.Run(fmt.Sprintf("to %d CPUs", there), func(t *testing.T) {
			t.Parallel()
			defer guest.TakePlace(t)()
			m := newMoving(t, "", "standard", "256 MiB", "currentCpus: 2", "currentRam: 192 MiB")
			eventually(t, 192<<20, m.from.balloon)
			wants := func(cpus int, ram int64) {
				section := append(kernel(t, ""), "network: []", "maximumCpus: 4", fmt.Sprint("currentCpus: ", cpus),
					fmt.Sprint("currentRam: ", ram, " MiB"))
				section[2] = "maximumRam: 256 MiB"
				m.to.configure("standard", nil, section...)
			}
			wants(there, ram)
			m.moves(t)
			if there == 2 {
				require.Equal(t, int64(192<<20), m.to.balloon())
				require.Equal(t, 2, m.to.running())
			}
			m.to.becomes("as configured", func(s status.Status) bool { return s.CPUs == there && s.RAM == ram<<20 })
			wants(4, 224)
			eventually(t, 224<<20, m.to.balloon)
			eventually(t, 4, m.to.running)
			m.to.ends()
		})
	}
}

// The same holds for memory from virtio-mem.
func TestPluggedMemoryMovesWithTheGuest(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	defer guest.TakePlace(t)()
	const base = "options: {base: 256 MiB}"
	m := newMoving(t, "../examples/vmtypes", "virtiomem", "1 GiB", base, "currentRam: 512 MiB", "currentCpus: 1")
	eventually(t, 256, m.from.plugged)
	m.moves(t)
	require.Equal(t, int64(256), m.to.plugged())
	m.to.becomes("as configured", func(s status.Status) bool { return s.RAM == 512<<20 })
	for ram, want := range map[string]int64{"1 GiB": 768, "256 MiB": 0} {
		section := append(kernel(t, ""), "network: []", "maximumCpus: 4", "currentCpus: 1", base, "currentRam: "+ram)
		section[2] = "maximumRam: 1 GiB"
		m.to.configure("virtiomem", nil, section...)
		eventually(t, want, m.to.plugged)
	}
	m.to.ends()
}

// balloon returns the number of bytes that the balloon leaves to the guest.
func (v *vm) balloon() int64 {
	var info struct{ Actual int64 }
	v.qmp(&info, "query-balloon")
	return info.Actual
}

// running returns the number of CPUs in QEMU.
func (v *vm) running() int {
	var cpus []any
	v.qmp(&cpus, "query-cpus-fast")
	return len(cpus)
}
