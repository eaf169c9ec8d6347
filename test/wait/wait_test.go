package wait

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// used returns the seconds after which a budget of a minute is used up, if a test checks it at an interval.
func used(t *testing.T, busy float64, every time.Duration) (seconds int) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(time.Minute)
		m.busy = func() float64 { return busy }
		began := time.Now()
		for !m.isUsed() {
			time.Sleep(every)
		}
		seconds = int(time.Since(began).Seconds())
	})
	return seconds
}

func TestABusyComputerHasMoreTime(t *testing.T) {
	require.Equal(t, 60, used(t, 0.5, 200*time.Millisecond))
	require.Equal(t, 60, used(t, 0, 20*time.Millisecond), "looks often")
	require.Equal(t, 240, used(t, 4, 200*time.Millisecond))
	require.Equal(t, 480, used(t, 100, 200*time.Millisecond), "the maximum")
	require.Equal(t, 600, used(t, 1, 10*time.Second), "a computer that was paused")
	require.Positive(t, busyThreads())
}

// failing is a test that stops like a failed test, and returns its message.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }
func (f *failing) FailNow()              { panic(f) }

func TestWaitingEnds(t *testing.T) {
	for name, waits := range map[string]func(testing.TB){
		"Until":   func(t testing.TB) { Until(t, func() bool { return false }) },
		"For":     func(t testing.TB) { For(t, "nothing", func() error { return errors.New("not yet") }) },
		"Receive": func(t testing.TB) { Receive(t, make(chan int)) },
		"Over":    func(t testing.TB) { <-Over(t); t.Errorf("over") },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &failing{TB: t}
			if name == "Over" {
				waits(f)
			} else {
				require.PanicsWithValue(t, f, func() { waits(f) }, name)
			}
			require.True(t, f.failed, name)
		})
	}
	calls := 0
	Until(t, func() bool { calls++; return calls == 3 })
	For(t, "the fifth call", func() error {
		calls++
		return map[bool]error{calls < 5: errors.New("not yet")}[true]
	})
	require.Equal(t, 5, calls)
	values := make(chan int, 1)
	values <- 6
	require.Equal(t, 6, Receive(t, values))
	close(values)
	require.Zero(t, Receive(t, values))
	ctx, cancel := Context(t.Context())
	require.NoError(t, ctx.Err())
	cancel()
	require.Error(t, ctx.Err())
}
