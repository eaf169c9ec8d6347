package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/diskimage/transfer"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/manager/web/stream"
	"vmop/runner/config"
	"vmop/runner/control/remote"
	"vmop/test/logbook"
	"vmop/test/program"
	"vmop/test/wait"
)

// A door is a pod of a disk. Its program runs on this computer with real TLS.
type door struct {
	*exec.Cmd
	pod  *corev1.Pod
	port string
}

// opens creates the pod of a disk, and starts its program.
func (p *place) opens(d client.Object, name string, args ...string) *door {
	p.t.Helper()
	ctx, dir := p.t.Context(), p.t.TempDir()
	var public corev1.ConfigMap
	require.NoError(p.t, p.admin.Get(ctx, client.ObjectKey{Namespace: p.Name, Name: objects.ManagerCA}, &public))
	pair, err := remote.NewPair(time.Now())
	require.NoError(p.t, err)
	for name, text := range map[string]string{
		config.AuthoritiesFile:   public.Data[config.AuthoritiesFile],
		transfer.CertificateFile: string(pair.Certificate), transfer.KeyFile: string(pair.Key),
	} {
		require.NoError(p.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	short, err := os.MkdirTemp("", "d")
	require.NoError(p.t, err)
	p.t.Cleanup(func() { require.NoError(p.t, os.RemoveAll(short)) })
	path := filepath.Join(dir, "vmimport")
	require.NoError(p.t, program.Build(ctx, path, "vmop/cmd/vmimport"))
	var log logbook.Logbook
	o := &door{Cmd: exec.CommandContext(context.WithoutCancel(ctx), path, append(args, "--tls", dir, "--port", "0",
		"--log-format", "json", "--socket", filepath.Join(short, "s"))...)}
	o.Stderr = &log
	require.NoError(p.t, o.Start())
	p.t.Cleanup(func() {
		_ = o.Process.Kill()
		_ = o.Wait()
	})
	wait.For(p.t, "the port", func() error {
		_, text, is := strings.Cut(log.String(), `"port":`)
		if !is {
			return errors.New(log.String())
		}
		o.port, _, _ = strings.Cut(text, "}")
		return nil
	})
	o.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: p.Name, Annotations: map[string]string{disk.AnnotationKey: pair.Hash},
		Labels: map[string]string{objects.LabelName: disk.AppName},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(d, v1.GroupVersion().WithKind(string(v1.KindVirtualDisk))),
		},
	}}
	o.pod.OwnerReferences[0].BlockOwnerDeletion = nil
	o.pod.Spec.Containers = []corev1.Container{{Name: "import", Image: "none"}}
	require.NoError(p.t, p.admin.Create(ctx, o.pod))
	running := `{"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}`
	require.NoError(p.t, p.admin.Status().Patch(ctx, o.pod, client.RawPatch(types.MergePatchType, []byte(running))))
	return o
}

// status writes the status of a disk.
func (p *place) status(name, format string, values ...any) {
	p.t.Helper()
	d := &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.Name}}
	text := `{"status": {` + fmt.Sprintf(format, values...) + `}}`
	require.NoError(p.t, p.admin.Status().Patch(p.t.Context(), d, client.RawPatch(types.MergePatchType, []byte(text))))
}

// replica returns another manager of the namespace, which knows nothing about the first manager's actions.
func (p *place) replica(port string) *Fleet {
	p.t.Helper()
	core, err := typedcorev1.NewForConfig(p.Config)
	require.NoError(p.t, err)
	o := p.opts
	o.Keys = stream.NewKeys(core.Secrets(p.Name), core.ConfigMaps(p.Name), slog.New(slog.DiscardHandler))
	require.NoError(p.t, o.Keys.Refresh(p.t.Context()))
	o.Keys.Connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		require.Equal(p.t, "127.0.0.1:7443", address)
		return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
	}
	return &Fleet{opts: o}
}

// data returns a disk of 3 MiB with a hole.
func data() []byte {
	all := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(all[2<<20:])
	return all
}

