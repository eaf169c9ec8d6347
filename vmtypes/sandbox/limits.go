package sandbox

import (
	"errors"
	"time"
)

// The limits of one request.
const (
	// Memory is the maximum memory that the process may allocate, in bytes. Including the program's own pages,
	// the process stays below 300 MB.
	Memory = 256 << 20
	// CPU is the maximum processor time. A limit in wall-clock time would kill harmless work on a busy machine.
	// On an emulated machine, 2 s are not enough to start the process and load a type.
	CPU = 5 * time.Second
	// wall is the maximum wall-clock time, for a process that waits without computing.
	wall = time.Minute
	// Largest is the maximum size of the answer including all questions, in bytes.
	Largest = 32 << 20
)

// hardCPU is the processor time after which the kernel kills the process. The kernel counts clock ticks, and
// counts too many on a busy machine.
const hardCPU = CPU * 3 / 2

// timeIsOver is the message of a process that ends because of its processor time.
const timeIsOver = "the processor time is over"

// gentle is the processor time after which the work's context is canceled. Work that checks its context can still
// report its place.
const gentle = CPU * 3 / 4

// Errors for the limits.
var (
	ErrMemory = errors.New("used more than 300 MB of memory")
	ErrCPU    = errors.New("took more than 5 s of processor time")
	errWall   = errors.New("took more than a minute")
	ErrDepth  = errors.New("is nested too deeply: the stack is full")
	ErrAnswer = errors.New("returned more than 32 MiB")
)
