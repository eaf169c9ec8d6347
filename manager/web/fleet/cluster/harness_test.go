package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/store"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/manager/web/stream"
	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/control/remote"
	"vmop/runner/hardware"
	"vmop/runner/status"
	"vmop/test/cluster/clustertest"
	"vmop/test/logbook"
	"vmop/test/wait"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// shared is the cluster that the tests of this package share.
var shared clustertest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// A place is a namespace with a fleet that has only the manager's permissions. The test simulates the controller, the
// kubelet and the runners.
type place struct {
	*clustertest.Namespace
	*Fleet
	t      *testing.T
	admin  client.Client
	runner *machine
	log    logbook.Logbook
}

// operates simulates the leading manager until the test ends. It accepts each operation, or refuses it with a message,
// and records it.
func (p *place) operates(refusal string) (seen func() []string) {
	p.t.Helper()
	c, err := client.NewWithWatch(p.Config, client.Options{Scheme: p.admin.Scheme()})
	require.NoError(p.t, err)
	ctx := context.WithoutCancel(p.t.Context())
	w, err := c.Watch(ctx, &v1.VirtualMachineOperationList{}, client.InNamespace(p.Name))
	require.NoError(p.t, err)
	status := map[string]any{"phase": v1.OperationInProgress, "conditions": []metav1.Condition{{
		Type: v1.OperationConditionSignalSent, Status: metav1.ConditionTrue, Reason: "SignalSent",
		LastTransitionTime: metav1.Now(),
	}}}
	if refusal != "" {
		status = map[string]any{"phase": v1.OperationFailed, "message": refusal}
	}
	text, err := json.Marshal(map[string]any{"status": status})
	require.NoError(p.t, err)
	var taken logbook.Logbook
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if o, is := e.Object.(*v1.VirtualMachineOperation); is && e.Type == watch.Added {
				by := o.Annotations[v1.AnnotationRequestedBy]
				fmt.Fprintln(&taken, o.Spec.Type, o.Spec.VirtualMachineName, o.Spec.Force, by)
				_ = c.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, text))
			}
		}
	}()
	p.t.Cleanup(func() {
		w.Stop()
		<-done
	})
	return func() []string { return strings.Split(strings.TrimSpace(taken.String()), "\n") }
}

// volumes returns the stores of a namespace without a controller for disks.
func volumes(namespace string) store.Volumes {
	nothing := func(string) {}
	disks := store.NewDisks(namespace, nothing, func() {})
	return store.Volumes{
		Disks: disks, Images: store.NewImages(disks, nothing, nothing, func() {}),
		Attachments: store.NewAttachments(namespace, nothing),
		Snapshots:   store.NewMachineSnapshots(namespace, nothing, func() {}),
	}
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{Namespace: shared.Namespace(t), t: t}
	p.Kubectl("apply", "-f", filepath.Join(p.Deploy, "manager", "account.yaml"))
	scheme := runtime.NewScheme()
	require.NoError(t, clientscheme.AddToScheme(scheme))
	require.NoError(t, v1.AddToScheme(scheme))
	var err error
	p.admin, err = client.New(p.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	manager := rest.CopyConfig(p.Config)
	manager.Impersonate.UserName = "system:serviceaccount:" + p.Name + ":vm-operator"
	ours, err := client.NewWithWatch(manager, client.Options{Scheme: scheme})
	require.NoError(t, err)
	core, err := typedcorev1.NewForConfig(manager)
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(&p.log, nil))
	s := store.New(p.Name, func() string { return "" })
	v := volumes(p.Name)
	p.Fleet = New(Options{
		Namespace: p.Name, Store: s, Volumes: v, Client: ours, Instance: "test", Log: log, Types: stock{},
		Keys: stream.NewKeys(core.Secrets(p.Name), core.ConfigMaps(p.Name), log),
	})
	wait.For(t, "the rights of the account", func() error { return p.opts.Keys.Refresh(t.Context()) })
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var following sync.WaitGroup
		for _, of := range []interface {
			Follow(ctx context.Context, from client.WithWatch)
		}{s, v.Disks, v.Images, v.Attachments, v.Snapshots} {
			following.Go(func() { of.Follow(ctx, ours) })
		}
		following.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	require.NoError(t, s.Await(t.Context()))
	v.Disks.Await(t.Context())
	v.Images.Await(t.Context())
	v.Attachments.Await(t.Context())
	return p
}

// await waits until the fleet shows a VM in the expected state.
func (p *place) await(name, what string, is func(*fleet.VM) bool) *fleet.VM {
	p.t.Helper()
	over := wait.Over(p.t)
	for {
		changed := p.Changed()
		vm, err := p.Get(name)
		if err == nil && is(vm) {
			return vm
		}
		select {
		case <-changed:
		case <-over:
			require.FailNow(p.t, "waited in vain until "+what, "%+v, %v", vm, err)
		}
	}
}

// define creates a VM, and waits until the fleet shows it.
func (p *place) define(name, spec string) *fleet.VM {
	p.t.Helper()
	p.Apply(fmt.Sprintf("{apiVersion: %s, kind: VirtualMachine, metadata: {name: %s}, spec: %s}", v1.GroupVersion(), name,
		spec))
	return p.await(name, "it is shown", func(*fleet.VM) bool { return true })
}

