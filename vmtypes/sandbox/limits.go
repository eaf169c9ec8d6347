package sandbox

import (
	"errors"
	"time"
)

// The limits of one request.
const (
	// Memory is all that the process may allocate, in bytes. With the program's
	// own pages it stays below 300 MB.
	Memory = 256 << 20
	// CPU is the processor time after which the process is ended. Time on the
	// clock would end innocent work on a busy machine. In a machine that is emulated
	// 2 s are not enough to start the process and load a type.
	CPU = 5 * time.Second
	// Wall is the time on the clock after which it is ended although it didn't
	// compute.
	Wall = time.Minute
	// Largest is how long the answer, with all questions, may be, in bytes.
	Largest = 32 << 20
)

// hardCPU is when the kernel ends the process. It counts ticks of its clock, and
// on a busy machine too many.
const hardCPU = CPU * 3 / 2

// timeIsOver is what a process says that ends because of it.
const timeIsOver = "the processor time is over"

// gentle is the processor time after which the context of the work is done: work
// that looks at it can still say where it was.
const gentle = CPU * 3 / 4

// The limits as errors.
var (
	ErrMemory = errors.New("used more than 300 MB of memory")
	ErrCPU    = errors.New("took more than 5 s of processor time")
	ErrWall   = errors.New("took more than a minute")
	ErrDepth  = errors.New("is nested too deeply: the stack is full")
	ErrAnswer = errors.New("returned more than 32 MiB")
)
