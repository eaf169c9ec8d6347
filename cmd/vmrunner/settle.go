package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// settleTime is when a start is over, however it went.
const settleTime = 5 * time.Second

// calmGC is the percentage (GOGC) by which the heap of a runner that only waits
// may grow between two collections.
const calmGC = 25

// settleDown waits until the start is over and makes the process small then.
func settleDown(ctx context.Context) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		settle()
	}
}

// settle makes the process small. What needs two CPUs and a lot of memory for a
// moment has been done; the rest of a runner's life it waits. One processor at a
// time has fewer caches, and an eager garbage collector costs next to nothing
// where there is little garbage (docs/performance.md has the figures).
// GOMAXPROCS and GOGC of the environment are the user's word. There is no limit
// (GOMEMLIMIT): one below what is in use makes the collector run for ever.
func settle() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(calmGC)
	}
	debug.FreeOSMemory()
	_ = shed() // what can't be given back is kept
}
