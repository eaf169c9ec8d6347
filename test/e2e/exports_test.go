package e2e_test

import (
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/diskimage/nbd"
	"vmop/manager/vm/objects"
	"vmop/test/wait"
)

// exported is the namespace of exports. Its pods run without privileges.
const exported = "exports"

// An export serves the claim of a disk to clients with the VM's certificate, at a stable address. Requests wait while
// another pod takes over.
func exports(t *testing.T, l *lab) {
	_, err := l.Kubectl(t.Context(), "create", "namespace", exported)
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "label", "namespace", exported, "pod-security.kubernetes.io/enforce=restricted")
	require.NoError(t, err)
	authority, err := nbd.NewAuthority("vm", time.Now())
	require.NoError(t, err)
	l.exportClient(t, authority)
	for name, mode := range map[string]corev1.PersistentVolumeMode{
		"block": corev1.PersistentVolumeBlock, "files": corev1.PersistentVolumeFilesystem,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.export(t, name, mode, authority)
		})
	}
}

// export creates a disk and its export, and uses the disk as a VM does.
func (l *lab) export(t *testing.T, name string, mode corev1.PersistentVolumeMode, authority *nbd.Authority) {
	ctx := t.Context()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: exported, Name: name}}
	require.NoError(t, l.client.Create(ctx, owner))
	size := resource.MustParse("16Mi")
	require.NoError(t, l.client.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: exported, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(storage), VolumeMode: &mode,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}))
	e := objects.Export{
		Name: name, Namespace: exported, VM: "vm", Claim: name, Size: size,
		OnFileSystem: mode == corev1.PersistentVolumeFilesystem,
		Owner: applymetav1.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").WithName(name).
			WithUID(owner.UID).WithController(true),
	}
	settings := objects.Settings{Image: "vmop/runner:devel", Version: "devel"}
	service, err := e.Service(settings)
	require.NoError(t, err)
	l.applyAny(t, service)
	var made corev1.Service
	require.NoError(t, l.client.Get(ctx, client.ObjectKey{Namespace: exported, Name: name}, &made))
	server, err := authority.Server(e.ServerNames(), []net.IP{net.ParseIP(made.Spec.ClusterIP)}, time.Now())
	require.NoError(t, err)
	secret, err := e.Secret(authority.Certificate, server, settings)
	require.NoError(t, err)
	l.applyAny(t, secret)
	pod, err := e.Pod(settings)
	require.NoError(t, err)
	l.applyAny(t, pod)
	l.waitFor(t, "pod/"+name)

	out := l.qemuIO(t, name, made.Spec.ClusterIP, "write -P 1 0 64k", "flush")
	require.Contains(t, out, "wrote 65536/65536")
	// Another pod replaces this pod while a client is connected.
	used := make(chan string, 1)
	go func() {
		used <- l.qemuIO(t, name, made.Spec.ClusterIP, "read -P 1 0 64k", "sleep 5000", "write -P 2 1M 64k",
			"read -P 1 0 64k")
	}()
	time.Sleep(time.Second) // usually enough to connect before; a later connection waits as well
	_, err = l.Kubectl(ctx, "-n", exported, "delete", "pod", name, "--timeout=1m")
	require.NoError(t, err)
	l.applyAny(t, pod)
	out = <-used
	require.Contains(t, out, "wrote 65536/65536")
	require.NotContains(t, out, "fail")
	require.Equal(t, 2, strings.Count(out, "read 65536/65536"), out)

	require.NoError(t, l.client.Delete(ctx, owner))
	for _, object := range []client.Object{&corev1.Pod{}, &corev1.Service{}, &corev1.Secret{}} {
		wait.For(t, "the end of the export", func() error {
			err := l.client.Get(ctx, client.ObjectKey{Namespace: exported, Name: name}, object)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.New("it is still there")
		})
	}
}

// exportClient creates a pod with a VM's certificate.
func (l *lab) exportClient(t *testing.T, authority *nbd.Authority) {
	t.Helper()
	client, err := authority.Client(time.Now())
	require.NoError(t, err)
	l.applyAny(t, &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: exported, Name: "client"},
		Data: map[string][]byte{
			nbd.CAFile: authority.Certificate, nbd.ClientCertificateFile: client.Certificate,
			nbd.ClientKeyFile: client.Key,
		},
	})
	l.applyAny(t, map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": exported, "name": "client"},
		"spec": map[string]any{
			"securityContext": map[string]any{
				"runAsNonRoot": true, "runAsUser": 65532, "fsGroup": 65532,
				"seccompProfile": map[string]any{"type": "RuntimeDefault"},
			},
			"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
			"containers": []any{map[string]any{
				"name": "client", "image": "vmop/runner:devel", "command": []any{"/usr/local/bin/vmimport"},
				"args": []any{"import", "--upload", "--socket", "/tmp/idle", "--target", "/tmp/none"}, // it only waits
				"securityContext": map[string]any{
					"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}},
				},
				"volumeMounts": []any{
					map[string]any{"name": "tls", "mountPath": "/tls"},
					map[string]any{"name": "tmp", "mountPath": "/tmp"},
				},
			}},
			"volumes": []any{
				map[string]any{"name": "tls", "secret": map[string]any{"secretName": "client"}},
				map[string]any{"name": "tmp", "emptyDir": map[string]any{}},
			},
		},
	})
	l.waitFor(t, "pod/client")
}

// qemuIO accesses the disk at an address with QEMU's client, and returns its output.
func (l *lab) qemuIO(t *testing.T, name, address string, commands ...string) string {
	args := []string{
		"-n", exported, "exec", "client", "--", "qemu-io", "--object",
		"tls-creds-x509,id=tls,endpoint=client,dir=/tls", "--image-opts",
	}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	out, err := l.Kubectl(t.Context(), append(args, "driver=nbd,server.type=inet,server.host="+address+
		",server.port=10809,export="+name+",tls-creds=tls,reconnect-delay=600,open-timeout=600")...)
	if err != nil {
		out += err.Error()
	}
	return out
}

// applyAny applies a resource with a namespace in its metadata.
func (l *lab) applyAny(t *testing.T, object any) {
	t.Helper()
	text, err := json.Marshal(object)
	require.NoError(t, err)
	cmd := l.KubectlCommand(t.Context(), "apply", "--server-side", "-f", "-")
	cmd.Stdin = strings.NewReader(string(text))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, text)
}

func (l *lab) waitFor(t *testing.T, what string) {
	t.Helper()
	out, err := l.Kubectl(t.Context(), "-n", exported, "wait", "--for=condition=Ready", what, "--timeout=3m")
	require.NoError(t, err, out)
}
