package reconcile_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
)

// mostCommands is the maximum number of commands in any second. A new wish for everything needs 30. The rest is for
// retries of failed commands.
const mostCommands = 70

// walk is a machine, its QEMU, and the time.
type walk struct {
	t       testing.TB
	rng     *rand.Rand
	sim     *sim
	machine *reconcile.Machine
	want    reconcile.Desired
	now     time.Time
	said    []time.Time // times of the commands sent in the last second
	resets  int64
}

func newWalk(t testing.TB, seed uint64) *walk {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &walk{t: t, rng: rng, sim: newSim(rng), now: time.Unix(1_700_000_000, 0)}
	start := reconcile.Start{Media: map[int]string{1: "/a.iso", 2: ""}}
	if rng.IntN(2) == 0 { // adopted
		start = reconcile.Start{Running: true}
		w.sim.running = true
	}
	w.machine = reconcile.New(simRules, start)
	w.want = desires(rng, 0)
	if !start.Running {
		w.sim.size = w.want.Sizes[0]
	}
	return w
}

// goes advances the time and passes on the events.
func (w *walk) goes(d time.Duration) {
	w.now = w.now.Add(d)
	w.sim.passes(d)
	for _, e := range w.sim.out {
		w.machine.Observe(e, w.now)
	}
	w.sim.out = nil
}

// turn executes the next step.
func (w *walk) turn() reconcile.Step {
	step := w.machine.Next(w.want, w.now)
	require.True(w.t, step.Wake.IsZero() || step.Wake.After(w.now))
	for len(w.said) > 0 && w.now.Sub(w.said[0]) >= time.Second {
		w.said = w.said[1:]
	}
	for _, r := range step.Requests {
		w.said = append(w.said, w.now)
		reply, err := w.sim.run(r.Command)
		if w.rng.IntN(2) == 0 { // an event comes before or after the answer
			w.goes(0)
		}
		w.machine.Answer(r, reply, err, w.now)
	}
	for _, address := range step.Servers {
		var err error
		if w.rng.IntN(4) == 0 {
			err = errors.New("no answer")
		}
		w.machine.Answers(address, err, w.now)
	}
	require.LessOrEqual(w.t, len(w.said), mostCommands, "commands in a second")
	require.NotContains(w.t, w.machine.Facts().Problems, reconcile.Problem{})
	return step
}

// moody continues for some turns with an unreliable QEMU.
func (w *walk) moody(turns int) {
	var wished time.Duration
	for range turns {
		if w.rng.IntN(10) == 0 {
			w.sim.babble()
		}
		step := w.turn()
		pause := time.Duration(w.rng.IntN(300)) * time.Millisecond
		if len(step.Requests) == 0 && !step.Wake.IsZero() && w.rng.IntN(3) > 0 {
			pause = step.Wake.Sub(w.now)
		}
		if wished += pause; wished > 5*time.Second {
			wished = 0
			w.resets += w.rng.Int64N(3)
			w.want = desires(w.rng, w.resets)
		}
		w.goes(pause)
	}
}

// obeyed continues until everything is as wanted, and fails if that does not happen.
func (w *walk) obeyed() {
	w.sim.behaves()
	w.goes(0)
	if w.sim.lost {
		w.machine.Doubt()
	}
	w.resets++
	w.want = desires(w.rng, w.resets)
	w.want.Sizes[0] = max(w.want.Sizes[0], w.sim.size) // a smaller size is reported as a problem
	end := w.now.Add(time.Hour)
	for w.now.Before(end) {
		step := w.turn()
		switch {
		case len(step.Requests) > 0 || len(step.Servers) > 0:
			w.goes(time.Millisecond)
		case len(w.sim.after) > 0:
			w.goes(100 * time.Millisecond)
		case !step.Wake.IsZero():
			w.goes(step.Wake.Sub(w.now))
		default:
			facts := w.machine.Facts()
			require.Empty(w.t, w.sim.fulfills(w.want))
			require.Empty(w.t, facts.Problems)
			require.Equal(w.t, w.want.CPUs, facts.CPUs)
			require.Equal(w.t, w.want.RAM, facts.RAM)
			require.True(w.t, w.sim.sameMedia(facts), "%v", facts.Media)
			return
		}
	}
	w.t.Fatalf("an hour later: %v, problems: %v", w.sim.fulfills(w.want), w.machine.Facts().Problems)
}

// With any behavior of QEMU and its guest, the runner sends a bounded number of commands. When they obey, everything
// becomes as wanted and the runner is then silent.
func TestRandomDialoguesConverge(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWalk(t, seed)
			w.moody(400)
			w.obeyed()
		})
	}
}

func FuzzDialogue(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed, uint(100))
	}
	f.Fuzz(func(t *testing.T, seed uint64, turns uint) {
		w := newWalk(t, seed)
		w.moody(int(turns % 2000))
		w.obeyed()
	})
}
