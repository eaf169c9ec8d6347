package controller_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubescheme "k8s.io/client-go/kubernetes/scheme"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	addressctl "vmop/manager/addresses/controller"
	"vmop/manager/vm/objects"
	"vmop/test/cluster"
	"vmop/test/cluster/clustertest"
)

// The benchmark uses this namespace. Each round gives addresses to "round" VMs, with as many workers as the manager
// has.
const (
	namespace = "leases"
	round     = 128
	workers   = 8
)

// noVMs is a namespace without known VMs, because they are still about to get their addresses.
type noVMs struct{}

func (noVMs) VM(string) (*v1.VirtualMachine, error) { return nil, nil }
func (noVMs) Pod(string) (*corev1.Pod, error)       { return nil, nil }
func (noVMs) Enqueue(...string)                     {}
func (noVMs) WaitForSync(context.Context) error     { return nil }

// bench is a real API server and a controller that gives addresses to the VMs of one namespace.
type bench struct {
	client client.WithWatch
	leases *addressctl.Controller
	owner  types.UID // the namespace as the owner of leases
	serial int
}

// BenchmarkLeases measures how fast a real API server leases addresses to new VMs. For comparison it creates the same
// two objects per VM directly, in alternating rounds.
func BenchmarkLeases(b *testing.B) {
	w := newBench(b)
	var leased, bare time.Duration
	vms := 0
	for b.Loop() {
		b.StopTimer()
		some, others := w.newVMs(b), w.newVMs(b)
		bare += all(b, others, w.create)
		b.StartTimer()
		leased += all(b, some, w.lease)
		vms += round
	}
	b.ReportMetric(float64(vms)/leased.Seconds(), "leases/s")
	b.ReportMetric(float64(vms)/bare.Seconds(), "bare/s")
	b.ReportMetric(leased.Seconds()/bare.Seconds(), "ratio")
}

func newBench(b *testing.B) *bench {
	b.Helper()
	k, err := clustertest.Up(b.Context(), cluster.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, k.Down(context.WithoutCancel(b.Context()))) })
	scheme := runtime.NewScheme()
	require.NoError(b, errors.Join(kubescheme.AddToScheme(scheme), v1.AddToScheme(scheme)))
	w := &bench{}
	w.client, err = client.NewWithWatch(k.Config, client.Options{Scheme: scheme})
	require.NoError(b, err)
	is := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	require.NoError(b, w.client.Create(b.Context(), is))
	w.owner = is.UID
	settings := objects.Settings{Ranges: addresses.Ranges{{CIDR: "10.66.0.0/16"}}}
	require.Empty(b, settings.Ranges.Check(""))
	w.leases = addressctl.New(addressctl.Options{
		Namespace: namespace, Settings: func() objects.Settings { return settings }, VMs: noVMs{},
		Client: w.client, Live: w.client, Random: rand.Uint64N, Now: time.Now,
	})
	ctx, end := context.WithCancel(b.Context())
	var following sync.WaitGroup
	following.Go(func() { w.leases.Follow(ctx, w.client) })
	b.Cleanup(func() { end(); following.Wait() })
	w.leases.Await(b.Context())
	all(b, w.newVMs(b), w.lease) // lets the API server see each kind once
	return w
}

// all calls do for each VM and returns the total duration.
func all(b *testing.B, vms []*v1.VirtualMachine, do func(context.Context, *v1.VirtualMachine) error) time.Duration {
	b.Helper()
	left := make(chan *v1.VirtualMachine, len(vms))
	for _, vm := range vms {
		left <- vm
	}
	close(left)
	failed := make([]error, workers)
	var working sync.WaitGroup
	begin := time.Now()
	for i := range workers {
		working.Go(func() {
			for vm := range left {
				failed[i] = errors.Join(failed[i], do(b.Context(), vm))
			}
		})
	}
	working.Wait()
	took := time.Since(begin)
	require.NoError(b, errors.Join(failed...))
	return took
}

// newVMs creates the VMs of a round, each with a tap. Without the VMs the garbage collector would delete their
// addresses.
func (w *bench) newVMs(b *testing.B) []*v1.VirtualMachine {
	b.Helper()
	var vms []*v1.VirtualMachine
	for range round {
		w.serial++
		vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("vm-%d", w.serial), Namespace: namespace,
		}}
		vm.Spec.VM.State, vm.Spec.VM.MaximumCPUs = v1.Stopped, new(int32(1))
		vm.Spec.VM.Networks = []v1.Network{{Tap: &v1.Tap{}}}
		vms = append(vms, vm)
	}
	all(b, vms, func(ctx context.Context, vm *v1.VirtualMachine) error { return w.client.Create(ctx, vm) })
	return vms
}

// lease gives a VM an address.
func (w *bench) lease(ctx context.Context, vm *v1.VirtualMachine) error {
	got, did := w.leases.Attach(ctx, vm)
	if did.Err == nil && got.Lease == nil {
		return fmt.Errorf("%s has no address: %+v", vm.Name, did.Problems)
	}
	return did.Err
}

// create creates the same objects as lease, but without choosing an address.
func (w *bench) create(ctx context.Context, vm *v1.VirtualMachine) error {
	number, err := strconv.Atoi(strings.TrimPrefix(vm.Name, "vm-"))
	if err != nil {
		return err
	}
	address := netip.AddrFrom4([4]byte{10, 67, byte(number >> 8), byte(number)})
	lease := &v1.VirtualMachineIPAddressLease{ObjectMeta: metav1.ObjectMeta{Name: addresses.LeaseName(address)}}
	lease.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Namespace", Name: namespace, UID: w.owner},
	}
	lease.Spec.VirtualMachineIPAddressRef = v1.IPAddressRef{Name: vm.Name, Namespace: namespace}
	lease.Status = v1.VirtualMachineIPAddressLeaseStatus{Phase: v1.LeaseBound, VirtualMachine: vm.Name}
	if err := w.client.Create(ctx, lease); err != nil {
		return err
	}
	a := &v1.VirtualMachineIPAddress{ObjectMeta: metav1.ObjectMeta{
		Name: vm.Name, Namespace: namespace, Labels: objects.Labels(vm),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(vm, v1.GroupVersion().WithKind("VirtualMachine")),
		},
	}}
	a.Spec.Type = v1.IPAddressAuto
	a.Status = v1.VirtualMachineIPAddressStatus{
		Phase: v1.IPAddressAttached, Address: address.String(), VirtualMachine: vm.Name,
	}
	return w.client.Create(ctx, a)
}
