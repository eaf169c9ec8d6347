package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	"vmop/manager/vm/objects"
	"vmop/test/tier"
)

// place is a namespace with its VMs, their pods, and a manager that is killed repeatedly.
type place struct {
	*world
	name    string
	vms     map[string]*v1.VirtualMachine
	pods    map[string]*corev1.Pod
	runs    map[string]string // addresses of the guests in the pods, by VM
	config  map[string]string // addresses in the runners' configurations, by VM
	wire    *wire
	manager *Controller
	events  []func() // pending events of the watch
	names   map[string]bool
}

// world is a cluster with two namespaces.
type world struct {
	*server
	t        testing.TB
	random   *rand.Rand
	settings objects.Settings
	now      time.Time
	serial   int
	places   []*place
}

func newWorld(t testing.TB, seed uint64, cuts float64, all ...addresses.Range) *world {
	t.Helper()
	w := &world{
		server: &server{objects: map[string]client.Object{}}, t: t, random: rand.New(rand.NewPCG(seed, 1)),
		now: time.Unix(1<<30, 0),
	}
	w.settings.Ranges, w.settings.LeaseRetention = all, 10*time.Minute
	require.Empty(t, w.settings.Ranges.Check(""))
	for _, name := range []string{"one", "two"} {
		p := &place{
			world: w, name: name, vms: map[string]*v1.VirtualMachine{}, pods: map[string]*corev1.Pod{},
			runs: map[string]string{}, config: map[string]string{}, names: map[string]bool{},
		}
		w.places = append(w.places, p)
		w.seen = append(w.seen, func(o client.Object, gone bool) {
			p.events = append(p.events, func() { p.see(o, gone) })
		})
		p.start(cuts)
	}
	return w
}

// start starts a manager, which lists all existing objects.
func (p *place) start(cuts float64) {
	p.wire = &wire{server: p.server, random: p.random, cuts: cuts}
	p.manager = New(Options{
		Namespace: p.name, Settings: func() objects.Settings { return p.settings }, VMs: p,
		Client: p.wire, Live: p.wire, Random: p.random.Uint64N, Now: func() time.Time { return p.now },
	})
	p.manager.requests.Open(p.name, workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour)))
	p.events = nil
	var leases []*v1.VirtualMachineIPAddressLease
	var objects []*v1.VirtualMachineIPAddress
	for _, key := range slices.Sorted(maps.Keys(p.objects)) {
		switch o := p.objects[key].DeepCopyObject().(type) {
		case *v1.VirtualMachineIPAddressLease:
			leases = append(leases, o)
		case *v1.VirtualMachineIPAddress:
			if o.Namespace == p.name {
				objects = append(objects, o)
			}
		}
	}
	require.NoError(p.t, p.manager.book.Listing(objects, leases))
}

func (p *place) see(o client.Object, gone bool) {
	if a, is := o.(*v1.VirtualMachineIPAddress); is && a.Namespace != p.name {
		return
	}
	if gone {
		require.NoError(p.t, p.manager.book.Forget(o))
	} else {
		require.NoError(p.t, p.manager.book.Learn(o))
	}
}

// VM, Pod and Enqueue implement the interfaces that the manager needs.
func (p *place) VM(name string) (*v1.VirtualMachine, error) { return p.vms[name].DeepCopy(), nil }

func (p *place) Pod(vm string) (*corev1.Pod, error) { return p.pods[vm].DeepCopy(), nil }

func (p *place) Enqueue(...string) {}

func (p *place) WaitForSync(context.Context) error { return nil }

// deliver delivers the first n events of the watch.
func (p *place) deliver(n int) {
	for range min(n, len(p.events)) {
		next := p.events[0]
		p.events = p.events[1:]
		next()
	}
}

// reconcileVM does the address part of the VM controller's work.
func (p *place) reconcileVM(name string) {
	vm := p.vms[name]
	if vm == nil || p.wire.cut {
		return
	}
	got, did := p.manager.Attach(context.Background(), vm.DeepCopy())
	if p.wire.cut {
		return
	}
	vm.Status.VirtualMachineIPAddressName = got.Name
	if got.Unknown || did.Err != nil || got.Lease == nil {
		return
	}
	p.config[name] = got.Lease.Address
	if p.pods[name] == nil {
		p.serial++
		p.pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("pod-", p.serial))}}
	}
}

// boot plays the runner: it reads the configuration when the pod starts, and reports later.
func (p *place) boot(name string) {
	if p.pods[name] != nil && p.runs[name] == "" {
		p.runs[name] = p.config[name]
		return
	}
	if vm, pod := p.vms[name], p.pods[name]; vm != nil && pod != nil {
		address, _, _ := strings.Cut(p.runs[name], "/")
		vm.Status.Runner = &v1.RunnerStatus{PodUID: pod.UID}
		vm.Status.Addresses = []v1.Address{{Address: address, Source: addresses.SourceLease}}
	}
}

