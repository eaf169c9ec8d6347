package store

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// Only a cordoned node accepts no more pods.
func TestDrains(t *testing.T) {
	t.Parallel()
	tainted := func(keys ...string) *corev1.Node {
		n := &corev1.Node{}
		for _, key := range keys {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key})
		}
		return n
	}
	require.False(t, isDrained(nil))
	require.False(t, isDrained(tainted()))
	require.False(t, isDrained(tainted(corev1.TaintNodeNotReady)))
	require.True(t, isDrained(tainted(corev1.TaintNodeNotReady, corev1.TaintNodeUnschedulable)))
}

// A manager doesn't describe classes before it has asked for the nodes.
func TestNodesAreAwaited(t *testing.T) {
	t.Parallel()
	m := New("vms", func() string { return "" })
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorContains(t, m.AwaitNodes(ended), "wait for the list of each Node")
	m.nodes.setUnknown("the manager may not read them")
	require.NoError(t, m.AwaitNodes(t.Context()))
}
