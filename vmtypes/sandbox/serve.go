package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"
)

// Work processes a request in a child. It asks the parent for all information that the request lacks. ctx is canceled
// shortly before the processor time is used up.
type Work func(ctx context.Context, request json.RawMessage, ask Ask) (result any, err error)

// Ask sends a question to the parent and decodes the answer into answer.
type Ask func(question, answer any) error

// Serve must be the first call in main. In a child it processes the request and exits. In any other process it returns
// immediately.
func Serve(ctx context.Context, work Work) {
	if !isChild() {
		return
	}
	m := message{}
	if result, err := serveWork(ctx, work); err != nil {
		m.Error = err.Error()
	} else {
		m.Result = result
	}
	if err := json.NewEncoder(os.Stdout).Encode(m); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func serveWork(parent context.Context, work Work) (json.RawMessage, error) {
	if err := confineProcess(); err != nil {
		return nil, fmt.Errorf("confine the process: %w", err)
	}
	debug.SetMaxStack(Memory / 4)
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	go watchLimits(cancel)
	from := json.NewDecoder(os.Stdin)
	var request json.RawMessage
	if err := from.Decode(&request); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	result, err := work(ctx, request, func(question, answer any) error {
		text, err := json.Marshal(question)
		if err != nil {
			return fmt.Errorf("ask: %w", err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(message{Question: text}); err != nil {
			return fmt.Errorf("ask: %w", err)
		}
		var m message
		if err := from.Decode(&m); err != nil {
			return fmt.Errorf("ask: %w", err)
		}
		return json.Unmarshal(m.Answer, answer)
	})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(result)
	if err == nil && len(text) >= Largest {
		err = ErrAnswer
	}
	return text, err
}

// watchInterval is the interval between checks of the processor time.
const watchInterval = 20 * time.Millisecond

// watchLimits cancels the context shortly before the processor time is used up, and finally ends the process. If the
// process is stuck before that, the kernel kills it.
func watchLimits(cancel context.CancelCauseFunc) {
	for {
		time.Sleep(watchInterval)
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			return
		}
		used := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		if used > gentle {
			cancel(errGentle)
		}
		if used > CPU {
			fmt.Fprintln(os.Stderr, timeIsOver)
			os.Exit(1)
		}
	}
}

var errGentle = errors.New("there are 5 s of processor time")
