package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/cluster"
	"vmop/test/wait"
)

// A pod runs on a real cluster, and its node loses power and comes back. Down removes everything.
func TestCluster(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, err := cluster.Up(ctx, cluster.Options{Nodes: 1, Log: func(line string) { t.Log(line) }})
	require.NoError(t, err)
	down := false
	defer func() {
		if !down {
			_ = c.Down(context.WithoutCancel(ctx)) // the test has failed
		}
	}()
	kubectl := func(args ...string) string {
		out, err := c.Kubectl(ctx, args...)
		require.NoError(t, err)
		return out
	}

	pod := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(pod, []byte(hello), 0o600))
	kubectl("apply", "-f", pod)
	kubectl("wait", "--for=condition=Ready", "pod/hello", "--timeout=3m")
	require.Equal(t, "hello 1\n", kubectl("logs", "hello"))
	address := kubectl("get", "pod", "hello", "-o", "jsonpath={.status.podIP}")
	conn, err := c.Dial(ctx, "tcp", net.JoinHostPort(address, "7"))
	require.NoError(t, err, "pods can be reached")
	require.NoError(t, conn.Close())

	require.NoError(t, c.CutPower(ctx, 1))
	require.NoError(t, c.Boot(ctx, 1))
	wait.Until(t, func() bool {
		out, err := c.Kubectl(ctx, "get", "pod", "hello", "-o",
			"jsonpath={.status.containerStatuses[0].restartCount}{.status.containerStatuses[0].ready}")
		return err == nil && out == "1true"
	}, "the pod's container is started again")

	down = true
	require.NoError(t, c.Down(ctx))
	require.NoDirExists(t, c.Dir)
	for _, id := range c.Processes {
		require.False(t, id.Runs())
	}
	for _, left := range c.Leftovers() {
		require.Fail(t, "something is left", left)
	}
}

// owner is the variable that makes TestOwnerKilled the process to be killed.
const owner = "VMOP_CLUSTER_OWNER"

// A cluster ends with the process that started it, even if that process is killed.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	if os.Getenv(owner) != "" {
		own(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOwnerKilled$", "-test.v")
	cmd.Env = append(os.Environ(), owner+"=yes")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var dir, device string
	for lines := bufio.NewScanner(out); device == ""; {
		require.True(t, lines.Scan(), "the owner has ended")
		_, _ = fmt.Sscanf(lines.Text(), "cluster %s %s", &dir, &device) // other lines don't match
	}
	c, err := cluster.Open(dir)
	require.NoError(t, err)
	require.Len(t, c.Processes, 5)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	wait.Until(t, func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	}, "its folder goes last")
	for name, id := range c.Processes {
		require.False(t, id.Runs(), name)
	}
	require.Empty(t, c.Leftovers())
	devices, err := exec.CommandContext(t.Context(), "losetup", "--list", "--noheadings", "--output",
		"BACK-FILE").Output()
	require.NoError(t, err)
	require.NotContains(t, string(devices), dir)
}

// own starts a cluster, prints its folder and device, and never ends.
func own(t *testing.T) {
	c, err := cluster.Up(t.Context(), cluster.Options{Nodes: 1})
	require.NoError(t, err)
	device, err := c.Block(t.Context(), "disk", 1<<20)
	require.NoError(t, err)
	fmt.Println("cluster", c.Dir, device)
	<-t.Context().Done()
}

const hello = `
apiVersion: v1
kind: Pod
metadata: {name: hello}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: ` + cluster.BusyboxImage + `
    imagePullPolicy: Never
    command: [sh, -c, "echo hello 1; exec httpd -f -p 7"]
    readinessProbe: {tcpSocket: {port: 7}, periodSeconds: 1}
`
