package soak_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSoak walks for SOAKTIME (default 25s) with the SEED of the environment (default random).
func TestSoak(t *testing.T) {
	t.Parallel()
	lasts, seed := 25*time.Second, rand.Uint64N(1_000_000)
	var err error
	if text := os.Getenv("SOAKTIME"); text != "" {
		lasts, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	if text := os.Getenv("SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	w := newWalk(t, seed)
	err = w.goes(lasts)
	fmt.Println(w.summary(err))
	require.NoError(t, err, "SEED=%d, the last of %d steps:\n%s", seed, len(w.steps),
		strings.Join(w.steps[max(0, len(w.steps)-30):], "\n"))
	require.Greater(t, w.passed, 1)
}

// walk is a random walk.
type walk struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	machine *soakVM
	model   model

	life   life
	lives  []string // their summaries
	grown  []string
	steps  []string
	passed int
}

func newWalk(t *testing.T, seed uint64) *walk {
	first := wish{cpus: 1, ram: 256 * mib, medium: "a.iso", password: "canary", timeout: 60, rtcBase: "utc"}
	return &walk{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), machine: newMachine(t),
		model: model{wish: first},
	}
}

func (w *walk) summary(failure error) string {
	failed := len(w.grown)
	if failure != nil && failed == 0 {
		failed = 1
	}
	return fmt.Sprintf("soak: SEED=%d; %s\n%d passed, %d failed", w.seed, strings.Join(w.lives, "; "), w.passed, failed)
}

// goes starts the machine, takes steps for a while, and ends it.
func (w *walk) goes(lasts time.Duration) error {
	if err := w.machine.configure(w.model.wish, "", manners()[0]); err != nil {
		return err
	}
	begin := time.Now()
	err := w.start()
	for err == nil {
		if err = w.settles(); err != nil {
			break
		}
		w.passed++
		if time.Since(begin) > lasts {
			break
		}
		err = w.step()
	}
	if err != nil {
		return err
	}
	w.ends()
	if len(w.grown) > 0 {
		return fmt.Errorf("%s", strings.Join(w.grown, "\n"))
	}
	return w.last()
}

// step takes one of the possible actions.
func (w *walk) step() error {
	var possible []action
	for _, a := range actions() {
		if a.can == nil || a.can(w.model) {
			for range a.weight {
				possible = append(possible, a)
			}
		}
	}
	a := possible[w.rng.IntN(len(possible))]
	what, err := a.do(w)
	w.steps = append(w.steps, fmt.Sprintf("%4d %s %s %s", len(w.steps)+1, time.Now().UTC().Format(time.TimeOnly),
		a.name, what))
	if err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	return nil
}

// start starts the machine. The guest has booted when settles returns.
func (w *walk) start() error {
	w.life = life{}
	code, err := w.machine.run()
	if err == nil && code != 0 {
		err = fmt.Errorf("vmrunner ended with exit code %d", code)
	}
	w.model.start()
	return err
}

// settles waits until the VM matches the model, and takes a sample.
func (w *walk) settles() error {
	var wrong []string
	err := until(func() (bool, error) {
		s, err := w.machine.look()
		if err != nil {
			return false, err
		}
		wrong = w.model.differs(s)
		if len(wrong) > 0 {
			return false, nil
		}
		w.model.saw(s)
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("the VM is not as it must be: %s: %w", strings.Join(wrong, "; "), err)
	}
	metrics, err := w.machine.metrics()
	if err != nil {
		return err
	}
	return w.life.sample(metrics)
}

// ends judges the life of a runner that is about to end.
func (w *walk) ends() {
	wrong, summary := w.life.grown()
	w.grown = append(w.grown, wrong...)
	w.lives = append(w.lives, summary)
}

// last ends the machine for good.
func (w *walk) last() error {
	if w.model.paused {
		if _, err := w.resume(); err != nil {
			return err
		}
	}
	if err := w.act("stop"); err != nil {
		return err
	}
	if code, err := w.machine.exit(); code != 0 || err != nil {
		return fmt.Errorf("the last stop: exit code %d, %w", code, err)
	}
	return w.machine.nothingLeft()
}
