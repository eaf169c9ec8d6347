package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// SignalError is the cause of a context that ended because of a signal.
type SignalError struct{ Signal syscall.Signal }

// Error implements error.
func (e SignalError) Error() string { return "signal " + e.Signal.String() }

// ExitCode returns the exit code of a program that ends because of the signal, as in shells.
func (e SignalError) ExitCode() int { return 128 + int(e.Signal) }

// UntilSignal returns a context that is done at the first TERM or INT, with a [SignalError] as its cause. Further
// signals have no effect until stop is called.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for s := range signals {
			cancel(SignalError{s.(syscall.Signal)})
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}
