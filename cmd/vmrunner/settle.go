package main

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// settleTime is how long after the start the process is made small.
const settleTime = 5 * time.Second

// Percentages (GOGC) by which the heap may grow between two collections.
const (
	// startGC postpones the first collection until the heap has 16 MB, instead of 4 MB.
	// A start allocates 4 MB. A collection then takes a sixth of its CPU time, and its
	// workers and their stacks use more memory than it frees.
	startGC = 400
	// idleGC is for a runner that only waits.
	idleGC = 25
)

// startMemory is how much memory, in bytes, Go's runtime may take before startGC no longer
// postpones a collection: the guest runs long before settleTime is over, and what its users
// ask for then must not make the runner larger than a pod may be.
const startMemory = 12 << 20

// postponeGC keeps the garbage collector out of the start of a VM. Settle collects what
// the start leaves behind.
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
		settle()
	}
}

// settle makes the process small. The start, which benefits from two CPUs and needs
// memory, is over; from now on the runner mostly waits. With one processor Go keeps
// fewer caches, and frequent collections cost next to nothing where there is little
// garbage (docs/performance.md has the figures). GOMAXPROCS, GOGC and GOMEMLIMIT in the
// environment take precedence. The limit of the start is not kept: with a limit below what
// is in use the collector would run all the time.
func settle() {
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
	_ = shed() // pages that can't be released stay
}
