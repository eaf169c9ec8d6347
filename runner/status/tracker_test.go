package status

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

// told is a notification and its time in seconds since the subscription.
type told struct {
	after  float64
	status Status
}

// listen collects a subscriber's notifications until the VM has stopped.
func listen(t *testing.T, tracker *Tracker, pace Pace) func() []told {
	sub := tracker.Subscribe(pace)
	begin, done := time.Now(), make(chan struct{})
	var heard []told
	go func() {
		defer close(done)
		defer sub.Close()
		for {
			s, err := sub.Next(t.Context())
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				return
			}
			heard = append(heard, told{time.Since(begin).Seconds(), s})
		}
	}()
	synctest.Wait()
	return func() []told { <-done; return heard }
}

func TestChangesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := NewTracker(time.Now)
		heard := listen(t, tracker, DefaultPace())
		for _, u := range []Update{
			Entered{State: vmstatus.StateStarting},
			Entered{State: vmstatus.StateBooting},
			Entered{State: vmstatus.StateBooted},
			Entered{State: vmstatus.StateBooted},
			Ended{},
		} {
			require.NoError(t, tracker.Update(u))
			synctest.Wait()
		}
		var states []vmstatus.State
		for _, h := range heard() {
			require.Zero(t, h.after)
			states = append(states, h.status.State)
		}
		require.Equal(t, []vmstatus.State{
			vmstatus.StateInitializing, vmstatus.StateStarting, vmstatus.StateBooting,
			vmstatus.StateBooted, vmstatus.StateStopped,
		}, states, "and what changes nothing is not told")
	})
}

// An invalid update returns an error even if it would not change the status.
func TestALateUpdateIsAnError(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(time.Now, Entered{State: vmstatus.StateStarting}, Ended{})
	before := tracker.Status()
	require.Error(t, tracker.Update(Entered{State: vmstatus.StateBooting}))
	require.Equal(t, before, tracker.Status())
}

func TestAFloodIsToldOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := NewTracker(time.Now)
		heard := listen(t, tracker, Pace{Every: time.Second, Burst: 3, RAM: time.Minute})
		for i := range 95 { // for nine and a half seconds
			require.NoError(t, tracker.Update(CPUs(i+1)))
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, tracker.Update(Ended{}))
		all := heard()
		var times []float64
		for _, h := range all {
			times = append(times, h.after)
		}
		require.Equal(t, []float64{0, 0, 0.1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9.5}, times)
		require.Equal(t, vmstatus.StateStopped, all[len(all)-1].status.State, "the end is never held back")
	})
}

func TestMemoryIsToldSeldomAndExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := NewTracker(time.Now)
		heard := listen(t, tracker, DefaultPace())
		for i := range 50 { // a balloon changes for 20 seconds
			require.NoError(t, tracker.Update(RAM(1000+i)))
			synctest.Wait()
			time.Sleep(400 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		require.NoError(t, tracker.Update(RAM(5)))
		synctest.Wait()
		require.NoError(t, tracker.Update(CPUs(2)))
		synctest.Wait()
		require.NoError(t, tracker.Update(Ended{}))
		var got []string
		for _, h := range heard() {
			got = append(got, fmt.Sprintf("after %gs %d CPUs, %d bytes", h.after, h.status.CPUs, h.status.RAM))
		}
		require.Equal(t, []string{
			"after 0s 0 CPUs, 0 bytes",
			"after 0s 0 CPUs, 1000 bytes",
			"after 15s 0 CPUs, 1037 bytes",
			"after 30s 0 CPUs, 1049 bytes", // its final value
			"after 80s 0 CPUs, 5 bytes",
			"after 80s 2 CPUs, 5 bytes",
			"after 80s 0 CPUs, 0 bytes",
		}, got)
	})
}

func TestASlowSubscriberGetsTheNewest(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(time.Now)
	sub := tracker.Subscribe(DefaultPace())
	defer sub.Close()
	for i := range 1000 {
		require.NoError(t, tracker.Update(CPUs(i)))
	}
	s, err := sub.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, 999, s.CPUs)
}

func TestNextEndsWithItsContext(t *testing.T) {
	t.Parallel()
	sub := NewTracker(time.Now).Subscribe(DefaultPace())
	defer sub.Close()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := sub.Next(ctx)
	require.NoError(t, err)
	cancel()
	_, err = sub.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAfterTheEndThereIsNothing(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(time.Now, Described{Name: "web"}, Ended{Cause: "asked"})
	sub := tracker.Subscribe(DefaultPace())
	defer sub.Close()
	s, err := sub.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseAsked, s.Outcome.Cause)
	_, err = sub.Next(t.Context())
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "web", tracker.Status().Name)
}

// A flood of updates uses no additional memory, with and without readers.
func TestAFloodNeedsNoMemory(t *testing.T) {
	tracker := NewTracker(time.Now, Entered{State: vmstatus.StateBooted})
	sub := tracker.Subscribe(DefaultPace())
	defer sub.Close()
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	for i := range 200_000 {
		_ = tracker.Update(RAM(i + 1))
	}
	require.Less(t, inUse(), before+1<<20)
	require.Equal(t, int64(200_000), tracker.Status().RAM)
}
