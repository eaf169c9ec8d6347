package stream

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"vmop/manager/objects"
	"vmop/runner/config"
)

const namespace = "vms"

func newKeys(cluster *fake.Clientset) *Keys {
	return NewKeys(cluster.CoreV1().Secrets(namespace), cluster.CoreV1().ConfigMaps(namespace),
		slog.New(slog.DiscardHandler))
}

// Replicas that start at the same moment agree on one authority.
func TestReplicasAgree(t *testing.T) {
	t.Parallel()
	cluster := fake.NewClientset()
	var replicas []*Keys
	var group sync.WaitGroup
	for range 8 {
		k := newKeys(cluster)
		replicas = append(replicas, k)
		group.Go(func() {
			if err := k.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	published, err := cluster.CoreV1().ConfigMaps(namespace).Get(t.Context(), objects.ManagerCA, metav1.GetOptions{})
	require.NoError(t, err)
	for _, k := range replicas {
		require.Len(t, k.all, 1)
		require.Equal(t, published.Data[config.AuthoritiesFile], string(k.all.public()))
	}
}

// A manager that renews, and is slower than another one, takes what that one has written.
func TestRenewalThatAnotherReplicaWasFasterWith(t *testing.T) {
	t.Parallel()
	cluster := fake.NewClientset()
	first, second := newKeys(cluster), newKeys(cluster)
	require.NoError(t, first.Refresh(t.Context()))
	later := func() time.Time { return time.Now().Add(authorityLife * 3 / 4) }
	first.now, second.now = later, later
	var between sync.Once
	cluster.PrependReactor("update", "secrets", func(clienttesting.Action) (handled bool, _ runtime.Object, err error) {
		between.Do(func() {
			handled = true
			err = apierrors.NewConflict(corev1.Resource("secrets"), objects.ManagerCA, nil)
		})
		return handled, nil, err
	})
	require.NoError(t, second.Refresh(t.Context()))
	require.NoError(t, first.Refresh(t.Context()))
	require.Len(t, first.all, 2)
	require.Equal(t, string(second.all.public()), string(first.all.public()))
	writes := 0
	for _, a := range cluster.Actions() {
		if a.GetResource().Resource == "secrets" && a.GetVerb() == "update" {
			writes++
		}
	}
	require.Equal(t, 2, writes, "the one that was refused, and the one that was not")

	leaf, err := first.certificate(nil)
	require.NoError(t, err)
	require.NoError(t, leaf.Leaf.CheckSignatureFrom(first.all[0].certificate), "runners may not know the new one yet")
	same, err := first.certificate(nil)
	require.NoError(t, err)
	require.Same(t, leaf, same)
	first.now = func() time.Time { return later().Add(settleTime + skew) }
	leaf, err = first.certificate(nil)
	require.NoError(t, err)
	require.NoError(t, leaf.Leaf.CheckSignatureFrom(first.all[1].certificate))
}

// A Secret that is damaged is not replaced: it may have been meant.
func TestDamagedSecret(t *testing.T) {
	t.Parallel()
	cluster := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: objects.ManagerCA},
		Data:       map[string][]byte{secretKey: []byte("canary")},
	})
	k := newKeys(cluster)
	err := k.Refresh(t.Context())
	require.ErrorContains(t, err, "secret vm-operator-ca, authorities.pem: authority 1: want a block")
	require.NotContains(t, err.Error(), "canary")
	_, err = k.certificate(nil)
	require.ErrorIs(t, err, errNoKeys)
}

// The certificate of the process is replaced when half of its day is over.
func TestCertificateIsRenewedAtHalfOfItsLife(t *testing.T) {
	t.Parallel()
	k := newKeys(fake.NewClientset())
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var age time.Duration
	k.now = func() time.Time { return begin.Add(age) }
	require.NoError(t, k.Refresh(t.Context()))
	first, err := k.certificate(nil)
	require.NoError(t, err)
	require.Equal(t, begin.Add(24*time.Hour), first.Leaf.NotAfter)

	age = 12*time.Hour - time.Second
	same, err := k.certificate(nil)
	require.NoError(t, err)
	require.Same(t, first, same)
	age = 12 * time.Hour
	next, err := k.certificate(nil)
	require.NoError(t, err)
	require.Equal(t, begin.Add(36*time.Hour), next.Leaf.NotAfter)
}
