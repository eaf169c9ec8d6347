package k8s_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	v1 "vmop/api/v1"
	"vmop/runner/status/k8s"
	"vmop/test/cluster"
)

// patience bounds every wait; what is waited for is an event each time.
const (
	patience = 4 * time.Minute
	tick     = 50 * time.Millisecond
)

const deploy = "../../../deploy"

// kubernetes is the cluster that the tests of this package share: an API server
// that knows VirtualMachines, and holds runners to their own.
type kubernetes struct {
	*cluster.Cluster
	config  *rest.Config // of who may do everything
	objects dynamic.Interface
}

var shared = sync.OnceValues(newKubernetes)

func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range []func() error{down, remove} {
		if end == nil {
			continue
		}
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "clean up:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// down ends the cluster, if there is one.
var down func() error

func newKubernetes() (*kubernetes, error) {
	ctx := context.Background()
	c, err := cluster.Up(ctx, cluster.Options{})
	if err != nil {
		return nil, err
	}
	down = func() error { return c.Down(ctx) }
	if _, err := c.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(deploy, "crds"), "-f", filepath.Join(deploy, "admission-policy.yaml")); err != nil {
		return nil, err
	}
	if err := c.AwaitResource(ctx, "vms."+v1.GroupName); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Dial = -1, c.Dial
	objects, err := dynamic.NewForConfig(config)
	return &kubernetes{c, config, objects}, err
}

// A place is a namespace with the VM web, and the pod web-0 that belongs to it.
type place struct {
	*kubernetes
	t         *testing.T
	namespace string
	account   string // folder of the pod's service account
	host      string // where the pod sees the API server
	port      string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	k, err := shared()
	require.NoError(t, err)
	p := &place{kubernetes: k, t: t, account: t.TempDir()}
	p.namespace = strings.TrimPrefix(p.kubectl("create", "-o", "name", "namespace", "t"+strconv.FormatInt(time.Now().UnixNano(), 36)), "namespace/")
	p.namespace = strings.TrimSpace(p.namespace)
	t.Cleanup(func() {
		_, _ = k.Kubectl(context.WithoutCancel(t.Context()), "delete", "namespace", p.namespace, "--wait=false") // the cluster goes, too
	})
	p.kubectl("apply", "-f", filepath.Join(deploy, "manager", "runner-account.yaml"))
	p.apply(machine("web"), pod("web-0"))
	p.token("web-0")
	p.file("ca.crt", p.read(filepath.Join(k.Dir, "pki", "ca.crt")))
	p.file("namespace", p.namespace)
	p.host, p.port = p.relay()
	return p
}

// machine is the resource of a VM.
func machine(name string) string {
	return "apiVersion: vmoperator.jdrupes.org/v1\nkind: VirtualMachine\nmetadata: {name: " + name + "}\nspec: {vm: {state: Running, maximumCpus: 2, maximumRam: 256Mi}}\n"
}

// pod is one that nothing runs in; it can have tokens.
func pod(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {serviceAccountName: vm-runner, containers: [{name: runner, image: none}]}\n"
}

// kubectl runs it in the namespace.
func (p *place) kubectl(args ...string) string {
	p.t.Helper()
	if p.namespace != "" {
		args = append([]string{"--namespace", p.namespace}, args...)
	}
	out, err := p.Kubectl(p.t.Context(), args...)
	require.NoError(p.t, err)
	return out
}

// apply makes objects.
func (p *place) apply(objects ...string) {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "objects.yaml")
	require.NoError(p.t, os.WriteFile(file, []byte(strings.Join(objects, "---\n")), 0o600))
	p.kubectl("apply", "-f", file)
}

func (p *place) read(file string) string {
	p.t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(p.t, err)
	return string(text)
}

// file writes one of the service account's, as a whole.
func (p *place) file(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.account, name)
	require.NoError(p.t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(p.t, os.Rename(path+".new", path))
}

// token gives the service account a token of a pod.
func (p *place) token(pod string) {
	p.t.Helper()
	uid := p.kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	p.file("token", p.kubectl("create", "token", "vm-runner", "--bound-object-kind", "Pod", "--bound-object-name", pod, "--bound-object-uid", uid))
}

// relay leads from an address of this machine to the API server.
func (p *place) relay() (host, port string) {
	p.t.Helper()
	server := strings.TrimPrefix(p.config.Host, "https://")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer near.Close()
				far, err := p.Dial(context.WithoutCancel(p.t.Context()), "tcp", server)
				if err != nil {
					return
				}
				defer far.Close()
				go func() {
					_, _ = io.Copy(far, near) // its end shows in the other way
					_ = far.Close()
				}()
				_, _ = io.Copy(near, far)
			}()
		}
	}()
	host, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(p.t, err)
	return host, port
}

// pod returns what a runner in the pod finds out.
func (p *place) pod() *k8s.Pod {
	p.t.Helper()
	found, err := k8s.FindPod(p.getenv, p.account)
	require.NoError(p.t, err)
	require.NotNil(p.t, found)
	return found
}

// environment of a process in the pod.
func (p *place) environment() []string {
	return []string{"KUBERNETES_SERVICE_HOST=" + p.host, "KUBERNETES_SERVICE_PORT=" + p.port, "POD_NAME=web-0", "POD_UID=4711"}
}

func (p *place) getenv(name string) string {
	for _, variable := range p.environment() {
		if value, is := strings.CutPrefix(variable, name+"="); is {
			return value
		}
	}
	return ""
}

// vm returns a VM as the API server has it.
func (p *place) vm(name string) v1.VirtualMachine {
	p.t.Helper()
	found, err := p.objects.Resource(v1.GroupVersion().WithResource("vms")).Namespace(p.namespace).Get(p.t.Context(), name, metav1.GetOptions{})
	require.NoError(p.t, err)
	var vm v1.VirtualMachine
	require.NoError(p.t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(found.Object, &vm, true))
	return vm
}

// patch changes a VM's status in somebody else's place.
func (p *place) patch(manager, body string) {
	p.t.Helper()
	_, err := p.objects.Resource(v1.GroupVersion().WithResource("vms")).Namespace(p.namespace).
		Patch(p.t.Context(), "web", types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: manager}, "status")
	require.NoError(p.t, err)
}

// eventually waits for a status of the VM.
func (p *place) eventually(what string, is func(v1.VirtualMachineStatus) bool) v1.VirtualMachineStatus {
	p.t.Helper()
	var last v1.VirtualMachineStatus
	late := time.After(patience)
	for {
		if last = p.vm("web").Status; is(last) {
			return last
		}
		select {
		case <-late:
			require.FailNow(p.t, "the resource doesn't tell", "%s; it says %+v", what, last)
		case <-time.After(tick):
		}
	}
}
