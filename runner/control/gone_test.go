package control_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
)

// TestMain also acts as the process of TestProcess, which listens until its input ends.
func TestMain(m *testing.M) {
	path := os.Getenv("LISTEN_ON")
	if path == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("unix", path)
	if err == nil {
		fmt.Println("listening")
		_, err = io.Copy(io.Discard, os.Stdin)
		err = errors.Join(err, l.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The client waits for the process that listens at the socket.
func TestProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "LISTEN_ON="+path)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	client, err := control.Dial(timeout(t), path)
	require.NoError(t, err)
	process, err := client.Process(timeout(t))
	require.NoError(t, err)
	defer process.Close()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	require.ErrorIs(t, process.Wait(ctx), enough, "it has not ended")
	again, err := client.Process(timeout(t))
	require.NoError(t, err)
	defer again.Close()
	require.NoError(t, in.Close()) // the process ends
	require.NoError(t, again.Wait(timeout(t)))
	require.NoError(t, cmd.Wait())
	_, err = client.Process(timeout(t))
	require.ErrorIs(t, err, control.ErrNotRunning)
}
