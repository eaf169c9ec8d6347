// Package wait waits in tests for other threads, programs and guests.
//
// All tests have the same budget: five minutes on an idle computer. It stretches with the load: while eight threads
// want to run on two CPUs, a second costs a quarter of a second. A test therefore fails because something hangs, not
// because the computer is busy. See docs/decisions/0185-one-patience.md.
package wait

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A budget of five minutes is stretched to 40 minutes at most.
const (
	budget     = 5 * time.Minute
	mostBusy   = 8
	sampleTime = 200 * time.Millisecond
)

// Longest is the longest stretched budget.
const Longest = mostBusy * budget

// Until waits until the condition is true. When the budget is used, the test fails with the message.
func Until(t testing.TB, is func() bool, msgAndArgs ...any) {
	t.Helper()
	left := newMeter(budget)
	for pause := time.Millisecond; !is(); pause = min(pause*3/2, 100*time.Millisecond) {
		if left.isUsed() {
			require.FailNow(t, "waited in vain", msgAndArgs...)
		}
		time.Sleep(pause)
	}
}

// For waits until try returns no error. When the budget is used, the test fails with the last error.
func For(t testing.TB, what string, try func() error) {
	t.Helper()
	left := newMeter(budget)
	for pause := 20 * time.Millisecond; ; pause = min(pause*3/2, 300*time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if left.isUsed() {
			require.NoError(t, err, "waited in vain for "+what)
		}
		time.Sleep(pause)
	}
}

// Receive waits until the channel is closed or has a value, and returns it. When the budget is used, the test fails
// with the message.
func Receive[T any](t testing.TB, from <-chan T, msgAndArgs ...any) T {
	t.Helper()
	look := time.NewTicker(sampleTime)
	defer look.Stop()
	for left := newMeter(budget); !left.isUsed(); {
		select {
		case value := <-from:
			return value
		case <-look.C:
		}
	}
	require.FailNow(t, "waited in vain", msgAndArgs...)
	panic("not reached")
}

// Over returns a channel that is closed when the budget is used.
func Over(t testing.TB) <-chan struct{} {
	ctx, cancel := Context(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	return ctx.Done()
}

// Context returns a context that ends when the budget is used.
func Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		left := newMeter(budget)
		for !left.isUsed() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second): // many of these goroutines may be waiting
			}
		}
		cancel(context.DeadlineExceeded)
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// Deadline returns the latest possible end of a stretched budget, for deadlines of connections.
func Deadline() time.Time { return time.Now().Add(Longest) }

// meter measures how much of a budget is left.
type meter struct {
	left time.Duration
	last time.Time
	busy func() float64 // runnable threads per CPU
}

func newMeter(of time.Duration) *meter { return &meter{of, time.Now(), busyThreads} }

// isUsed subtracts the time since the last call from the budget, and reports whether the budget is used up. If the
// computer was suspended, it subtracts at most a second.
func (m *meter) isUsed() bool {
	if since := time.Since(m.last); since >= sampleTime {
		m.last = m.last.Add(since)
		m.left -= time.Duration(float64(min(since, time.Second)) / min(max(m.busy(), 1), mostBusy))
	}
	return m.left <= 0
}

// busyThreads returns the number of runnable threads per CPU, from procs_running of proc_stat(5).
func busyThreads() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 1
	}
	_, rest, _ := bytes.Cut(text, []byte("procs_running "))
	number, _, _ := bytes.Cut(rest, []byte("\n"))
	threads, _ := strconv.Atoi(string(number)) // 0 if the kernel doesn't report it
	return float64(threads) / float64(runtime.NumCPU())
}
