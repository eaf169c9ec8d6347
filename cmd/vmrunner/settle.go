package main

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// settleTime is the delay from the start until the process is made small.
const settleTime = 5 * time.Second

// Percentages (GOGC) that the heap may grow by between two collections.
const (
	// startGC postpones the first collection until the heap has 16 MB instead of 4 MB. A start allocates 4 MB. A
	// collection at that point takes a sixth of the start's CPU time, and its workers and their stacks use more
	// memory than the collection frees.
	startGC = 400
	// idleGC is for a runner that only waits.
	idleGC = 25
)

// startMemory is the amount of memory of Go's runtime, in bytes, above which startGC no longer postpones
// collections. The guest is running long before settleTime has passed. Requests of its users during that time
// must not make the runner larger than a pod may be.
const startMemory = 12 << 20

// postponeGC keeps the garbage collector out of the start of a VM. settle collects the garbage of the start.
func postponeGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(startGC)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(startMemory)
	}
}

// settleDown waits for settleTime and then makes the process small.
func settleDown(ctx context.Context) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		settleProcess()
	}
}

// settleProcess makes the process small. The start, which benefits from two CPUs and needs memory, is over, and from
// now on the runner mostly waits. With one processor, Go keeps fewer caches. Frequent collections cost very little
// when there is little garbage (test/bench/RESULTS.md has the figures). GOMAXPROCS, GOGC and GOMEMLIMIT in the
// environment take precedence. settle removes the memory limit of the start, because the collector would run
// constantly with a limit below the memory in use.
func settleProcess() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(idleGC)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(math.MaxInt64)
	}
	debug.FreeOSMemory()
	_ = shedPages() // some pages may stay
}