func (p *place) reconcileAddress(name string) {
	if !p.wire.cut {
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: p.name, Name: name}}
		_, err := p.manager.Reconcile(context.Background(), request)
		if err != nil {
			require.ErrorIs(p.t, err, errKilled)
		}
	}
}

// collect plays the garbage collector: it deletes the dependents of deleted VMs.
func (p *place) collect() {
	for key, o := range p.objects {
		for _, owner := range o.GetOwnerReferences() {
			vm := p.vms[owner.Name]
			if owner.Kind == "VirtualMachine" && o.GetNamespace() == p.name && (vm == nil || vm.UID != owner.UID) {
				require.NoError(p.t, p.delete(key, ""))
				return
			}
		}
	}
}

func (p *place) pick(all map[string]bool) string {
	names := slices.Sorted(maps.Keys(all))
	if len(names) == 0 {
		return ""
	}
	return names[p.random.IntN(len(names))]
}

func (p *place) vmNames() map[string]bool {
	all := map[string]bool{}
	for name := range p.vms {
		all[name] = true
	}
	for name := range p.pods {
		all[name] = true
	}
	return all
}

// act performs one random action of a user, a kubelet, a manager, the watch, or the clock.
func (p *place) act(cuts float64) {
	any := func() string { return p.pick(p.vmNames()) }
	switch p.random.IntN(16) {
	case 0:
		p.create(fmt.Sprintf("vm-%d", p.random.IntN(8)), "")
	case 1:
		p.create(fmt.Sprintf("vm-%d", p.random.IntN(8)), fmt.Sprintf("ip-%d", p.random.IntN(3)))
	case 2:
		delete(p.vms, any())
	case 3:
		name := any()
		delete(p.pods, name) // restarted, if the VM exists
		delete(p.runs, name)
	case 4:
		a := &v1.VirtualMachineIPAddress{}
		a.Namespace, a.Name = p.name, fmt.Sprintf("ip-%d", p.random.IntN(3))
		if a.Spec.Type = v1.IPAddressAuto; p.random.IntN(3) > 0 {
			a.Spec.Type, a.Spec.StaticIP = v1.IPAddressStatic, fmt.Sprintf("10.66.10.%d", 1+p.random.IntN(15))
		}
		_ = p.server.create(a)
	case 5: // even against the admission policy for deletions
		_ = p.delete(p.name+"/"+p.pick(p.names), "")
	case 6:
		p.collect()
	case 7, 8:
		p.deliver(p.random.IntN(12))
	case 9, 10:
		p.reconcileVM(any())
	case 11, 12:
		p.reconcileAddress(p.pick(p.names))
	case 13:
		p.boot(any())
	case 14:
		p.now = p.now.Add(time.Duration(p.random.IntN(8)-1) * time.Minute)
	case 15:
		if p.random.IntN(40) == 0 {
			p.now = p.now.Add(time.Duration(p.random.IntN(48)-24) * time.Hour)
		}
	}
	if p.wire.cut {
		p.start(cuts)
	}
}

// create creates a VM, or changes the address that it names.
func (p *place) create(name, address string) {
	vm := p.vms[name]
	if vm == nil {
		p.serial++
		vm = &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: p.name, UID: types.UID(fmt.Sprint("vm-", p.serial)),
		}}
		vm.Spec.VM.Networks = []v1.Network{{Tap: &v1.Tap{}}}
		p.vms[name] = vm
	}
	vm.Spec.VirtualMachineIPAddressName = address
	p.names[addresses.AutomaticName(p.name, name)] = true
	if address != "" {
		p.names[address] = true
	}
}

// check requires each guest's address to be unique and leased for the guest's namespace.
func (w *world) check() {
	has := map[string]string{}
	for _, p := range w.places {
		for vm, address := range p.runs {
			if address == "" || p.pods[vm] == nil {
				continue
			}
			who := p.name + "/" + vm
			require.Empty(w.t, has[address], "%s and %s have %s", who, has[address], address)
			has[address] = who
			ip, _, _ := strings.Cut(address, "/")
			lease, is := w.objects[addresses.LeaseName(netip.MustParseAddr(ip))].(*v1.VirtualMachineIPAddressLease)
			require.True(w.t, is, "%s has %s, which is not leased", who, address)
			require.Equal(w.t, p.name, lease.Spec.VirtualMachineIPAddressRef.Namespace, address)
			require.Equal(w.t, v1.LeaseBound, lease.Status.Phase, "%s has %s", who, address)
		}
	}
}

