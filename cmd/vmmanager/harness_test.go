package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubescheme "k8s.io/client-go/kubernetes/scheme"

	v1 "vmop/api/v1"
	"vmop/test/cluster"
	"vmop/test/program"
)

// patience bounds every wait; what is waited for is an event each time.
const (
	patience = 4 * time.Minute
	tick     = 100 * time.Millisecond
)

const deploy = "../../deploy"

// The program is on the PATH of scripts and tests.
func TestMain(m *testing.M) {
	testscript.Main(withCluster{m}, map[string]func(){"vmmanager": main})
}

// withCluster ends the cluster that the tests share.
type withCluster struct{ *testing.M }

func (m withCluster) Run() int {
	code := m.M.Run()
	if down != nil {
		if err := down(); err != nil {
			fmt.Fprintln(os.Stderr, "end the cluster:", err)
			return 1
		}
	}
	return code
}

// kubernetes is the cluster that the tests of this package share: a control plane
// that writes down who asked for what.
type kubernetes struct {
	*cluster.Cluster
	client.Client        // of who may do everything
	audit         string // the file
}

var (
	shared = sync.OnceValues(newKubernetes)
	down   func() error // if there is a cluster
	ports  atomic.Int32 // that were given away
)

// auditPolicy has what service accounts ask for.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

func newKubernetes() (*kubernetes, error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "audit")
	if err != nil {
		return nil, err
	}
	down = func() error { return os.RemoveAll(dir) }
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	k := &kubernetes{audit: filepath.Join(dir, "audit.log")}
	k.Cluster, err = cluster.Up(ctx, cluster.Options{Arguments: map[string][]string{
		"kube-apiserver": {
			"--audit-policy-file", policy, "--audit-log-path", k.audit,
			"--enable-admission-plugins", "OwnerReferencesPermissionEnforcement", // as in OpenShift
		},
	}})
	if err != nil {
		return nil, err
	}
	down = func() error { return errors.Join(k.Down(ctx), os.RemoveAll(dir)) }
	for _, args := range [][]string{ // what all namespaces share, once
		{"apply", "-f", deploy + "/crds", "-f", deploy + "/admission-policy.yaml"},
		{"wait", "--for=condition=Established", "crd/vms." + v1.GroupName, "--timeout=60s"},
	} {
		if _, err := k.Kubectl(ctx, args...); err != nil {
			return nil, err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", k.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Dial = -1, k.Dial
	scheme := runtime.NewScheme()
	if err := errors.Join(kubescheme.AddToScheme(scheme), v1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	k.Client, err = client.New(config, client.Options{Scheme: scheme})
	return k, err
}

// A place is a namespace into which deploy/ was applied. The manager of its
// Deployment has no node to run on: the tests run it beside.
type place struct {
	*kubernetes
	t          *testing.T
	namespace  string
	kubeconfig string // of the manager's service account
}

// newPlace makes a namespace in which pods must be as Pod Security's level says.
func newPlace(t *testing.T, level string) *place {
	t.Helper()
	k, err := shared()
	require.NoError(t, err)
	p := &place{kubernetes: k, t: t, namespace: fmt.Sprintf("t%d", ports.Add(1))}
	p.kubectl("create", "namespace", p.namespace)
	p.kubectl("label", "namespace", p.namespace, "pod-security.kubernetes.io/enforce="+level)
	t.Cleanup(func() {
		_, _ = k.Kubectl(context.WithoutCancel(t.Context()), "delete", "namespace", p.namespace, "--wait=false") // the cluster goes, too
	})
	p.deploy("")

	admin, err := clientcmd.LoadFromFile(k.Kubeconfig)
	require.NoError(t, err)
	for _, user := range admin.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData = nil, nil
		user.Token = p.kubectl("create", "token", "vm-operator")
	}
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*admin, p.kubeconfig))
	return p
}

