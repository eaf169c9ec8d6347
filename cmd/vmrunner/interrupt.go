package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"vmop/qmp"
	"vmop/runner/control"
)

// insistTime is the maximum time between two Ctrl-C that end the VM immediately.
const insistTime = 2 * time.Second

// interrupts gives a user at a terminal the expected effects of Ctrl-C. The first Ctrl-C is a signal to shut
// down, and interrupts only explains the next step.
type interrupts struct {
	out    io.Writer
	client func(context.Context) (*control.Client, error)
	last   time.Time // of the second and later Ctrl-C
	count  int
}

// watchInterrupts handles Ctrl-C on a terminal for the runner of a configuration file, until stop is called.
func watchInterrupts(ctx context.Context, file string, out io.Writer) (stop func()) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	i := &interrupts{out: out, client: func(ctx context.Context) (*control.Client, error) {
		dir, _, err := byConfig(file)
		if err != nil {
			return nil, err
		}
		return dialDir(ctx, dir)
	}}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT)
	go func() {
		for range signals {
			i.handleInterrupt(ctx, time.Now())
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// handleInterrupt handles a Ctrl-C.
func (i *interrupts) handleInterrupt(ctx context.Context, now time.Time) {
	i.count++
	if i.count == 1 {
		fmt.Fprintln(i.out, "\nThe guest is asked to shut down; the log shows how long it has. Ctrl-C asks again; twice within "+
			"2 seconds, or vmrunner stop --force, ends the VM immediately.")
		return
	}
	force := now.Sub(i.last) < insistTime
	i.last = now
	ctx, cancel := boundRequest(ctx)
	defer cancel()
	client, err := i.client(ctx)
	switch {
	case err != nil:
	case force:
		fmt.Fprintln(i.out, "\nThe VM is ended immediately.")
		err = client.Act(ctx, control.Kill)
	default:
		fmt.Fprintln(i.out, "\nThe guest is asked again; another Ctrl-C within 2 seconds ends the VM immediately.")
		_, err = client.QMP(ctx, qmp.Command{Execute: "system_powerdown"})
	}
	if err != nil {
		fmt.Fprintf(i.out, "The runner can't be asked: %v\n", err)
	}
}
