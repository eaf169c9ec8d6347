package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
)

// sharedTerminal returns a consoleLog that uses screen for both streams, and its logger.
func sharedTerminal(screen *bytes.Buffer, holds bool) (*consoleLog, *slog.Logger) {
	c := &consoleLog{console: screen, log: screen, shared: true, holds: holds}
	plain := func(urgent bool) slog.Handler {
		return slog.NewTextHandler(consoleLines{c, urgent}, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})
	}
	return c, slog.New(byUrgency{plain(true), plain(false)})
}

// Each step is output of the guest ("> text") or the log ("i text", "w text"), or an action on the console.
func TestNoLineOfTheGuestIsTorn(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		holds bool
		steps string
		want  string
	}{
		{"before the console is shown", true, "i a|w b", "i a\nw b\n"},
		{"whole lines of the guest", true, "show|> one\n|w a|> two\n", "one\nw a\ntwo\n"},
		{"a prompt is repeated", true, "show|> one\nlogin: |w a|> root\n", "one\nlogin: \nw a\nlogin: root\n"},
		{"a prompt in pieces", true, "show|> log|> in: |w a|w b", "login: \nw a\nlogin: \nw b\nlogin: "},
		{"the rest waits", true, "show|> $ |i a|i b|w c|leave|i d", "$ \nw c\n$ \ni a\ni b\ni d\n"},
		{"unless it was asked for", false, "show|> $ |i a|leave", "$ \ni a\n$ \n"},
		{"or the guest is being ended", true, "show|> $ |i a|release|i b", "$ \ni a\n$ \ni b\n$ "},
		{"nothing begun", true, "show|> x\n|i a|leave", "x\ni a\n"},
		{"shown again", true, "show|> $ |leave|show|> x\n|i a|w b|leave", "$ \nx\nw b\ni a\n"},
	} {
		var screen bytes.Buffer
		c, log := sharedTerminal(&screen, row.holds)
		for step := range strings.SplitSeq(row.steps, "|") {
			word, text, _ := strings.Cut(step, " ")
			switch word {
			case "show":
				c.showConsole()
			case "leave":
				c.endLine()
			case "release":
				c.releaseHeld()
			case ">":
				fmt.Fprint(c, text)
			case "i":
				log.With("vm", "x").Info(text)
			case "w":
				log.With("vm", "x").Warn(text)
			}
		}
		short := strings.NewReplacer("level=INFO msg=", "i ", "level=WARN msg=", "w ", " vm=x", "")
		got := short.Replace(screen.String())
		require.Equal(t, row.want, got, row.name)
	}
}

// Memory is bounded: only the newest records and a limited prompt are kept.
func TestLittleIsKeptBesideTheConsole(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	c, log := sharedTerminal(&screen, true)
	c.showConsole()
	for i := range mostHeld + 3 {
		log.Info("record", "number", i)
	}
	fmt.Fprint(c, strings.Repeat("x", longestPrompt+1))
	screen.Reset()
	log.Warn("between")
	require.Equal(t, "\nlevel=WARN msg=between\n", screen.String())
	c.endLine()
	require.Contains(t, screen.String(), "(3 earlier messages of the log are left out)\nlevel=INFO msg=record number=3\n")
}

// A log on another stream than the console is written immediately.
func TestALogElsewhereIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	var screen, file bytes.Buffer
	c, log := sharedTerminal(&screen, true)
	c.shared, c.log = false, &file
	c.showConsole()
	fmt.Fprint(c, "login: ")
	log.Info("at once")
	c.endLine()
	require.Equal(t, "login: ", screen.String())
	require.Equal(t, "level=INFO msg=\"at once\"\n", file.String())
}

// On a terminal a warning is printed on a new line, and the guest's prompt is repeated. Other messages are printed when
// the user leaves the console.
func TestTheLogBesideAConsole(t *testing.T) {
	t.Parallel()
	c := newTerminal(t)
	dir := folder(t, "standard", obedient(t, false)...)
	p := startOn(t, c, dir)
	p.await(`Meanwhile the log has only warnings; the rest follows when the console is left\.`)
	p.await(guest.ObedientSays + `\s`)
	c.press("half a line")
	p.await(`HALF A LINE`)
	file := filepath.Join(dir, "config.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(text, "  nonsense: 1\n"...), 0o600))
	p.await(`(WRN|ERR).*configuration`)
	p.await(`(?m)^HALF A LINE`)
	require.NotContains(t, p.out.String(), "booting")
	c.press("\x1d")
	p.await(`booting`)
	p.await(`Detached`)
	c.press("\x03")
	p.await(`terminating`)
	require.Zero(t, p.exit())
}
