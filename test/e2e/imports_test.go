package e2e_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/test/guest"
	"vmop/test/wait"
)

// Disks import their data from a web server that needs a password, that sends data slowly to show the progress, or that
// lacks the image. A VM waits for its disk, and boots from it.
func imports(t *testing.T, l *lab) {
	s := newImageServer(t, l)
	v := l.create(t, tiny("imported", func(spec *v1.VirtualMachineSpec) {
		spec.VM.Kernel, spec.VM.PowerdownTimeout = nil, new(int32(1))
		spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: "root"}}
	}))
	sum := sha256.Sum256(s.qcow2)
	l.importDisk(t, "root", "Block", "url: "+s.url("secret.qcow2")+
		", secretRef: {name: web-server}, checksum: {sha256: "+hex.EncodeToString(sum[:])+"}")
	l.importDisk(t, "slow", "Filesystem", "url: "+s.url("slow.img"))
	l.importDisk(t, "gone", "Filesystem", "url: "+s.url("none.img"))

	d := l.diskIs(t, "root", v1.DiskPending, disk.ReasonSecretMissing)
	waits := v.until("to wait for its disk", func(now *v1.VirtualMachine) bool {
		return strings.Contains(now.Status.Message, d.Status.Message)
	})
	require.Equal(t, v1.PhasePending, waits.Status.Phase)

	d = l.diskIs(t, "gone", v1.DiskFailed, "SourceNotFound")
	require.Contains(t, d.Status.Message, "/none.img: the server answers 404 Not Found; it is tried again at ")
	l.importDisk(t, "claimed", "Filesystem", "url: "+s.url("slow.img")+", checksum: {md5: "+strings.Repeat("a", 32)+"}")

	d = l.diskIs(t, "slow", v1.DiskProvisioning, disk.ReasonImporting)
	wait.For(t, "half of it", func() error {
		if d = l.diskIs(t, "slow", v1.DiskProvisioning, disk.ReasonImporting); d.Status.Progress != "49%" {
			return fmt.Errorf("it has %s", d.Status.Progress)
		}
		return nil
	})
	require.EqualValues(t, diskSize, d.Status.Import.Total)
	l.restrictedImport(t, "slow")
	close(s.release)
	d = l.diskIs(t, "slow", v1.DiskReady, "")
	require.Equal(t, "100%", d.Status.Progress)
	have, err := os.ReadFile(filepath.Join(l.volumes.dir, volumeName(namespace, "vd-slow"), disk.FileName))
	require.NoError(t, err)
	require.Equal(t, s.raw, have)
	l.clusterImage(t, "of-all", s.url("slow.img"), s.raw)
	d = l.diskIs(t, "claimed", v1.DiskFailed, "ChecksumMismatch")
	require.Contains(t, d.Status.Message, "delete the disk, and create it again")

	l.kubectl(t, "create", "secret", "generic", "web-server", "--type="+string(v1.SecretTypeHTTP),
		"--from-literal=username=me", "--from-literal=password=canary-import-77d1")
	l.diskIs(t, "root", v1.DiskPending, disk.ReasonSecretHost)
	l.kubectl(t, "annotate", "secret", "web-server", v1.AnnotationHosts+"="+s.at)
	d = l.diskIs(t, "root", v1.DiskReady, "")
	require.Equal(t, "qcow2", d.Status.Import.Format)
	v.runs()
	v.console().await(guest.SectorSays)
	wait.For(t, "no import pod", func() error {
		var pods corev1.PodList
		err := l.client.List(t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{
			"app.kubernetes.io/name": disk.AppName,
		})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("there is %s", pods.Items[0].Name)
		}
		return err
	})
	require.NotContains(t, v.managerLog(t.Context()), "canary-import")
}