// settle lets all controllers finish without kills, restarts all VMs, and waits until leases without an object are
// gone.
func (w *world) settle() {
	for _, p := range w.places {
		p.start(0)
	}
	for i := range 12 {
		for _, p := range w.places {
			p.collect()
			for name := range p.vmNames() {
				if p.vms[name] == nil || i == 3 {
					delete(p.pods, name)
					delete(p.runs, name)
				}
				p.deliver(len(p.events))
				p.reconcileVM(name)
				p.boot(name)
				p.boot(name)
			}
			for name := range p.names {
				p.deliver(len(p.events))
				p.reconcileAddress(name)
			}
			p.deliver(len(p.events))
		}
		w.check()
		w.now = w.now.Add(6 * time.Minute)
	}
}

// No address is given twice, regardless of what users, kubelets, clocks and the watch do, and of the write at which a
// manager is killed. At the end each VM has one address, and no other leases remain.
func TestNoAddressIsGivenTwice(t *testing.T) {
	t.Parallel()
	const cuts = 0.2
	for seed := range uint64(tier.Rounds(40)) {
		w := newWorld(t, seed, cuts, addresses.Range{CIDR: "10.66.10.0/27", Gateway: "10.66.10.1"})
		for range 1000 {
			w.places[w.random.IntN(2)].act(cuts)
			w.check()
		}
		w.settle()
		w.complete(seed)
	}
}

// complete requires three things: each VM with an automatic address has its address object, each VM with an assigned
// address has it in its configuration and status, and each lease belongs to an object.
func (w *world) complete(seed uint64) {
	for _, p := range w.places {
		for name, vm := range p.vms {
			wanted, automatic := addresses.NameFor(vm, w.settings.Ranges)
			a, _ := w.objects[p.name+"/"+wanted].(*v1.VirtualMachineIPAddress)
			if automatic {
				require.NotNil(w.t, a, "seed %d: %s/%s", seed, p.name, name)
			}
			if a != nil && a.Status.VirtualMachine == name {
				require.Equal(w.t, a.Status.Address+"/27", p.config[name])
				require.Equal(w.t, wanted, vm.Status.VirtualMachineIPAddressName)
			}
		}
	}
	for key, o := range w.objects {
		lease, is := o.(*v1.VirtualMachineIPAddressLease)
		if !is {
			a := o.(*v1.VirtualMachineIPAddress)
			if a.Status.Address != "" {
				require.Contains(w.t, w.objects, addresses.LeaseName(netip.MustParseAddr(a.Status.Address)))
			}
			continue
		}
		ref := lease.Spec.VirtualMachineIPAddressRef
		a, _ := w.objects[ref.Namespace+"/"+ref.Name].(*v1.VirtualMachineIPAddress)
		if vm := w.of(ref.Namespace).vms[lease.Status.VirtualMachine]; a == nil && vm != nil &&
			vm.Spec.VirtualMachineIPAddressName == ref.Name {
			continue // until the object, which was deleted against the policy, exists again
		}
		require.NotNil(w.t, a, "seed %d: %s is left of %v", seed, key, ref)
		require.Equal(w.t, addresses.AddressOf(lease.Name).String(), a.Status.Address, "seed %d: %s", seed, key)
	}
}

func (w *world) of(namespace string) *place {
	return w.places[slices.IndexFunc(w.places, func(p *place) bool { return p.name == namespace })]
}

// Two managers share 10,000 addresses, and each VM costs two writes.
func TestTenThousandAddresses(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := newWorld(t, 1, 0, addresses.Range{CIDR: "10.66.0.0/19"},
		addresses.Range{CIDR: "10.70.0.0/21", Gateway: "10.70.0.1"})
	const all = 8190 + 2045
	for i := range all {
		p := w.places[i%2]
		name := fmt.Sprintf("vm-%d", i)
		p.create(name, "")
		p.reconcileVM(name)
		if i%10 == 0 {
			w.places[i/10%2].deliver(i)
		}
	}
	writes := w.writes
	require.Equal(t, 2*all, writes)
	has := map[string]bool{}
	for _, p := range w.places {
		for name := range p.vms {
			require.NotEmpty(t, p.config[name])
			require.False(t, has[p.config[name]], p.config[name])
			has[p.config[name]] = true
			p.deliver(len(p.events))
			p.reconcileVM(name)
			p.reconcileAddress(addresses.AutomaticName(p.name, name))
		}
	}
	require.Equal(t, writes, w.writes, "then there is nothing to do")
	p := w.places[0]
	p.create("one-more", "")
	_, did := p.manager.Attach(t.Context(), p.vms["one-more"])
	require.Equal(t, "NoFreeAddress", did.Problems[0].Reason)
	require.Equal(t, "no address is free: all of 10.66.0.0/19, 10.70.0.0/21 are leased", did.Problems[0].Message)
}
