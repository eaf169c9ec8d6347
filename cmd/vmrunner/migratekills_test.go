package main

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/invariants"
	"vmop/test/wait"
)

// strike is a moment of a migration: some time after its source has logged a text, or after the request if that text is
// "".
type strike struct {
	after   string
	longest time.Duration
}

// strikes returns the moments from which the test chooses. The guest is released within the last three.
func strikes() []strike {
	return []strike{
		{"", time.Second}, // a migration takes about as long
		{`event=AtSwitch`, 200 * time.Millisecond},
		{`"heard Loaded"`, 50 * time.Millisecond},
		{`send=Go`, 20 * time.Millisecond},
	}
}

// A runner or QEMU of a migration is killed at a random time. Afterwards the guest continues on one side. If its QEMU
// was killed, its VM can be started on one side. The guest never runs twice, and it can always be started.
//
// VMOP_MIGRATION_KILLS is the number of kills. SEED repeats the victims and the times.
func TestMigrationsAreKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	count, random := chance(t, "VMOP_MIGRATION_KILLS", 8)
	var mu sync.Mutex
	fates := map[string]int{}
	t.Cleanup(func() { t.Logf("%d kills, no guest lost or doubled: %v", count, fates) })
	for n := range count {
		victim := []string{"source", "target", "source's QEMU", "target's QEMU"}[n%4]
		at := strikes()[random.IntN(len(strikes()))]
		delay := time.Duration(random.Int64N(int64(at.longest)))
		t.Run(fmt.Sprintf("%d %s %s+%s", n, victim, at.after, delay.Round(time.Millisecond)), func(t *testing.T) {
			t.Parallel()
			j := begin(t, counterSection(t)...)
			fate := j.struck(victim, at.after, delay)
			mu.Lock()
			defer mu.Unlock()
			fates[victim+": "+fate]++
		})
	}
}

// struck migrates the guest, kills a process, and returns the fate of the guest.
func (j *journey) struck(victim, after string, delay time.Duration) (fate string) {
	j.t.Helper()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = j.migrate() // the answer may be lost with the runner
	}()
	if after != "" {
		j.sending.await(after)
	}
	time.Sleep(delay)
	switch victim {
	case "source":
		j.sending.kill()
		j.sending = start(j.t, j.fromDir, nil, "--log-level", "debug")
	case "target":
		j.receiving.kill()
		j.receive()
	case "source's QEMU":
		killQEMU(j.t, j.fromDir)
	case "target's QEMU":
		killQEMU(j.t, j.toDir)
	}
	fate = j.settles()
	<-asked
	return fate
}

// killQEMU kills the QEMU of a folder, if it runs, and waits until the runner has noticed.
func killQEMU(t *testing.T, dir string) {
	t.Helper()
	victims := invariants.Processes(t, dir)[invariants.QEMU]
	for _, pid := range victims {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	wait.Until(t, func() bool { return len(victims) == 0 || !runs(t, dir) })
}

// settles waits until the guest runs on one side. If its QEMU has ended, it restarts the VM on the side of the guest,
// as a user would.
func (j *journey) settles() (fate string) {
	j.t.Helper()
	quiet := time.Now()
	wait.Until(j.t, func() bool {
		here, there := runs(j.t, j.fromDir), runs(j.t, j.toDir)
		require.False(j.t, here && there, "two guests run")
		switch {
		case here:
			fate = "it is at the source"
		case there:
			fate = "it is at the target"
		case j.receiving.hasEnded() && (j.sending.hasEnded() || time.Since(quiet) > 10*time.Second):
			fate = j.startsAnew() // a source that asks needs an answer from the restarted target
		case j.sending.hasEnded() && time.Since(quiet) > 10*time.Second:
			j.sending = start(j.t, j.fromDir, nil, "--log-level", "debug") // a target that waits asks the source
			quiet = time.Now()
		}
		return fate != ""
	}, "the guest is lost")
	return fate
}

// hasEnded reports whether a program has ended.
func (p *program) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// startsAnew starts the VM on the side where that is possible.
func (j *journey) startsAnew() string {
	j.t.Helper()
	if j.sending.hasEnded() {
		j.sending = start(j.t, j.fromDir, nil)
		if j.sending.boots() {
			return "it is started anew at the source"
		}
	}
	j.receiving = start(j.t, j.toDir, nil)
	require.True(j.t, j.receiving.boots(), "it can be started at neither side")
	return "it is started anew at the target"
}

// boots waits until a guest starts or the program ends, and reports whether the guest started.
func (p *program) boots() (booted bool) {
	p.t.Helper()
	wait.Until(p.t, func() bool {
		booted = strings.Contains(p.out.String(), "INF booting")
		return booted || p.hasEnded()
	})
	return booted
}
