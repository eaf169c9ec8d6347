package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openPTY returns a pseudo-terminal. A program reads and writes on user, and the test types and reads on keys.
func openPTY(t *testing.T) (keys, user *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	keys = os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { keys.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	user, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { user.Close() })
	return keys, user
}

// see reads the screen until a text appears.
func see(t *testing.T, keys *os.File, text string) {
	t.Helper()
	seen := make(chan string, 1)
	go func() {
		var all []byte
		buf := make([]byte, 1024)
		for !bytes.Contains(all, []byte(text)) {
			n, err := keys.Read(buf)
			all = append(all, buf[:n]...)
			if err != nil {
				break
			}
		}
		seen <- string(all)
	}()
	select {
	case all := <-seen:
		require.Contains(t, all, text)
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "waiting for "+text)
	}
}

// On a real terminal, Ctrl-C goes to the guest, ^] leaves the console, and the terminal's settings are restored.
func TestConsoleVerbOnATerminal(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "v")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	vm, err := play(t.Context(), "web", dir)
	require.NoError(t, err)
	defer vm.end()
	keys, user := openPTY(t)
	before, err := unix.IoctlGetTermios(int(user.Fd()), unix.TCGETS)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(build(t), "vmrunner"), "console", "--runtime-dir", dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = user, user, user
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	see(t, keys, "web login: ")
	_, err = io.WriteString(keys, "a\x03b\r")
	require.NoError(t, err)
	see(t, keys, "you said a\x03b")
	_, err = io.WriteString(keys, "\x1d")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	after, err := unix.IoctlGetTermios(int(user.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
