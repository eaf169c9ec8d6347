package stream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"vmop/manager/vm/objects"
	"vmop/runner/config"
	"vmop/test/logbook"
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
		require.Equal(t, published.Data[config.AuthoritiesFile], string(k.all.publicPEM()))
	}
}

// A manager that is slower to renew uses what the other manager has written.
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
	require.Equal(t, string(second.all.publicPEM()), string(first.all.publicPEM()))
	writes := 0
	for _, a := range cluster.Actions() {
		if a.GetResource().Resource == "secrets" && a.GetVerb() == "update" {
			writes++
		}
	}
	require.Equal(t, 2, writes, "the one that was refused, and the one that was not")

	leaf, err := first.clientCertificate(nil)
	require.NoError(t, err)
	require.NoError(t, leaf.Leaf.CheckSignatureFrom(first.all[0].certificate), "runners may not know the new one yet")
	same, err := first.clientCertificate(nil)
	require.NoError(t, err)
	require.Same(t, leaf, same)
	first.now = func() time.Time { return later().Add(settleTime + skew) }
	leaf, err = first.clientCertificate(nil)
	require.NoError(t, err)
	require.NoError(t, leaf.Leaf.CheckSignatureFrom(first.all[1].certificate))
}

// A damaged Secret is not replaced, because it may be intentional.
func TestDamagedSecret(t *testing.T) {
	t.Parallel()
	cluster := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: objects.ManagerCA},
		Data:       map[string][]byte{secretKey: []byte("canary")},
	})
	k := newKeys(cluster)
	err := k.Refresh(t.Context())
	require.ErrorContains(t, err, "secret vm-operator-ca, authorities.pem: authority 1: must have a block")
	require.NotContains(t, err.Error(), "canary")
	_, err = k.clientCertificate(nil)
	require.ErrorIs(t, err, errNoKeys)
}

// The certificate of the process is replaced after half of its day.
func TestCertificateIsRenewedAtHalfOfItsLife(t *testing.T) {
	t.Parallel()
	k := newKeys(fake.NewClientset())
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var age time.Duration
	k.now = func() time.Time { return begin.Add(age) }
	require.NoError(t, k.Refresh(t.Context()))
	first, err := k.clientCertificate(nil)
	require.NoError(t, err)
	require.Equal(t, begin.Add(24*time.Hour), first.Leaf.NotAfter)

	age = 12*time.Hour - time.Second
	same, err := k.clientCertificate(nil)
	require.NoError(t, err)
	require.Same(t, first, same)
	age = 12 * time.Hour
	next, err := k.clientCertificate(nil)
	require.NoError(t, err)
	require.Equal(t, begin.Add(36*time.Hour), next.Leaf.NotAfter)
}

// Errors contain the API server's refusal. A correct Secret or ConfigMap is not written again, and other keys in the
// Secret stay.
func TestKeysOfABrokenCluster(t *testing.T) {
	t.Parallel()
	notFound := apierrors.NewNotFound(corev1.Resource("x"), "x")
	conflict := apierrors.NewConflict(corev1.Resource("x"), "x", nil)
	exists := apierrors.NewAlreadyExists(corev1.Resource("x"), "x")
	refused := errors.New("refused")
	for _, row := range []struct {
		verb, resource string
		err            error
		want           string // the error
		asked          int
	}{
		{"get", "secrets", refused, "read secret vm-operator-ca: refused", 1},
		{"create", "secrets", refused, "write secret vm-operator-ca: refused", 1},
		{"create", "secrets", exists, "write secret vm-operator-ca: " + exists.Error(), attempts},
		{"create", "secrets", conflict, "write secret vm-operator-ca: " + conflict.Error(), attempts},
		{"get", "configmaps", refused, "read ConfigMap vm-operator-ca: refused", 1},
		{"get", "configmaps", notFound, "", 1},
		{"patch", "configmaps", refused, "write ConfigMap vm-operator-ca: refused", 1},
	} {
		cluster, asked := fake.NewClientset(), 0
		cluster.PrependReactor(row.verb, row.resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			asked++
			return true, nil, row.err
		})
		err := newKeys(cluster).Refresh(t.Context())
		require.Equal(t, row.asked, asked)
		if row.want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, row.want)
	}

	cluster := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: objects.ManagerCA},
		Data:       map[string][]byte{"theirs": []byte("x")},
	})
	k := newKeys(cluster)
	for range 3 {
		require.NoError(t, k.Refresh(t.Context()))
	}
	writes := slices.DeleteFunc(cluster.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "get" })
	require.Len(t, writes, 2, "the Secret and the ConfigMap")
	secret, err := cluster.CoreV1().Secrets(namespace).Get(t.Context(), objects.ManagerCA, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "x", string(secret.Data["theirs"]))
	configMaps := cluster.CoreV1().ConfigMaps(namespace)
	changed, err := configMaps.Get(t.Context(), objects.ManagerCA, metav1.GetOptions{})
	require.NoError(t, err)
	good := changed.Data[config.AuthoritiesFile]
	changed.Data[config.AuthoritiesFile] = "planted"
	_, err = configMaps.Update(t.Context(), changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, k.Refresh(t.Context()))
	changed, err = configMaps.Get(t.Context(), objects.ManagerCA, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, good, changed.Data[config.AuthoritiesFile])
}

// The Secret is read again every hour, and half a minute after a failure, which is logged.
func TestKeysAreRefreshed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, begin := fake.NewClientset(), time.Now()
		var works atomic.Bool
		var at []time.Duration
		cluster.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			at = append(at, time.Since(begin))
			return !works.Load(), nil, errors.New("refused")
		})
		k, log := newKeys(cluster), &logbook.Logbook{}
		k.log = slog.New(slog.NewTextHandler(log, nil))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		time.Sleep(retryTime - 1)
		works.Store(true)
		time.Sleep(2 * refreshTime)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, retryTime, retryTime + refreshTime}, at)
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"))
		cancel()
		require.NoError(t, <-ended)
	})
}
