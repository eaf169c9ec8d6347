package handover

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/migrate"
	"vmop/test/tier"
)

// moment is a stage of a side. Something is killed there.
type moment struct {
	side  string
	stage migrate.Stage
}

// moments returns all stages of a successful migration.
func moments() []moment {
	return []moment{
		{"source", migrate.Offering},
		{"target", migrate.Comparing},
		{"target", migrate.Preparing},
		{"source", migrate.Copying},
		{"target", migrate.Receiving},
		{"source", migrate.Switching},
		{"target", migrate.Holding},
		{"source", migrate.Asking},
		{"target", migrate.Resuming},
		{"target", migrate.Running},
	}
}

// struck is a trial with a kill at a moment, before the stage's action.
type struck struct {
	*trial
	target             *Target
	sending, receiving run
	killed             chan struct{}
}

// disksOf returns the kinds of disks of a moved guest, with functions that create their trials.
func disksOf() map[string]func(*testing.T) *trial {
	return map[string]func(*testing.T) *trial{
		"shared": func(t *testing.T) *trial { return newTrial(t, false) },
		"local":  func(t *testing.T) *trial { return newLocal(t, "raw", "qcow2") },
	}
}

// strike starts a migration with a shared disk and kills at the moment.
func strike(t *testing.T, m moment, kill func(*struck)) *struck {
	t.Helper()
	return strikeOn(t, disksOf()["shared"], m, kill)
}

// strikeOn starts a migration with any disk and kills at the moment.
func strikeOn(t *testing.T, trial func(*testing.T) *trial, m moment, kill func(*struck)) *struck {
	t.Helper()
	s := &struck{trial: trial(t), killed: make(chan struct{})}
	var once sync.Once
	ready := make(chan struct{})
	s.at = func(side string, p Progress) {
		if side != m.side || p.Stage != string(m.stage) {
			return
		}
		<-ready
		once.Do(func() {
			kill(s)
			close(s.killed)
		})
	}
	s.target, s.receiving = s.asTarget()
	s.sending = s.asSource()
	close(ready)
	get(t, s.killed)
	return s
}

// everyMoment runs a test for each moment and kind of disk.
func everyMoment(t *testing.T, test func(*testing.T, func(*testing.T) *trial, moment)) {
	for name, trial := range disksOf() {
		for _, m := range moments() {
			t.Run(name+" "+string(m.stage), func(t *testing.T) {
				t.Parallel()
				test(t, trial, m)
			})
		}
	}
}

// Killing a QEMU ends the guest only if that QEMU holds the guest at that time. Otherwise the guest runs at the other
// side.
func TestAQEMUIsKilled(t *testing.T) {
	t.Parallel()
	everyMoment(t, func(t *testing.T, trial func(*testing.T) *trial, m moment) {
		t.Run("of the source", func(t *testing.T) {
			t.Parallel()
			s := strikeOn(t, trial, m, func(s *struck) { s.from.kill() })
			sent := get(t, s.sending.ended)
			if m.stage == migrate.Offering { // the target has not heard of it
				require.Error(t, sent)
				return
			}
			received := get(t, s.target.Decided())
			if received == nil {
				require.NoError(t, sent)
				exactlyOne(t, s.to, s.from)
				s.arrived()
				return
			}
			require.Error(t, sent)
			require.NotContains(t, []migrate.Stage{migrate.Asking, migrate.Resuming, migrate.Running}, m.stage)
			if there := s.there(); there != nil {
				require.NotEqual(t, "running", there.state())
			}
			get(t, s.receiving.ended)
			s.nothingArrived()
		})
		if m.stage == migrate.Offering || m.stage == migrate.Comparing || m.stage == migrate.Preparing {
			return // the target has no QEMU yet
		}
		t.Run("of the target", func(t *testing.T) {
			t.Parallel()
			s := strikeOn(t, trial, m, func(s *struck) { s.there().kill() })
			sent, received := get(t, s.sending.ended), get(t, s.target.Decided())
			if m.stage == migrate.Running { // the guest is lost
				require.NoError(t, received)
				require.NoError(t, sent)
				return
			}
			require.Error(t, received)
			require.Error(t, sent)
			exactlyOne(t, s.from, s.to)
			unrecorded(t, s.fromDir)
			get(t, s.receiving.ended)
			s.stayed()
		})
	})
}

// A killed runner leaves its QEMU to the next runner, and the guest runs at one of the sides.
func TestARunnerIsKilled(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	everyMoment(t, func(t *testing.T, trial func(*testing.T) *trial, m moment) {
		t.Run("of the source", func(t *testing.T) {
			t.Parallel()
			s := strikeOn(t, trial, m, func(s *struck) { s.sending.cancel() })
			sent := get(t, s.sending.ended)
			if note, err := Read(s.fromDir); err != nil || note.Record != migrate.NoRecord {
				require.NoError(t, err)
				sent = get(t, s.asSource().ended)
			}
			if m.stage == migrate.Offering {
				require.Error(t, sent)
				exactlyOne(t, s.from, nil)
				return
			}
			s.judge(t, sent, get(t, s.target.Decided()))
		})
		t.Run("of the target", func(t *testing.T) {
			t.Parallel()
			s := strikeOn(t, trial, m, func(s *struck) {
				s.receiving.cancel()
				s.closed.Store(true)
				_ = s.listener.Close()
			})
			require.Error(t, get(t, s.receiving.ended))
			next, receiving := s.asTarget()
			note, err := Read(s.toDir)
			require.NoError(t, err)
			if note.Record == migrate.NoRecord {
				receiving.kill()
				_ = s.listener.Close()
				require.Error(t, get(t, s.sending.ended))
				exactlyOne(t, s.from, s.there())
				s.stayed()
				return
			}
			received := get(t, next.Decided())
			s.judge(t, get(t, s.sending.ended), received)
		})
	})
}

// judge requires that the guest runs where both sides report it.
func (s *struck) judge(t *testing.T, sent, received error) {
	t.Helper()
	if received != nil {
		require.Error(t, sent)
		exactlyOne(t, s.from, s.there())
		unrecorded(t, s.fromDir)
		s.stayed()
		return
	}
	require.NoError(t, sent)
	exactlyOne(t, s.to, s.from)
	continues(t, s.from, s.to)
	s.arrived()
}