// clusterImage creates a cluster image. A VM boots from the copy in its namespace.
func (l *lab) clusterImage(t *testing.T, name, url string, raw []byte) {
	t.Helper()
	sum := sha256.Sum256(raw)
	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: ClusterVirtualImage, metadata: {name: `+name+`},
  spec: {persistentVolumeClaim: {storageClassName: lab, size: 16Mi}, dataSource: {type: HTTP, http: {url: `+url+`,
  checksum: {sha256: `+hex.EncodeToString(sum[:])+`}}}}}`)
	t.Cleanup(func() {
		_, _ = l.Kubectl(context.WithoutCancel(t.Context()), "delete", "cvi", name, "--wait=false")
	})
	v := l.create(t, tiny("has-cluster-image", func(spec *v1.VirtualMachineSpec) {
		spec.VM.Kernel, spec.VM.PowerdownTimeout = nil, new(int32(1))
		spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindClusterVirtualImage, Name: name}}
	}))
	v.runs()
	v.console().await(guest.SectorSays)
}

// importDisk creates a disk from an image on a web server. The disk is deleted when the test ends.
func (l *lab) importDisk(t *testing.T, name, mode, source string) {
	t.Helper()
	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: `+name+`},
  spec: {persistentVolumeClaim: {storageClassName: lab, size: 16Mi, volumeMode: `+mode+`},
  dataSource: {type: HTTP, http: {`+source+`}}}}`)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			out, err := l.Kubectl(ctx, "-n", namespace, "get", "vd,pods", name, disk.PodName(name), "-o", "yaml",
				"--ignore-not-found")
			t.Log(out, err)
		}
		_, _ = l.Kubectl(ctx, "-n", namespace, "delete", "vd", name, "--wait=false")
	})
}

// diskIs waits until a disk has a phase for a reason.
func (l *lab) diskIs(t *testing.T, name string, phase v1.DiskPhase, reason string) *v1.VirtualDisk {
	t.Helper()
	var d v1.VirtualDisk
	wait.For(t, name+": "+string(phase)+" "+reason, func() error {
		err := l.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &d)
		if err == nil && (d.Status.Phase != phase || d.Status.Reason != reason) {
			err = fmt.Errorf("its status is %+v", d.Status)
		}
		return err
	})
	return &d
}

// restrictedImport requires that a namespace that enforces Pod Security "restricted" admits the import pod of a disk,
// and that the pod has no token.
func (l *lab) restrictedImport(t *testing.T, name string) {
	t.Helper()
	var pod corev1.Pod
	key := client.ObjectKey{Namespace: namespace, Name: disk.PodName(name)}
	require.NoError(t, l.client.Get(t.Context(), key, &pod))
	for _, volume := range pod.Spec.Volumes {
		require.Nil(t, volume.Projected, volume.Name)
	}
	try := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: "restricted"}, Spec: *pod.Spec.DeepCopy(),
	}
	try.Spec.ServiceAccountName, try.Spec.DeprecatedServiceAccount = "default", ""
	text, err := json.Marshal(try)
	require.NoError(t, err)
	cmd := l.KubectlCommand(t.Context(), "create", "--dry-run=server", "-f", "-")
	cmd.Stdin = strings.NewReader(string(text))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// imageServer is a web server with images.
type imageServer struct {
	raw, qcow2 []byte
	at         string
	release    chan struct{} // releases the second half of slow.img
}

func newImageServer(t *testing.T, l *lab) *imageServer {
	t.Helper()
	s := &imageServer{raw: make([]byte, diskSize), release: make(chan struct{})}
	copy(s.raw, guest.Sector())
	s.raw[len(s.raw)-1] = 1
	dir := t.TempDir()
	raw, qcow2 := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2")
	require.NoError(t, os.WriteFile(raw, s.raw, 0o600))
	out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-O", "qcow2", raw, qcow2).CombinedOutput()
	require.NoError(t, err, "%s", out)
	s.qcow2, err = os.ReadFile(qcow2)
	require.NoError(t, err)
	listener, err := l.Listen(t.Context())
	require.NoError(t, err)
	s.at = listener.Addr().String()
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // serves until the test ends
	t.Cleanup(func() { _ = server.Close() })
	return s
}

func (s *imageServer) url(name string) string { return `"http://` + s.at + "/" + name + `"` }

func (s *imageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/secret.qcow2":
		if user, password, _ := r.BasicAuth(); user != "me" || password != "canary-import-77d1" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(s.qcow2)
	case "/debian-12.qcow2": // its name in documents
		_, _ = w.Write(s.qcow2)
	case "/slow.img":
		w.Header().Set("Content-Length", strconv.Itoa(len(s.raw)))
		_, _ = w.Write(s.raw[:len(s.raw)/2])
		w.(http.Flusher).Flush()
		select {
		case <-s.release:
		case <-r.Context().Done():
		}
		_, _ = w.Write(s.raw[len(s.raw)/2:])
	default:
		http.NotFound(w, r)
	}
}
