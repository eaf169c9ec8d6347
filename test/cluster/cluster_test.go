package cluster_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/cluster"
)

const (
	patience = 3 * time.Minute
	tick     = 200 * time.Millisecond
)

// A pod runs on a real cluster, its node loses power and comes back, and when the
// cluster is taken down nothing of it is left.
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
	require.Eventually(t, func() bool {
		out, err := c.Kubectl(ctx, "get", "pod", "hello", "-o", "jsonpath={.status.containerStatuses[0].restartCount}{.status.containerStatuses[0].ready}")
		return err == nil && out == "1true"
	}, patience, tick, "the pod's container is started again")

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
