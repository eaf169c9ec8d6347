package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/control/pipe"
)

// The complete control interface can be used through a process's standard streams, and the process ends when its user
// has gone.
func TestControlByStandardStreams(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "v")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	vm, err := play(t.Context(), "web", dir)
	require.NoError(t, err)
	defer vm.end()
	program := filepath.Join(build(t), "vmrunner")
	var processes []*exec.Cmd
	client := control.NewClient(func(ctx context.Context) (net.Conn, error) {
		cmd := exec.CommandContext(ctx, program, "pipe", "--runtime-dir", dir)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		processes = append(processes, cmd)
		return pipe.New(out, in, in.Close), cmd.Start()
	}, "")

	status, err := client.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "web", status.Name)
	console, err := client.Console(t.Context(), control.Type)
	require.NoError(t, err)
	greeting := make([]byte, len("web login: "))
	_, err = io.ReadFull(console, greeting)
	require.NoError(t, err)
	require.Equal(t, "web login: ", string(greeting))
	require.NoError(t, console.Close())
	for _, cmd := range processes {
		require.NoError(t, cmd.Wait())
	}
	again, err := client.Console(t.Context(), control.Type)
	require.NoError(t, err, "the console is free")
	require.NoError(t, again.Close())
	require.NoError(t, processes[2].Wait())
}

func TestPipeWithoutAVM(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(build(t), "vmrunner"), "pipe", "--runtime-dir", t.TempDir())
	cmd.Stderr = &said
	require.Error(t, cmd.Run())
	require.Equal(t, 3, cmd.ProcessState.ExitCode())
	require.Contains(t, said.String(), "the VM is not running")
}
