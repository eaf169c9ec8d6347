package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubescheme "k8s.io/client-go/kubernetes/scheme"

	v1 "vmop/api/v1"
	"vmop/test/cluster"
	"vmop/test/cluster/clustertest"
	"vmop/test/logbook"
	"vmop/test/visitor"
	"vmop/test/wait"
)

// auditPolicy logs the requests of service accounts.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

var (
	// shared is the cluster that the tests of this package share.
	shared = clustertest.Shared{Options: cluster.Options{
		AuditPolicy: auditPolicy,
		// as in OpenShift
		Arguments: map[string][]string{"kube-apiserver": {
			"--enable-admission-plugins",
			"OwnerReferencesPermissionEnforcement",
		}},
	}}
	ports atomic.Int32 // the last port in use
)

// TestMain puts the program on the PATH of scripts and tests.
func TestMain(m *testing.M) {
	testscript.Main(withCluster{m}, map[string]func(){"vmmanager": main})
}

// withCluster ends the cluster that the tests share.
type withCluster struct{ *testing.M }

func (m withCluster) Run() int { return shared.Run(m.M) }

// place is a namespace with the objects of deploy/. The manager of its Deployment has no node to run on: the tests run
// it outside of the cluster.
type place struct {
	*clustertest.Namespace
	client     client.Client // with all permissions
	t          *testing.T
	kubeconfig string            // of the manager's service account
	hashes     map[string]string // of users' passwords
}

// newPlace creates a namespace that enforces a Pod Security level.
func newPlace(t *testing.T, level string) *place {
	t.Helper()
	p := &place{
		Namespace: shared.Namespace(t), t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"),
		hashes: map[string]string{},
	}
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(kubescheme.AddToScheme(scheme), v1.AddToScheme(scheme)))
	var err error
	p.client, err = client.New(p.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	p.Kubectl("label", "namespace", p.Name, "pod-security.kubernetes.io/enforce="+level)
	p.deploy("")
	require.NoError(t, p.WriteKubeconfig(p.kubeconfig, p.Kubectl("create", "token", "vm-operator")))
	return p
}

// deploy applies deploy/ to the namespace, with an addition to the kustomization.
func (p *place) deploy(more string) {
	p.t.Helper()
	require.NoError(p.t, p.ApplyDeploy(p.t.Context(), p.Name, p.t.TempDir(), more))
}

// addComponent adds a component of deploy/ to the namespace.
func (p *place) addComponent(name string) {
	p.t.Helper()
	dir := p.t.TempDir()
	component, err := filepath.Rel(dir, filepath.Join(p.Deploy, name))
	require.NoError(p.t, err)
	require.NoError(p.t, p.ApplyDeploy(p.t.Context(), p.Name, dir, "components: ["+component+"]\n"))
}

// eventually waits until is returns true.
func (p *place) eventually(what string, is func() bool) {
	p.t.Helper()
	wait.For(p.t, what, func() error {
		if !is() {
			return errors.New("it is not so")
		}
		return nil
	})
}

// get reads an object of the namespace, and reports whether it exists.
func (p *place) get(name string, into client.Object) bool {
	err := p.client.Get(p.t.Context(), client.ObjectKey{Namespace: p.Name, Name: name}, into)
	return err == nil
}

// vm returns a VM.
func (p *place) vm(name string) *v1.VirtualMachine {
	p.t.Helper()
	var vm v1.VirtualMachine
	require.True(p.t, p.get(name, &vm))
	return &vm
}

// process is a manager that runs in the cluster's network.
type process struct {
	*place
	cmd             *exec.Cmd
	log             *logbook.Logbook
	health, metrics string
	ended           chan struct{}
}

// config writes a configuration of the place and returns its path.
func (p *place) config(reconciler string) string {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "config.yaml")
	text := "\"/Manager/Controller\":\n  namespace: " + p.Name + "\n  \"/Reconciler\": {" + reconciler + "}\n"
	require.NoError(p.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// withUsers writes a configuration with local users, including an administrator, and returns its path. The passwords
// are the users' names. Each configuration uses another port for the pages.
func (p *place) withUsers(reconciler string, names ...string) string {
	p.t.Helper()
	file := p.config(reconciler)
	text, err := os.ReadFile(file)
	require.NoError(p.t, err)
	more := fmt.Sprintf(`"/Manager/GuiSocketServer": {port: %d}
"/Manager/Access": {administrators: {users: [admin]}}
"/Manager/GuiHttpServer/ConsoleWeblet/WebConsole/LoginConlet": {users: [`, 10000+ports.Add(1))
	for _, name := range names {
		if p.hashes[name] == "" { // with a new hash a user would have to log in again
			hash, err := bcrypt.GenerateFromPassword([]byte(name), bcrypt.MinCost)
			require.NoError(p.t, err)
			p.hashes[name] = string(hash)
		}
		more += fmt.Sprintf("{name: %s, password: %q}, ", name, p.hashes[name])
	}
	require.NoError(p.t, os.WriteFile(file, append(text, more+"]}\n"...), 0o600))
	return file
}

// served waits until a manager serves its pages, and returns their address.
func (r *process) served() string {
	r.t.Helper()
	var found []string
	r.eventually("the pages are served", func() bool {
		found = regexp.MustCompile(`"msg":"serving pages","address":"\[::\](:\d+)"`).FindStringSubmatch(r.log.String())
		return found != nil
	})
	return "127.0.0.1" + found[1]
}

// visitor returns a browser in the cluster's network.
func (p *place) visitor() *visitor.Visitor { return visitor.New(p.t, p.Dial) }

// start starts a manager, and waits until it is ready.
func (p *place) start(config string, args ...string) *process {
	p.t.Helper()
	path, err := exec.LookPath("vmmanager")
	require.NoError(p.t, err)
	first := 20000 + 2*ports.Add(1)
	r := &process{
		place: p, log: &logbook.Logbook{}, ended: make(chan struct{}),
		health: fmt.Sprintf("127.0.0.1:%d", first), metrics: fmt.Sprintf("127.0.0.1:%d", first+1),
	}
	args = append([]string{"run", "-c", config, "--kubeconfig", p.kubeconfig, "--log-format=json", "--health-address=" +
		r.health, "--metrics-address=" + r.metrics}, args...)
	r.cmd = p.Inside(context.WithoutCancel(p.t.Context()), path, args...)
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	require.NoError(p.t, r.cmd.Start())
	go func() { _ = r.cmd.Wait(); close(r.ended) }() // the result is read later
	p.t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it may have ended
		<-r.ended
		if p.t.Failed() {
			p.t.Logf("the manager's log:\n%s", r.log)
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

// ask returns the manager's response.
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

// metric returns the value of a metric as text, or "".
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
	wait.Receive(r.t, r.ended, "the manager does not end")
}
