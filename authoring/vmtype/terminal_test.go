package vmtype_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// On a terminal, tab completes, arrow keys return to earlier input, and Ctrl-D ends the session.
func TestReplOnATerminal(t *testing.T) {
	t.Parallel()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer keys.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	user, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer user.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "vmrunner", "vmtype", "repl", t.TempDir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = user, user, user
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	// Reading ends when the program ends.
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); user.Close() }()
	var screen bytes.Buffer
	see := func(text string) {
		t.Helper()
		buf := make([]byte, 1024)
		for !bytes.Contains(screen.Bytes(), []byte(text)) {
			n, err := keys.Read(buf)
			screen.Write(buf[:n])
			require.NoError(t, err, "waiting for %q on %q", text, screen.String())
		}
		screen.Reset()
	}
	see(">>> ")
	for _, step := range []struct{ keys, screen string }{
		{"vm.maximumR\t", "am"},
		{" >> 30\r", "1\r\n>>> "},
		{"\x1b[A", "vm.maximumRam >> 30"},
		{"\r", "1\r\n>>> "},
		{"vm.maximum\t", "maximumCpus  maximumRam"},
		{"Cpus\r", "1\r\n>>> "},
		{"def f():\r", "... "},
		{"\treturn 41 + 1\r", "... "},
		{"\r", ">>> "},
		{"f()\r", "42\r\n>>> "},
		{"1 / 0\r", "division by zero"},
	} {
		_, err := io.WriteString(keys, step.keys)
		require.NoError(t, err)
		see(step.screen)
	}
	_, err = io.WriteString(keys, "\x04")
	require.NoError(t, err)
	require.NoError(t, <-ended)
}
