package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// With other flags the go command links 141 MB again, at each start of a cluster.
func TestLinkerFlagsStayTheSame(t *testing.T) {
	t.Parallel()
	for range 100 {
		require.Equal(t, linkerFlags(), linkerFlags())
	}
	require.Contains(t, linkerFlags(), "-X k8s.io/component-base/version.gitVersion="+KubernetesVersion+" ")
}

// A build of minutes says how far it is, and a failed one what is wrong, without the
// hundreds of lines about what is right.
func TestProgressOfABuild(t *testing.T) {
	t.Parallel()
	c := &compiling{name: "kubeall"}
	for _, part := range []string{
		"go: downloading k8s.io/api v0.35.4\ninternal/a", "bi\nk8s.io/api/core/v1\n",
		"# k8s.io/x\nx.go:3:4: undefined: y\n", "last",
	} {
		_, err := c.Write([]byte(part))
		require.NoError(t, err)
	}
	require.Equal(t, "building kubeall for 1m30s: 1 modules fetched, 2 packages compiled", c.progress(90*time.Second))
	require.Equal(t, "# k8s.io/x\nx.go:3:4: undefined: y\nlast", c.complaints())
	failed := c.during(func(string) {}, func() error { return errors.New("exit status 1") })
	require.EqualError(t, failed, "exit status 1")
}

// Waiting for another process' build is logged, and ends with the context.
func TestWaitingForTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	other, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithCancelCause(t.Context())
	var lines []string
	_, err = lock(ctx, path, func(line string) {
		lines = append(lines, line)
		cancel(errors.New("interrupted"))
	})
	require.ErrorContains(t, err, "interrupted")
	require.Equal(t, []string{"another process builds the programs of Kubernetes: waiting until it unlocks " + path}, lines)

	var said strings.Builder
	unlocked, err := lock(t.Context(), path, func(line string) {
		said.WriteString(line)
		_ = other.Close() // and so it ends
	})
	require.NoError(t, err)
	unlocked()
	require.Contains(t, said.String(), "waiting")
}
