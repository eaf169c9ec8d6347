package runner_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/tier"
)

// moving are two VMs of one definition, between which a Linux moves.
type moving struct {
	from, to *vm
	types    string // the folder of their VM type; "": that of the tests
}

// newMoving starts the first one, with lines that both have.
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

// moves moves the guest, and waits until it runs there.
func (m *moving) moves(t *testing.T) {
	t.Helper()
	require.NoError(t, m.from.migrates(t.Context(), m.to.receives()))
	m.to.log.await(t, m.to.ended, "the guest was received, and continues here")
	m.to.becomes("running", func(s status.Status) bool { return s.QEMU.RunState == "running" })
}

// CPUs that were plugged and memory that the balloon has are the same after a move, and follow the configuration of the
// other side from then on, whether that differed before the move or changes later.
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

// The same with memory by virtio-mem.
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

// balloon returns the bytes that the balloon leaves to the guest.
func (v *vm) balloon() int64 {
	var info struct{ Actual int64 }
	v.qmp(&info, "query-balloon")
	return info.Actual
}

// running returns how many CPUs QEMU runs.
func (v *vm) running() int {
	var cpus []any
	v.qmp(&cpus, "query-cpus-fast")
	return len(cpus)
}
