package reconcile_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/reconcile"
)

// settled is a machine that is as wanted.
func settled(b *testing.B) *walk {
	w := &walk{t: b, rng: rand.New(rand.NewPCG(1, 1)), now: time.Unix(1_700_000_000, 0)}
	w.sim = newSim(w.rng)
	w.machine = reconcile.New(simRules, reconcile.Start{Running: true})
	w.obeyed()
	require.Empty(b, w.machine.Facts().Problems)
	return w
}

// What it costs to find out that there is nothing to do.
func BenchmarkNextWhenAllIsWell(b *testing.B) {
	w := settled(b)
	b.ReportAllocs()
	for b.Loop() {
		w.machine.Next(w.want, w.now)
	}
}

// What a flood of events costs.
func BenchmarkObserve(b *testing.B) {
	w := settled(b)
	e := qmp.Event{Name: "BALLOON_CHANGE", Data: json.RawMessage(`{"actual": 268435456}`)}
	b.ReportAllocs()
	for b.Loop() {
		w.machine.Observe(e, w.now)
	}
}
