package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/printable"
	"vmop/runner/control"
	"vmop/vmstatus"
)

// guestWait describes what to wait for.
type guestWait struct {
	name string
	// agent means that an answer of the guest's agent suffices. Otherwise only its SSH server does.
	agent bool
	// limit is the longest time to wait; 0 means no limit.
	limit time.Duration
}

const (
	sshPort = 22
	// sshPause is the time between two connections to the guest's SSH server.
	sshPause = time.Second
	// shortestAttempt and longestAttempt limit how long one connection waits for the SSH server's first line. A
	// slow guest computes for a while before it sends that line, and an attempt that ends too early leaves a process
	// in the guest that keeps computing. Therefore each attempt waits twice as long as the one before.
	shortestAttempt = 5 * time.Second
	longestAttempt  = 40 * time.Second
	// quietWait is the time after which the program shows what it waits for.
	quietWait = 2 * time.Second
)

// awaitGuest waits until the guest can be used, and shows the last line of its console meanwhile.
func awaitGuest(cmd *cobra.Command, client *control.Client, w guestWait) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	if w.limit > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, w.limit, fmt.Errorf("the guest of %s has not answered within %s; "+
			"to see why, run: vmrunner console %[1]s", w.name, w.limit))
		defer cancel()
	}
	answers := make(chan error, 2)
	go func() { answers <- awaitAgent(ctx, client, w.agent) }()
	go func() {
		answers <- awaitSSHServer(ctx, func(ctx context.Context) (net.Conn, error) {
			return client.Forward(ctx, sshPort)
		})
	}()
	var last atomic.Pointer[string]
	go followLastLine(ctx, client, &last)
	return showWaiting(ctx, cmd, w.name, &last, answers)
}

// showWaiting shows what the program waits for, until there is an answer.
func showWaiting(
	ctx context.Context, cmd *cobra.Command, name string, last *atomic.Pointer[string], answers <-chan error,
) error {
	shown := cli.NewProgress(cmd)
	defer shown.End()
	began := time.Now()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case err := <-answers:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		waited := time.Since(began).Round(time.Second)
		if waited < quietWait {
			continue
		}
		text := "waiting for the guest of " + name
		if shown.OnTerminal() {
			text += fmt.Sprintf(" for %s", waited)
			if line := last.Load(); line != nil {
				text += ": " + *line
			}
		}
		shown.Show(name, text)
	}
}

// awaitAgent waits until the guest's agent has answered, if that is enough, or until the VM has ended.
func awaitAgent(ctx context.Context, client *control.Client, enough bool) error {
	events, err := client.Events(ctx, control.TypeStatus)
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		e, err := events.Next()
		switch {
		case err != nil && context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return errors.New("the VM has ended before its guest had booted")
		case err != nil:
			return err
		case enough && e.Status != nil && e.Status.State == vmstatus.StateBooted:
			return nil
		}
	}
}

// awaitSSHServer waits until a connection leads to an SSH server.
func awaitSSHServer(ctx context.Context, dial func(context.Context) (net.Conn, error)) error {
	for attempt := shortestAttempt; ; attempt = min(2*attempt, longestAttempt) {
		if trySSHServer(ctx, attempt, dial) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(sshPause):
		}
	}
}

// trySSHServer connects once, and waits for the identification string of an SSH server (RFC 4253, section 4.2).
func trySSHServer(ctx context.Context, limit time.Duration, dial func(context.Context) (net.Conn, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// The server may send other lines first.
	lines := bufio.NewScanner(io.LimitReader(conn, 8<<10))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "SSH-") {
			return nil
		}
	}
	return errors.Join(lines.Err(), errors.New("there is no SSH server"))
}

// longestShown is the maximum length of a shown console line, in bytes.
const longestShown = 60

// followLastLine stores the console's last line that contains text, until ctx is done. A VM without a console has
// none.
func followLastLine(ctx context.Context, client *control.Client, last *atomic.Pointer[string]) {
	conn, err := client.Console(ctx, control.Watch)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var line []byte
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		for piece := range bytes.Lines(buffer[:n]) {
			line = append(line, piece...)
			if text := shownLine(line); text != "" {
				last.Store(&text)
			}
			if bytes.HasSuffix(piece, []byte("\n")) || len(line) > longestPrompt {
				line = line[:0]
			}
		}
		if err != nil {
			return
		}
	}
}

// shownLine returns a line of the console without control sequences, or "" if it contains no text.
func shownLine(line []byte) string {
	var text strings.Builder
	for rest := string(line); rest != ""; {
		before, sequence, found := strings.Cut(rest, "\x1b[")
		text.WriteString(before)
		if !found {
			break
		}
		// The final byte of a control sequence is between @ and ~ (ECMA-48, section 5.4).
		end := strings.IndexFunc(sequence, func(r rune) bool { return r >= '@' && r <= '~' })
		rest = sequence[end+1:]
		if end < 0 {
			break
		}
	}
	return printable.Clip(cli.Printable(strings.TrimSpace(text.String())), longestShown)
}
