package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "vmop/api/v1"
	diskof "vmop/manager/disk"
	"vmop/test/program"
	"vmop/test/tier"
	"vmop/test/wait"
)

const (
	uploadSize = 8 << 20
	cutAfter   = 3 << 20 // bytes
)

// uploadPod is an API server with a disk that waits for an upload. Its pod is a vmimport on this computer.
type uploadPod struct {
	t              *testing.T
	vmimport, home string
	imported       chan struct{} // closed when the program has ended
	file           []byte

	mu     sync.Mutex
	got    int64                 // bytes of images
	brings func(got int64) error // called before bytes are passed on
}

func newUploadPod(t *testing.T) *uploadPod {
	t.Helper()
	dir, err := os.MkdirTemp("", "u") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	p := &uploadPod{
		t: t, vmimport: filepath.Join(dir, "vmimport"), home: dir, imported: make(chan struct{}),
		file: make([]byte, uploadSize), brings: func(int64) error { return nil },
	}
	random := rand.NewChaCha8([32]byte{7})
	_, _ = random.Read(p.file)
	require.NoError(t, os.WriteFile(p.at("image.raw"), p.file, 0o600))
	require.NoError(t, program.Build(t.Context(), p.vmimport, "vmop/cmd/vmimport"))
	cmd := exec.Command(p.vmimport, "import", "--upload", "--socket", p.at("s"), "--target", p.at("disk"))
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // the file contains the outcome
		close(p.imported)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.imported
	})
	wait.Until(t, func() bool {
		_, err := os.Stat(p.at("s"))
		return err == nil
	})

	mux := http.NewServeMux()
	const disks = "GET /apis/vmoperator.jdrupes.org/v1/namespaces/vms/virtualdisks"
	mux.HandleFunc(disks+"/web", p.disk)
	mux.HandleFunc(disks, func(http.ResponseWriter, *http.Request) {}) // a watch that ends immediately
	mux.HandleFunc("GET /api/v1/namespaces/vms/pods/"+diskof.PodName("web")+"/exec", p.exec)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", Namespace: "vms"}
	config.CurrentContext = "c"
	require.NoError(t, clientcmd.WriteToFile(*config, p.at("kubeconfig")))
	return p
}

func (p *uploadPod) at(name string) string { return filepath.Join(p.home, name) }

// plugin returns a command that uploads the image.
func (p *uploadPod) plugin(said io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), "kubectl-vmop", "disk", "upload", "web", p.at("image.raw"))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.at("kubeconfig"))
	cmd.Stdout, cmd.Stderr = said, said
	return cmd
}

func (p *uploadPod) disk(w http.ResponseWriter, _ *http.Request) {
	d := &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "vms"}}
	d.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualDisk"))
	d.Spec.DataSource = &v1.VirtualDiskSource{Type: v1.DiskSourceUpload}
	d.Status.Phase = v1.DiskUpload
	select {
	case <-p.imported:
		d.Status.Phase = v1.DiskReady
	default:
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(d)
}

// exec runs a program with a websocket as its standard streams, like a kubelet: when the websocket breaks, the standard
// input ends, and the program continues.
func (p *uploadPod) exec(w http.ResponseWriter, r *http.Request) {
	command := r.URL.Query()["command"]
	if i := slices.Index(command, diskof.UploadSocket); i > 0 {
		command[i] = p.at("s")
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{remotecommand.StreamProtocolV5Name},
	})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	ctx := r.Context()
	cmd := exec.Command(p.vmimport, command[1:]...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return
	}
	go func() {
		defer stdin.Close()
		for {
			_, message, err := conn.Read(ctx)
			if err != nil || len(message) == 0 || message[0] == remotecommand.StreamClose {
				return
			}
			p.mu.Lock()
			p.got += int64(len(message) - 1)
			got := p.got
			p.mu.Unlock()
			if p.brings(got) != nil {
				_ = conn.CloseNow()
				return
			}
			if _, err := stdin.Write(message[1:]); err != nil {
				return
			}
		}
	}()
	var said, complained bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complained
	err = cmd.Run()
	for stream, text := range map[byte][]byte{
		remotecommand.StreamStdOut: said.Bytes(), remotecommand.StreamStdErr: complained.Bytes(),
	} {
		_ = conn.Write(ctx, websocket.MessageBinary, append([]byte{stream}, text...))
	}
	status := metav1.Status{Status: metav1.StatusSuccess}
	if err != nil {
		code := metav1.StatusCause{
			Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(cmd.ProcessState.ExitCode()),
		}
		status = metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason, Message: err.Error(),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{code}},
		}
	}
	text, _ := json.Marshal(status)
	_ = conn.Write(ctx, websocket.MessageBinary, append([]byte{remotecommand.StreamErr}, text...))
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

// whole requires that the disk contains the image, and that little of it was sent twice.
func (p *uploadPod) whole(said string) {
	p.t.Helper()
	require.Contains(p.t, said, "virtualdisk.vmoperator.jdrupes.org/web uploaded\n")
	require.Regexp(p.t, regexp.MustCompile(`disk web: sending, \d+%, continued after [1-9]\d?%\n`), said)
	disk, err := os.ReadFile(p.at("disk"))
	require.NoError(p.t, err)
	require.True(p.t, bytes.Equal(p.file, disk))
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Less(p.t, p.got, int64(uploadSize+cutAfter-1<<20))
}

// An upload with a broken connection continues automatically.
func TestAnUploadSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	p := newUploadPod(t)
	var once sync.Once
	p.brings = func(got int64) (err error) {
		if got >= cutAfter {
			once.Do(func() { err = errors.New("cut") })
		}
		return err
	}
	var said bytes.Buffer
	require.NoError(t, p.plugin(&said).Run(), "%s", &said)
	require.Contains(t, said.String(), "disk web: the connection broke (")
	p.whole(said.String())
}

// After the plugin is killed, the next upload continues with the data that has arrived.
func TestAnUploadSurvivesItsProgram(t *testing.T) {
	t.Parallel()
	p := newUploadPod(t)
	reached, gone := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p.brings = func(got int64) (err error) {
		if got >= cutAfter {
			once.Do(func() {
				close(reached)
				<-gone
				err = errors.New("killed")
			})
		}
		return err
	}
	killed := p.plugin(io.Discard)
	require.NoError(t, killed.Start())
	wait.Receive(t, reached)
	require.NoError(t, killed.Process.Kill())
	require.Error(t, killed.Wait())
	close(gone)
	var said bytes.Buffer
	require.NoError(t, p.plugin(&said).Run(), "%s", &said)
	require.NotContains(t, said.String(), "broke")
	p.whole(said.String())
}

// A stalled upload is given up, with the reason and the progress.
func TestAnUploadIsGivenUp(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newUploadPod(t)
	p.brings = func(got int64) error {
		if got >= cutAfter {
			return errors.New("cut")
		}
		return nil
	}
	var said bytes.Buffer
	require.Error(t, p.plugin(&said).Run())
	given := regexp.MustCompile(`disk web: no more data arrives, after [1-9]\d+ of 8388608 bytes: `)
	require.Regexp(t, given, said.String())
	require.Contains(t, said.String(), "hint: the same command continues, within an hour\n")
}
