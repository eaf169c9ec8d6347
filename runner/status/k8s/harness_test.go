package k8s_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	v1 "vmop/api/v1"
	"vmop/runner/status/k8s"
	"vmop/test/cluster/clustertest"
	"vmop/test/wait"
)

// tick is the polling interval for changes without events.
const tick = 50 * time.Millisecond

// shared is the cluster shared by this package's tests.
var shared clustertest.Shared

func TestMain(m *testing.M) {
	code := shared.Run(m)
	if remove != nil {
		if err := remove(); err != nil {
			fmt.Fprintln(os.Stderr, "clean up:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// A place is a namespace with the VM web and its pod web-0.
type place struct {
	*clustertest.Namespace
	t       *testing.T
	objects dynamic.Interface
	account string // folder of the pod's service account
	host    string // the API server's address in the pod
	port    string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{Namespace: shared.Namespace(t), t: t, account: t.TempDir()}
	var err error
	p.objects, err = dynamic.NewForConfig(p.Config)
	require.NoError(t, err)
	p.allow()
	p.Apply(machine("web"), pod("web-0"))
	p.token("web-0")
	p.file("ca.crt", p.read(filepath.Join(p.Dir, "pki", "ca.crt")))
	p.file("namespace", p.Name)
	p.host, p.port = p.relay()
	return p
}

// allow permits runners to report.
func (p *place) allow() {
	p.t.Helper()
	p.Kubectl("apply", "-f", filepath.Join(p.Deploy, "manager", "runner-account.yaml"))
}

// machine returns a VM's resource.
func machine(name string) string {
	return "apiVersion: vmoperator.jdrupes.org/v1\nkind: VirtualMachine\nmetadata: {name: " + name +
		"}\nspec: {vm: {state: Running, maximumCpus: 2, maximumRam: 256Mi}}\n"
}

// pod returns a pod that runs no program but can have tokens.
func pod(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name +
		"}\nspec: {serviceAccountName: vm-runner, containers: [{name: runner, image: none}]}\n"
}

func (p *place) read(file string) string {
	p.t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(p.t, err)
	return string(text)
}

// file atomically writes a file of the service account.
func (p *place) file(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.account, name)
	require.NoError(p.t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(p.t, os.Rename(path+".new", path))
}

// token gives the service account a token of a pod.
func (p *place) token(pod string) {
	p.t.Helper()
	uid := p.Kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	p.file("token", p.Kubectl("create", "token", "vm-runner", "--bound-object-kind", "Pod", "--bound-object-name", pod,
		"--bound-object-uid", uid))
}

// relay forwards an address of this machine to the API server.
func (p *place) relay() (host, port string) {
	p.t.Helper()
	server := strings.TrimPrefix(p.Config.Host, "https://")
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
					_, _ = io.Copy(far, near) // its end is seen in the other direction
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

// pod returns the Pod that a runner in the pod detects.
func (p *place) pod() *k8s.Pod {
	p.t.Helper()
	found, err := k8s.FindPod(p.getenv, p.account)
	require.NoError(p.t, err)
	require.NotNil(p.t, found)
	return found
}

// environment returns the environment of a process in the pod.
func (p *place) environment() []string {
	return []string{
		"KUBERNETES_SERVICE_HOST=" + p.host, "KUBERNETES_SERVICE_PORT=" + p.port, "POD_NAME=web-0",
		"POD_UID=4711",
	}
}

func (p *place) getenv(name string) string {
	for _, variable := range p.environment() {
		if value, is := strings.CutPrefix(variable, name+"="); is {
			return value
		}
	}
	return ""
}

func (p *place) vms() dynamic.ResourceInterface {
	return p.objects.Resource(v1.GroupVersion().WithResource("vms")).Namespace(p.Name)
}

// vm returns a VM from the API server.
func (p *place) vm(name string) v1.VirtualMachine {
	p.t.Helper()
	found, err := p.vms().Get(p.t.Context(), name, metav1.GetOptions{})
	require.NoError(p.t, err)
	var vm v1.VirtualMachine
	require.NoError(p.t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(found.Object, &vm, true))
	return vm
}

// patch changes a VM's status as another writer.
func (p *place) patch(manager, body string) {
	p.t.Helper()
	_, err := p.vms().Patch(p.t.Context(), "web", types.MergePatchType, []byte(body),
		metav1.PatchOptions{FieldManager: manager}, "status")
	require.NoError(p.t, err)
}

// eventually waits for a status of the VM.
func (p *place) eventually(what string, is func(v1.VirtualMachineStatus) bool) v1.VirtualMachineStatus {
	p.t.Helper()
	var last v1.VirtualMachineStatus
	wait.For(p.t, what, func() error {
		if last = p.vm("web").Status; !is(last) {
			return fmt.Errorf("the resource says %+v", last)
		}
		return nil
	})
	return last
}