// resource returns the resource of a VM.
func (p *place) resource(name string) *v1.VirtualMachine {
	p.t.Helper()
	var vm v1.VirtualMachine
	require.NoError(p.t, p.admin.Get(p.t.Context(), client.ObjectKey{Namespace: p.Name, Name: name}, &vm))
	return &vm
}

// report patches the status of a VM.
func (p *place) report(name string, status map[string]any) {
	p.t.Helper()
	text, err := json.Marshal(map[string]any{"status": status})
	require.NoError(p.t, err)
	patch := client.RawPatch(types.MergePatchType, text)
	require.NoError(p.t, p.admin.Status().Patch(p.t.Context(), p.resource(name), patch))
}

// pod creates the pod of a VM, which no node runs.
func (p *place) pod(name string) *corev1.Pod {
	p.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: objects.PodName(name, 0), Namespace: p.Name,
			Labels: map[string]string{objects.LabelName: objects.AppName, objects.LabelInstance: name},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: objects.ContainerName, Image: "none"}}},
	}
	wait.For(p.t, "the pod", func() error { return p.admin.Create(p.t.Context(), pod) }) // waits for its account
	patch := []byte(`{"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}`)
	require.NoError(p.t, p.admin.Status().Patch(p.t.Context(), pod, client.RawPatch(types.MergePatchType, patch)))
	return pod
}

// runs creates a VM's pod, with a runner that reports a running guest.
func (p *place) runs(name string) *fleet.VM {
	p.t.Helper()
	pod := p.pod(name)
	p.runner = newMachine(p.t, p)
	p.report(name, map[string]any{
		"phase": "Running", "nodeName": "n1", "cpus": 2, "ram": "1Gi",
		"runner": map[string]any{
			"podName": pod.Name, "podUID": pod.UID, "state": "Booted",
			"control": map[string]any{"port": p.runner.port, "key": p.runner.key},
		},
	})
	return p.await(name, "it runs", func(vm *fleet.VM) bool { return vm.State == fleet.Running && vm.Console })
}

// events returns the notes of the events about users' requests for a VM.
func (p *place) events(name string) (notes []string) {
	p.t.Helper()
	var list eventsv1.EventList
	require.NoError(p.t, p.admin.List(p.t.Context(), &list, client.InNamespace(p.Name)))
	for _, e := range list.Items {
		if e.Reason == "Requested" && e.Regarding.Name == name {
			notes = append(notes, e.Action+": "+e.Note)
		}
	}
	return notes
}

// A machine is the backend of a runner's server.
type machine struct {
	server *control.Server
	plan   plan.Plan
	// expected is the forecast; nil if the runner is of an earlier version.
	expected *control.Forecast
	devices  hardware.Report
	asked    chan string
	refuse   error
	port     int
	key      string
	guest    net.Conn // the guest's end of the console
}

// newMachine starts a runner that accepts the manager of a place.
func newMachine(t *testing.T, p *place) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "f") // short, for the path of the socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	m := &machine{asked: make(chan string, 8)}
	m.plan.Sockets = []plan.Socket{{Role: "console", Path: filepath.Join(dir, "console")}}
	m.plan.QEMU = plan.Process{Executable: "qemu", Args: []plan.Option{{Flag: "-m", Value: "1G"}}}
	var public corev1.ConfigMap
	key := client.ObjectKey{Namespace: p.Name, Name: objects.ManagerCA}
	require.NoError(t, p.admin.Get(t.Context(), key, &public))
	file := filepath.Join(dir, config.AuthoritiesFile)
	require.NoError(t, os.WriteFile(file, []byte(public.Data[config.AuthoritiesFile]), 0o600))
	log := slog.New(slog.NewTextHandler(&p.log, nil))
	tracker := status.NewTracker(time.Now, status.Described{Name: "web"}, status.Entered{State: vmstatus.StateBooted})
	m.server, err = control.Start(t.Context(), control.Options{
		Dir: dir, Backend: m, Tracker: tracker, Log: log,
		Forecast: func(context.Context, []byte) (control.Forecast, error) {
			if m.expected == nil {
				return control.Forecast{}, control.Refusal("an earlier version")
			}
			return *m.expected, nil
		},
		Devices: func(context.Context) (hardware.Report, error) { return m.devices, nil },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.server.Close(context.WithoutCancel(t.Context()))) })
	listener, err := remote.Listen(t.Context(), remote.Options{Authorities: file, Log: log})
	require.NoError(t, err)
	m.server.ServeRemote(listener)
	m.port, m.key = listener.Port(), listener.Key()
	var ours net.Conn
	m.guest, ours = net.Pipe()
	m.server.Console().Attach(ours)
	return m
}

func (m *machine) Act(_ context.Context, what control.Action, by string) error {
	m.asked <- string(what) + " by " + by
	return m.refuse
}

func (m *machine) Run(context.Context, qmp.Command) (json.RawMessage, error) { return nil, nil }
func (m *machine) Plan() *plan.Plan                                          { return &m.plan }
func (m *machine) Dropped() uint64                                           { return 0 }

// says reads n bytes from a console.
func says(t *testing.T, conn io.Reader, n int) string {
	t.Helper()
	text := make([]byte, n)
	_, err := io.ReadFull(conn, text)
	require.NoError(t, err)
	return string(text)
}
