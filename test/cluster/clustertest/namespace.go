package clustertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Namespace is the namespace of one test. It ends with the cluster.
type Namespace struct {
	*Kubernetes
	// Name of the namespace.
	Name string

	t *testing.T
}

// Namespace creates a namespace for a test.
func (k *Kubernetes) Namespace(t *testing.T) *Namespace {
	t.Helper()
	n := &Namespace{Kubernetes: k, Name: "t" + strconv.FormatInt(time.Now().UnixNano(), 36), t: t}
	core, err := typedcorev1.NewForConfig(k.Config) // faster than starting kubectl
	require.NoError(t, err)
	_, err = core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	return n
}

// Kubectl runs kubectl in the namespace and returns its output.
func (n *Namespace) Kubectl(args ...string) string {
	n.t.Helper()
	out, err := n.Cluster.Kubectl(n.t.Context(), append([]string{"--namespace", n.Name}, args...)...)
	require.NoError(n.t, err)
	return out
}

// ApplyDeploy applies deploy/ to a namespace as users do: with a kustomization, which it writes into dir. more is added
// to the kustomization.
func (k *Kubernetes) ApplyDeploy(ctx context.Context, namespace, dir, more string) error {
	base, err := filepath.Rel(dir, k.Deploy) // kustomize accepts only relative paths
	if err != nil {
		return fmt.Errorf("deploy to namespace %s: %w", namespace, err)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: " + namespace +
		"\nresources: [" + base + "]\n" + ownBinding(namespace) + more
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("deploy to namespace %s: %w", namespace, err)
	}
	_, err = k.Kubectl(ctx, "apply", "--server-side", "-k", dir)
	return err
}

// ownBinding returns a patch that includes the namespace in the names of cluster-wide bindings, as deploy/manager
// documents for clusters with several managers.
func ownBinding(namespace string) string {
	return fmt.Sprintf(`patches:
- target: {kind: ClusterRoleBinding, name: vm-operator-cluster}
  patch: '[{"op": "replace", "path": "/metadata/name", "value": "vm-operator-cluster-%s"}]'
`, namespace)
}
