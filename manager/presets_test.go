package manager

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/cluster"
	"vmop/test/cluster/clustertest"
	"vmop/test/tier"
)

// failing fails from the n-th write on, like a manager killed at this write.
type failing struct {
	client.Client

	left int
}

var errKilled = errors.New("killed")

func (f *failing) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if f.left--; f.left < 0 {
		return errKilled
	}
	return f.Client.Create(ctx, o, opts...)
}

func (f *failing) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if f.left--; f.left < 0 {
		return errKilled
	}
	return f.Client.Patch(ctx, o, p, opts...)
}

// A cluster without classes gets two preset classes, even if the manager is killed at any write. Classes that an
// administrator deleted or changed aren't restored.
func TestPresetClasses(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	k := clustertest.New(t, cluster.Options{})
	scheme, err := newScheme()
	require.NoError(t, err)
	admin, err := client.New(k.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	names := func() (names []string) {
		var list v1.VirtualMachineClassList
		require.NoError(t, admin.List(t.Context(), &list))
		for _, c := range list.Items {
			names = append(names, c.Name)
		}
		return names
	}
	in := func(n *clustertest.Namespace, by client.Writer) *presets {
		return &presets{by, admin, n.Name, slog.New(slog.DiscardHandler)}
	}
	remove := func(names ...string) {
		for _, name := range names {
			c := &v1.VirtualMachineClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
			require.NoError(t, admin.Delete(t.Context(), c))
		}
	}
	for killed := range 4 {
		n := k.Namespace(t)
		require.ErrorIs(t, in(n, &failing{admin, killed}).makePresets(t.Context()), errKilled)
		require.NoError(t, in(n, admin).makePresets(t.Context()))
		require.Equal(t, []string{"generic", "host"}, names(), "killed at write %d", killed)
		remove("generic")
		require.NoError(t, in(n, admin).makePresets(t.Context()))
		require.Equal(t, []string{"host"}, names(), "what was deleted stays so")
		require.NoError(t, in(k.Namespace(t), admin).makePresets(t.Context()))
		require.Equal(t, []string{"host"}, names(), "also when another namespace gets a manager")
		remove("host")
	}

	n := k.Namespace(t)
	require.NoError(t, in(n, admin).Start(t.Context()))
	var generic v1.VirtualMachineClass
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "generic"}, &generic))
	require.Equal(t, "Nehalem", generic.Spec.CPU.Model)
	generic.Spec.NodeSelector = nil
	require.NoError(t, admin.Update(t.Context(), &generic))
	require.NoError(t, in(n, admin).Start(t.Context()))
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "generic"}, &generic))
	require.Nil(t, generic.Spec.NodeSelector)
	err = admin.Get(t.Context(), client.ObjectKey{Namespace: n.Name, Name: presetsRecord}, &corev1.ConfigMap{})
	require.False(t, apierrors.IsNotFound(err))
}
