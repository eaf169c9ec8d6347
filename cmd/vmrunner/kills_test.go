package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
)

// chance returns how often a test repeats, from the environment's variable or the usual number, and its random numbers.
// SEED repeats a run.
func chance(t *testing.T, variable string, usual int) (count int, random *rand.Rand) {
	t.Helper()
	count, seed := usual, rand.Uint64()
	var err error
	if text := os.Getenv(variable); text != "" {
		count, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	if text := os.Getenv("SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("SEED=%d", seed)
	return count, rand.New(rand.NewPCG(seed, 0))
}

// Row 2 and more: a VM's runner is killed at random times, alone or with all of the VM's processes: while the VM is
// started, changed, paused, reset, stopped or adopted, and while its runtime directory is removed. The guest is never
// lost, it never runs twice, and it always starts again as the same machine.
//
// VMOP_KILLS is the number of kills. SEED repeats a run.
func TestFault02KillsAtAnyMoment(t *testing.T) {
	t.Parallel()
	count, random := chance(t, "VMOP_KILLS", tier.Rounds(60))
	dir := folder(t, "standard", "accelerator: tcg", "firmware: uefi-4m", "network: []", "useTpm: true",
		"powerdownTimeout: 0", "maximumCpus: 2", "currentCpus: 1")
	rewrite(t, dir, "  vmType: standard\n", "  vmType: standard\n  cloudInit: {}\n  resetCounter: 1\n")
	v := &victim{t: t, dir: dir, random: random, kills: map[string]int{}}
	for done := 0; done < count; done++ {
		v.round()
		if (done+1)%100 == 0 {
			t.Logf("%d kills, none lost, doubled or unstartable: %v", done+1, v.kills)
		}
	}
	last := v.comesUp(start(t, dir, nil))
	last.stops(dir)
	t.Logf("%d kills, none lost, doubled or unstartable: %v", count, v.kills)
}

// victim is a VM that survives the kills of its runner.
type victim struct {
	t        *testing.T
	dir      string
	random   *rand.Rand
	qemu     int               // the process in which the guest runs; 0 for none or unknown
	stopping bool              // the stop may have been requested and carried out
	files    map[string]string // identity of the machine
	kills    map[string]int    // by action
}

// round starts a runner, begins an action and kills the runner.
func (v *victim) round() {
	v.t.Helper()
	p := start(v.t, v.dir, nil)
	what := map[bool]string{true: "start", false: "adoption"}[v.qemu == 0]
	if v.random.IntN(3) > 0 {
		p = v.comesUp(p)
		what = v.something(p)
	}
	time.Sleep(time.Duration(v.random.Int64N(int64(150 * time.Millisecond))))
	v.kills[what]++
	p.kill()
	if v.qemu != 0 && !v.stopping && v.random.IntN(8) == 0 {
		v.kills["and no directory"]++
		wait.Until(v.t, func() bool { return os.RemoveAll(filepath.Join(v.dir, "run")) == nil })
	}
	if v.random.IntN(8) == 0 {
		v.kills["of all processes"]++
		killAll(v.t, v.dir, p)
		v.qemu = 0
		return
	}
	running := invariants.Processes(v.t, v.dir)[invariants.QEMU]
	require.LessOrEqual(v.t, len(running), 1, "there are two: %s", what)
	if v.stopping {
		return
	}
	if v.qemu != 0 {
		require.Equal(v.t, []int{v.qemu}, running, "the guest was lost: %s", what)
	} else if strings.Contains(p.out.String(), "INF booting") {
		require.Len(v.t, running, 1, "the guest was lost: %s", what)
		v.qemu = running[0]
	}
}

// comesUp waits until a guest runs: the same guest, unless it was being stopped. It returns its runner, which is
// another process if a stop had to be finished.
func (v *victim) comesUp(p *program) *program {
	v.t.Helper()
	if v.stopping {
		p.await(`INF (adopted|booting|stopped)`)
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		require.Zero(v.t, p.exit())
		invariants.NothingLeft(v.t, v.dir)
		v.stopping, v.qemu = false, 0
		p = start(v.t, v.dir, nil)
	}
	p.await(`INF (adopted|booting)`)
	if qemu := invariants.OneQEMU(v.t, v.dir); v.qemu == 0 {
		v.qemu = qemu
	} else {
		require.Equal(v.t, v.qemu, qemu, "the guest was lost")
	}
	who := invariants.Files(v.t, filepath.Join(v.dir, "data"))
	delete(who, "fw-vars.fd")      // the firmware may be writing to it
	delete(who, "tpm2-00.permall") // the TPM as well
	if v.files == nil {
		v.files = who
	}
	require.Equal(v.t, v.files, who)
	return p
}

// something begins one of a runner's actions, and returns its name.
func (v *victim) something(p *program) string {
	v.t.Helper()
	path := filepath.Join(v.dir, "config.yaml")
	text, err := os.ReadFile(path)
	require.NoError(v.t, err)
	lines := strings.Split(string(text), "\n")
	set := func(key string, value int) {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, key+": ") })
		before, _, _ := strings.Cut(lines[at], ": ")
		rewrite(v.t, v.dir, lines[at]+"\n", fmt.Sprintf("%s: %d\n", before, value))
	}
	switch n := v.random.IntN(8); n {
	case 0:
		set("currentCpus", 1+v.random.IntN(2))
		return "change"
	case 1:
		set("resetCounter", 1+v.random.IntN(1000))
		return "reset"
	case 2, 3:
		client := answers(v.t, v.dir)
		what := map[int]control.Action{2: control.Pause, 3: control.Resume}[n]
		require.NoError(v.t, client.Act(v.t.Context(), what))
		return string(what)
	case 4:
		v.stopping = true
		p.signal(syscall.SIGTERM)
		return "stop"
	case 5, 6:
		wait.Until(v.t, func() bool { return os.RemoveAll(filepath.Join(v.dir, "run")) == nil })
		if n == 5 {
			p.await("was created again")
			answers(v.t, v.dir)
		}
		return "removed directory"
	}
	return "rest"
}