// An upload may begin before the API server reports the new disk.
func TestUploadsMayComeAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.opts.Volumes = volumes(p.Name) // without a watch
	for _, kind := range []fleet.VolumeKind{fleet.VirtualDisk, fleet.VirtualImage} {
		require.NoError(t, p.CreateDisk(t.Context(), "ann", fleet.NewDisk{
			Kind: kind, Name: "data", Disk: fleet.Disk{From: fleet.FromUpload, Size: 1 << 20},
		}))
		_, err := p.Upload(t.Context(), kind, "data", fleet.Piece{ID: "a", Size: 1 << 20})
		require.ErrorAs(t, err, new(fleet.NotYet), kind)
	}
}

// Another manager continues an upload after the first was killed in the middle of a piece. A late request learns that
// the upload is complete.
func TestUploadByTwoManagers(t *testing.T) {
	t.Parallel()
	p, all := newPlace(t), data()
	p.Apply(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: data},
  spec: {persistentVolumeClaim: {size: 3Mi}, dataSource: {type: Upload}}}`)
	var d v1.VirtualDisk
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Namespace: p.Name, Name: "data"}, &d))
	target := filepath.Join(t.TempDir(), "disk.img")
	o := p.opens(&d, disk.PodName("data"), "import", "--upload", "--target", target)
	p.status("data", `"phase": "WaitForUserUpload", "message": "send it"`)
	first, second := p.replica(o.port), p.replica(o.port)
	send := func(by *Fleet, from, length int64) (fleet.Upload, error) {
		return by.Upload(t.Context(), fleet.VirtualDisk, "data", fleet.Piece{
			ID: "a", Size: int64(len(all)), From: from, Length: length, Body: bytes.NewReader(all[from : from+length]),
		})
	}
	wait.For(t, "the status to be seen", func() error {
		_, err := send(first, 0, 0)
		require.ErrorAs(t, err, new(fleet.NotYet), "the status has no pod")
		if err.Error() != "send it" {
			return err
		}
		return nil
	})
	p.status("data", `"import": {"pod": %q}`, o.pod.UID)
	wait.For(t, "the pod to be seen", func() error {
		_, err := send(first, 0, 0)
		return err
	})
	var is fleet.Upload
	var err error
	wait.For(t, "bytes to have arrived", func() error { // bytes in transit are lost when it is killed
		ctx, kill := context.WithCancel(t.Context())
		body, feed := io.Pipe()
		var sending sync.WaitGroup
		sending.Go(func() {
			_, err := first.Upload(ctx, fleet.VirtualDisk, "data", fleet.Piece{
				ID: "a", Size: int64(len(all)), Length: 2 << 20, Body: body,
			})
			assert.Error(t, err)
		})
		_, err = feed.Write(all[:1<<20])
		kill()
		require.NoError(t, errors.Join(err, feed.CloseWithError(ctx.Err())))
		sending.Wait()
		is, err = send(second, 0, 0)
		require.NoError(t, err)
		if is.At == 0 {
			return errors.New("none has")
		}
		return nil
	})
	require.Equal(t, fleet.UploadContinues, is.State)
	require.LessOrEqual(t, is.At, int64(1<<20))
	is, err = send(second, is.At, int64(len(all))-is.At)
	require.NoError(t, err)
	require.Equal(t, fleet.Upload{State: fleet.UploadImported, At: int64(len(all))}, is)
	require.NoError(t, o.Wait())
	got, err := os.ReadFile(target)
	require.NoError(t, err)
	require.True(t, bytes.Equal(all, got))

	p.status("data", `"phase": "Ready", "import": {"pod": null, "completionTime": "2026-11-22T09:40:00Z"}`)
	wait.For(t, "the end to be seen", func() error {
		is, err = send(first, int64(len(all)), 0)
		return err
	})
	require.Equal(t, fleet.UploadImported, is.State)
	_, err = send(first, 0, 10)
	require.ErrorContains(t, err, "already contains data")
}
