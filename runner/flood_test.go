package runner_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/tier"
)

// floodEvents is the number of events that a hostile guest sends as fast as possible. The variable VMOP_EVENTS
// overrides it. Without KVM it sends about ten thousand in a second.
const floodEvents = 100_000

// A guest that floods the runner with events does not increase its memory or its log. Followers of the status receive
// one update per second, and other events are not lost. The test runs in a separate process to measure its memory.
func TestFault13FloodOfEvents(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	guest.TakePlace(t)
	if !alone(t) {
		return
	}
	events := floodEvents
	if text := os.Getenv("VMOP_EVENTS"); text != "" {
		var err error
		events, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	v := newVM(t, "standard")
	v.log.least = slog.LevelInfo // the amount of debug messages is not limited
	v.sector("disk.img",
		0xba, 0x05, 0x05, // mov dx, 0x505  the device pvpanic
		0xb0, 0x02, //       mov al, 2      PVPANIC_CRASHLOADED
		0xee,       //       out dx, al
		0xeb, 0xfd, //       jmp back to it
	)
	v.configure("standard", nil, "accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB",
		"powerdownTimeout: 0", "drives: [{file: disk.img, bootindex: 1}]", "display: {vnc: {}}")
	v.runs()
	writes := countStatus(t, v.client())
	began := time.Now()
	v.becomes("a flood", func(s status.Status) bool { return v.flooded(s) > events/10 })
	viewer := dialVNC(t, "unix", v.path("run", "vnc.sock"))
	look(t, viewer, "")
	v.shows("vnc a process of this host")
	early := heap()
	v.becomes("the end of the flood", func(s status.Status) bool { return v.flooded(s) > events })
	late := heap()
	n, seconds := writes(), int(time.Since(began).Seconds())
	t.Logf("%d events and %d status writes in %d s, heap %d and %d KiB", events, n, seconds, early>>10, late>>10)
	require.Less(t, late, early+(4<<20), "memory grows")
	require.LessOrEqual(t, n, status.DefaultPace().Burst+seconds+2)
	require.Less(t, len(v.log.text()), 64<<10, "the log grows")

	require.NoError(t, v.client().Act(t.Context(), control.Pause))
	s := v.becomes("paused", func(s status.Status) bool { return s.QEMU.RunState == "paused" })
	require.Len(t, s.Problems, 1)
	require.NoError(t, viewer.Close())
	v.shows()
	v.ends()
}

// flooded returns the number of events that the runner has received or lost.
func (v *vm) flooded(s status.Status) int {
	v.t.Helper()
	var text bytes.Buffer
	require.NoError(v.t, v.client().Metrics(v.t.Context(), &text))
	n := number(text.String(), `vmop_qmp_events_dropped_total\{[^}]*\} (\d+)`)
	for _, p := range s.Problems {
		n += number(p.Message, `\((\d+) times`)
	}
	return n
}

func number(text, pattern string) int {
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if match == nil {
		return 0
	}
	n, _ := strconv.Atoi(match[1])
	return n
}

// heap returns the memory in use, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// countStatus counts the updates that a follower of the status receives, until the result is called.
func countStatus(t *testing.T, client *control.Client) func() int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	events, err := client.Events(ctx, control.TypeStatus)
	require.NoError(t, err)
	count := make(chan int, 1)
	go func() {
		defer events.Close()
		n := 0
		for {
			if _, err := events.Next(); err != nil {
				count <- n
				return
			}
			n++
		}
	}()
	return func() int {
		cancel()
		return <-count
	}
}
