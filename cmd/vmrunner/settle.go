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

// Percentages (GOGC) by which the heap may grow between two collections.
const (
	// hurriedGC puts the first collection off until the heap has 16 MB, 4 MB at
	// 100 percent. A start allocates 4 MB and ends before anything would be
	// collected twice: a collection in its midst is a sixth of its CPU time, and
	// its workers and their stacks take more memory than it frees.
	hurriedGC = 400
	// calmGC is for a runner that only waits.
	calmGC = 25
)

// hurry makes the start of a VM cheap. What it leaves, settle cleans up.
func hurry() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(hurriedGC)
	}
}

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
