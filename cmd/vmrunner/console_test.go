package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/runner/control"
	"vmop/test/guest"
	"vmop/test/wait"
)

// terminal is a pseudo-terminal: text that is written to keyboard is read from tty.
type terminal struct {
	t             *testing.T
	keyboard, tty *os.File
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	keyboard, tty := openPTY(t)
	return &terminal{t, keyboard, tty}
}

// press types keys.
func (c *terminal) press(keys string) {
	c.t.Helper()
	_, err := c.keyboard.WriteString(keys)
	require.NoError(c.t, err)
}

// settings returns the settings that consoleMode changes.
func (c *terminal) settings() unix.Termios {
	c.t.Helper()
	settings, err := unix.IoctlGetTermios(int(c.tty.Fd()), unix.TCGETS)
	require.NoError(c.t, err)
	return *settings
}

// startOn starts vmrunner as a shell on a terminal does: in the foreground of a new session, so that Ctrl-C sends a
// signal.
func startOn(t *testing.T, c *terminal, dir string) *program {
	t.Helper()
	p := &program{t: t, out: newTranscript(), ended: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), "vmrunner", "-c", filepath.Join(dir, "config.yaml"), "--console")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = c.tty, c.tty, c.tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.launch()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := c.keyboard.Read(buf)
			_, _ = p.out.Write(buf[:n]) // never fails
			if err != nil {
				return // the terminal is closed
			}
		}
	}()
	return p
}

// A user at a terminal sees the guest's console and types into it, leaves it and returns, and ends the guest with
// Ctrl-C. Afterwards the terminal has its old settings.
func TestConsoleOnATerminal(t *testing.T) {
	t.Parallel()
	c := newTerminal(t)
	before := c.settings()
	dir := folder(t, "standard", obedient(t, false)...)
	p := startOn(t, c, dir)
	p.await(`Serial console of test\. \^\] detaches, Ctrl-C asks the guest to power off\.`)
	p.await(guest.ObedientSays)
	require.Zero(t, c.settings().Lflag&unix.ECHO, "the guest echoes")
	require.NotZero(t, c.settings().Lflag&unix.ISIG, "Ctrl-C is a signal")

	c.press("the guest answers\r")
	p.await(`THE GUEST ANSWERS`)
	c.press("\x1dnot for the guest\r")
	p.await(`Detached; the VM keeps running\. Return attaches again`)
	client := dial(t, dir)
	other, err := client.Console(t.Context(), control.Type)
	require.NoError(t, err, "another client may type")
	c.press("\r")
	p.await(`the console is in use by uid \d+ pid \d+\. Return takes it over`)
	c.press("\r")
	p.await(`Attached again\.`)
	require.NoError(t, other.Close())
	other, err = client.Console(t.Context(), control.Take)
	require.NoError(t, err)
	t.Cleanup(func() { other.Close() })
	p.await(`\[console taken over by uid \d+ pid \d+\]`)
	p.await(`Return takes the console back`)
	c.press("\r")
	p.await(`Attached again\.`)
	c.press("it still answers\r")
	p.await(`IT STILL ANSWERS`)
	require.NotContains(t, strings.ToUpper(p.out.String()), "NOT FOR THE GUEST")

	c.press("\x03")
	p.await(`terminating`)
	p.await(guest.ObedientHears)
	require.Zero(t, p.exit())
	require.Equal(t, before, c.settings())
	require.NoDirExists(t, filepath.Join(dir, "run"))
}

// If a guest doesn't react to Ctrl-C, the next Ctrl-C asks it again, and two in a row end it.
func TestCtrlCInsists(t *testing.T) {
	t.Parallel()
	c := newTerminal(t)
	dir := folder(t, "standard", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 900")
	p := startOn(t, c, dir)
	p.await(`Serial console of test`)
	wait.Until(t, func() bool {
		config := filepath.Join(dir, "config.yaml")
		text, err := exec.CommandContext(t.Context(), "vmrunner", "status", "-c", config).Output()
		return err == nil && bytes.Contains(text, []byte("Booting")) // earlier, Ctrl-C would end the start
	})
	c.press("\x03")
	p.await(`Ctrl-C asks again; twice within 2 seconds, or vmrunner stop --force, ends the VM immediately`)
	c.press("\x03")
	p.await(`The guest is asked again`)
	wait.Until(t, func() bool { // the kernel merges signals that are pending at the same time
		if strings.Contains(p.out.String(), "The VM is ended immediately") {
			return true // another signal could end the runner, too
		}
		c.press("\x03")
		return false
	})
	require.Zero(t, p.exit())
}