// deploy applies deploy/ for the namespace, as a user's kustomization does, which
// may say more.
func (p *place) deploy(more string) {
	p.t.Helper()
	dir := p.t.TempDir()
	there, err := filepath.Abs(deploy)
	require.NoError(p.t, errors.Join(err, program.LookInto(deploy)))
	base, err := filepath.Rel(dir, there)
	require.NoError(p.t, err)
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: " + p.namespace + "\nresources: [" + base + "]\n" + more
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	p.kubectl("apply", "-k", dir)
}

// kubectl runs it in the namespace.
func (p *place) kubectl(args ...string) string {
	p.t.Helper()
	out, err := p.Kubectl(p.t.Context(), append([]string{"--namespace", p.namespace}, args...)...)
	require.NoError(p.t, err)
	return out
}

// apply makes objects.
func (p *place) apply(objects string) {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "objects.yaml")
	require.NoError(p.t, os.WriteFile(file, []byte(objects), 0o600))
	p.kubectl("apply", "-f", file)
}

// eventually waits until something is the case.
func (p *place) eventually(what string, is func() bool) {
	p.t.Helper()
	require.Eventually(p.t, is, patience, tick, what)
}

// get reads an object of the namespace, and tells whether it is there.
func (p *place) get(name string, into client.Object) bool {
	err := p.Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: name}, into)
	return err == nil
}

// vm returns a VM.
func (p *place) vm(name string) *v1.VirtualMachine {
	p.t.Helper()
	var vm v1.VirtualMachine
	require.True(p.t, p.get(name, &vm))
	return &vm
}

// A process is a manager that runs in the cluster's network.
type process struct {
	*place
	cmd             *exec.Cmd
	log             *lockedBuffer
	health, metrics string
	ended           chan struct{}
}

// lockedBuffer is what a process says.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// config writes a configuration of the place and returns its path.
func (p *place) config(reconciler string) string {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "config.yaml")
	text := "\"/Manager/Controller\":\n  namespace: " + p.namespace + "\n  \"/Reconciler\": {" + reconciler + "}\n"
	require.NoError(p.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// start starts a manager, and waits until it is ready.
func (p *place) start(config string, args ...string) *process {
	p.t.Helper()
	path, err := exec.LookPath("vmmanager")
	require.NoError(p.t, err)
	first := 20000 + 2*ports.Add(1)
	r := &process{
		place: p, log: &lockedBuffer{}, ended: make(chan struct{}),
		health: fmt.Sprintf("127.0.0.1:%d", first), metrics: fmt.Sprintf("127.0.0.1:%d", first+1),
	}
	args = append([]string{"run", "-c", config, "--kubeconfig", p.kubeconfig, "--log-format=json", "--health-address=" + r.health, "--metrics-address=" + r.metrics}, args...)
	r.cmd = p.Inside(context.WithoutCancel(p.t.Context()), path, args...)
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	require.NoError(p.t, r.cmd.Start())
	go func() { _ = r.cmd.Wait(); close(r.ended) }() // how it ended is asked for later
	p.t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it may have ended
		<-r.ended
		if p.t.Failed() {
			p.t.Logf("the manager said:\n%s", r.log)
		}
	})
	p.eventually("the manager is ready", func() bool {
		body, err := r.ask(r.health, "/readyz")
		return r.hasEnded() || err == nil && body == "ok"
	})
	require.False(p.t, r.hasEnded(), "it has ended")
	return r
}

func (r *process) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// ask returns what a manager answers.
func (r *process) ask(address, path string) (string, error) {
	transport := &http.Transport{DialContext: r.Dial, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// metric returns the value of a metric, as text; "" if it isn't there.
func (r *process) metric(name string) string {
	body, err := r.ask(r.metrics, "/metrics")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(body) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// stop ends a manager as Kubernetes does, and returns its exit code.
func (r *process) stop() int {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(syscall.SIGTERM))
	r.awaitEnd()
	return r.cmd.ProcessState.ExitCode()
}

func (r *process) awaitEnd() {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		require.FailNow(r.t, "the manager does not end")
	}
}
