package addresses

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

func lease(name, namespace, ref string, phase v1.LeasePhase, vm string) *v1.VirtualMachineIPAddressLease {
	l := &v1.VirtualMachineIPAddressLease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	l.Spec.VirtualMachineIPAddressRef = v1.IPAddressRef{Name: ref, Namespace: namespace}
	l.Status = v1.VirtualMachineIPAddressLeaseStatus{Phase: phase, VirtualMachine: vm}
	return l
}

func object(name, static, address string) *v1.VirtualMachineIPAddress {
	a := &v1.VirtualMachineIPAddress{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ours"}}
	a.Spec.Type = v1.IPAddressAuto
	if a.Spec.StaticIP = static; static != "" {
		a.Spec.Type = v1.IPAddressStatic
	}
	a.Status.Address = address
	return a
}

func machine(name string, tap bool, address string) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ours", UID: "vm-1"}}
	vm.Spec.VM.Networks = []v1.Network{{User: &v1.UserNetwork{}}}
	if tap {
		vm.Spec.VM.Networks = append(vm.Spec.VM.Networks, v1.Network{Tap: &v1.Tap{}})
	}
	vm.Spec.VirtualMachineIPAddressName = address
	return vm
}

func TestWhichVMsGetAddresses(t *testing.T) {
	t.Parallel()
	some := ranges(t, Range{CIDR: "10.66.10.0/24"})
	for _, row := range []struct {
		vm        *v1.VirtualMachine
		ranges    Ranges
		want      string
		automatic bool
	}{
		{machine("vm", true, ""), some, AutomaticName("ours", "vm"), true},
		{machine("vm", true, ""), nil, "", false},
		{machine("vm", false, ""), some, "", false},
		{machine("vm", true, "my-ip"), some, "my-ip", false},
		{machine("vm", true, "my-ip"), nil, "my-ip", false},
	} {
		name, automatic := NameFor(row.vm, row.ranges)
		require.Equal(t, row.want, name)
		require.Equal(t, row.automatic, automatic)
	}
}

func TestTheAddressOfAnObject(t *testing.T) {
	t.Parallel()
	low := lease("ip-10-66-10-9", "ours", "a", v1.LeaseBound, "")
	high := lease("ip-10-66-10-14", "ours", "a", v1.LeaseBound, "")
	own := []*v1.VirtualMachineIPAddressLease{high, low}
	require.Equal(t, addr("10.66.10.20"), Target(object("a", "", "10.66.10.20"), own), "that which it has")
	require.Equal(t, addr("10.66.10.20"), Target(object("a", "10.66.10.21", "10.66.10.20"), own))
	require.Equal(t, addr("10.66.10.21"), Target(object("a", "10.66.10.21", ""), own), "that which it asks for")
	require.Equal(t, addr("10.66.10.9"), Target(object("a", "", ""), own), "the address that a killed manager chose")
	require.False(t, Target(object("a", "", ""), nil).IsValid(), "any")
}

func TestClaims(t *testing.T) {
	t.Parallel()
	some := ranges(t, Range{CIDR: "10.66.20.0/24"})
	const ip, name = "10.66.20.77", "ip-10-66-20-77"
	for _, row := range []struct {
		what    string
		object  *v1.VirtualMachineIPAddress
		lease   *v1.VirtualMachineIPAddressLease
		ranges  Ranges
		claim   Claim
		message string
	}{
		{"free", object("a", ip, ""), nil, some, Make, ""},
		{
			"in no range", object("a", ip, ""), nil, nil, Refused,
			"10.66.20.77 is in none of the ranges of the manager's configuration (there are none)",
		},
		{"its lease was deleted", object("a", ip, ip), nil, nil, Make, ""},
		{"its own", object("a", ip, ""), lease(name, "ours", "a", v1.LeaseBound, ""), some, Has, ""},
		{"its own, in no range", object("a", ip, ip), lease(name, "ours", "a", v1.LeaseBound, ""), nil, Has, ""},
		{
			"of another object", object("a", ip, ""), lease(name, "ours", "b", v1.LeaseBound, ""), some, Refused,
			"10.66.20.77 is leased to the VirtualMachineIPAddress b",
		},
		{"released here", object("a", ip, ""), lease(name, "ours", "b", v1.LeaseReleased, ""), some, Take, ""},
		{
			"released here, in no range", object("a", ip, ""),
			lease(name, "ours", "b", v1.LeaseReleased, ""), nil, Refused,
			"10.66.20.77 is in none of the ranges of the manager's configuration (there are none)",
		},
		{"released, and had", object("a", ip, ip), lease(name, "ours", "a", v1.LeaseReleased, ""), nil, Take, ""},
		{
			"in another namespace", object("a", ip, ""), lease(name, "theirs", "a", v1.LeaseBound, ""), some, Refused,
			"10.66.20.77 is leased in another namespace",
		},
		{
			"released in another", object("a", ip, ip), lease(name, "theirs", "a", v1.LeaseReleased, ""), some, Refused,
			"10.66.20.77 is leased in another namespace",
		},
	} {
		claim, reason, message := ClaimOf(row.object, addr(ip), row.lease, row.ranges)
		require.Equal(t, row.claim, claim, row.what)
		require.Equal(t, row.message, message, row.what)
		require.Equal(t, message != "", reason != "", row.what)
	}
}

func TestStatusOfAnAddress(t *testing.T) {
	t.Parallel()
	some := ranges(t, Range{CIDR: "10.66.20.0/24"}, Range{CIDR: "10.66.30.0/24", Retired: true})
	require.Equal(t, v1.VirtualMachineIPAddressStatus{Phase: v1.IPAddressBound, Address: "10.66.20.77"},
		StatusOf(lease("ip-10-66-20-77", "ours", "a", v1.LeaseBound, ""), some))
	require.Equal(t, v1.VirtualMachineIPAddressStatus{
		Phase: v1.IPAddressAttached, Address: "10.66.30.77", VirtualMachine: "vm",
	}, StatusOf(lease("ip-10-66-30-77", "ours", "a", v1.LeaseBound, "vm"), some), "a retired range is one")
	require.Equal(t, v1.VirtualMachineIPAddressStatus{
		Phase: v1.IPAddressAttached, Address: "10.66.40.77", VirtualMachine: "vm", Reason: ReasonOutOfRange,
		Message: "10.66.40.77 is in none of the ranges of the manager's configuration (10.66.20.0/24); " +
			"it stays leased as long as this object exists",
	}, StatusOf(lease("ip-10-66-40-77", "ours", "a", v1.LeaseBound, "vm"), some))
}

func TestWhatAVMWaitsFor(t *testing.T) {
	t.Parallel()
	bound := func(vm string) *v1.VirtualMachineIPAddressLease {
		return lease("ip-10-66-20-77", "ours", "my-ip", v1.LeaseBound, vm)
	}
	pending, deleted := object("my-ip", "", ""), object("my-ip", "", "")
	pending.Status = PendingStatus(reasonTaken, "10.66.20.77 is leased in another namespace")
	untold := object("my-ip", "", "")
	untold.Status.Phase = v1.IPAddressPending
	told := object("my-ip", "", "")
	told.Status = v1.VirtualMachineIPAddressStatus{Phase: v1.IPAddressBound, Message: "of another time"}
	owned := func(kind, name string, uid types.UID) *v1.VirtualMachineIPAddress {
		o := object("my-ip", "", "")
		o.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid}}
		return o
	}
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for _, row := range []struct {
		what      string
		automatic bool
		object    *v1.VirtualMachineIPAddress
		lease     *v1.VirtualMachineIPAddressLease
		want      For
		message   string
	}{
		{"new", true, nil, nil, ForCreate, ""},
		{
			"missing", false, nil, nil, ForWait,
			"there is no VirtualMachineIPAddress my-ip: create it, or name another in spec.virtualMachineIPAddressName",
		},
		{
			"goes", false, deleted, bound("vm"), ForWait,
			"the VirtualMachineIPAddress my-ip is being deleted: waiting until it is gone",
		},
		{
			"of the VM before", true, owned("VirtualMachine", "vm", "vm-0"), bound("vm"), ForWait,
			"the VirtualMachineIPAddress my-ip is being deleted: waiting until it is gone",
		},
		{"named, of the VM before", false, owned("VirtualMachine", "vm", "vm-0"), bound("vm"), ForNothing, ""},
		{"of the VM itself", true, owned("VirtualMachine", "vm", "vm-1"), bound("vm"), ForNothing, ""},
		{"of a pod of its name", true, owned("Pod", "vm", "vm-0"), bound("vm"), ForNothing, ""},
		{"of another VM", true, owned("VirtualMachine", "web", "vm-0"), bound("vm"), ForNothing, ""},
		{
			"refused", false, pending, lease("ip-10-66-20-77", "theirs", "my-ip", v1.LeaseBound, ""), ForWait,
			"the VirtualMachineIPAddress my-ip has no address: 10.66.20.77 is leased in another namespace",
		},
		{
			"pending without a reason", false, untold, nil, ForWait,
			"the VirtualMachineIPAddress my-ip has no address: no manager has seen it yet",
		},
		{
			"its lease was deleted", false, told, nil, ForWait,
			"the VirtualMachineIPAddress my-ip has no address: no manager has seen it yet",
		},
		{
			"not seen", false, object("my-ip", "", ""), nil, ForWait,
			"the VirtualMachineIPAddress my-ip has no address: no manager has seen it yet",
		},
		{
			"released", false, object("my-ip", "", ""),
			lease("ip-10-66-20-77", "ours", "my-ip", v1.LeaseReleased, ""), ForWait,
			"the VirtualMachineIPAddress my-ip has no address: no manager has seen it yet",
		},
		{"free", false, object("my-ip", "", ""), bound(""), ForAttach, ""},
		{
			"another VM's", false, object("my-ip", "", ""), bound("other"), ForWait,
			"the VirtualMachineIPAddress my-ip is attached to the VM other",
		},
		{"its own", true, object("my-ip", "", ""), bound("vm"), ForNothing, ""},
	} {
		what, reason, message := ForVM(machine("vm", true, ""), "my-ip", row.automatic, row.object, row.lease)
		require.Equal(t, row.want, what, row.what)
		require.Equal(t, row.message, message, row.what)
		require.Equal(t, message != "", reason != "", row.what)
	}
}

func TestWhoUsesAnAddress(t *testing.T) {
	t.Parallel()
	some := ranges(t, Range{CIDR: "10.66.20.0/24"})
	l := lease("ip-10-66-20-77", "ours", "my-ip", v1.LeaseBound, "vm")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod-1"}}
	reports := func(vm *v1.VirtualMachine, pod, address string) *v1.VirtualMachine {
		vm.Status.Runner = &v1.RunnerStatus{PodUID: "pod-1"}
		if pod != "" {
			vm.Status.Runner.PodUID = "pod-0"
		}
		vm.Status.Addresses = []v1.Address{{Address: "10.66.20.77", Source: "Agent"}}
		if address != "" {
			vm.Status.Addresses = append(vm.Status.Addresses, v1.Address{Address: address, Source: SourceLease})
		}
		return vm
	}
	for _, row := range []struct {
		what   string
		vm     *v1.VirtualMachine
		pod    *corev1.Pod
		object *v1.VirtualMachineIPAddress
		want   Use
	}{
		{"wanted", machine("vm", true, "my-ip"), nil, object("my-ip", "", "10.66.20.77"), Wanted},
		{"wanted, without its object", machine("vm", true, "my-ip"), nil, nil, Wanted},
		{
			"the object has another address", machine("vm", true, "my-ip"), nil,
			object("my-ip", "", "10.66.20.78"), Unused,
		},
		{
			"the same, but a pod may have it", machine("vm", true, "my-ip"), pod,
			object("my-ip", "", "10.66.20.78"), Ending,
		},
		{"another is wanted", machine("vm", true, "other"), nil, object("my-ip", "", ""), Unused},
		{"another, from the next pod on", machine("vm", true, "other"), pod, object("my-ip", "", ""), Ending},
		{
			"the runner has it", reports(machine("vm", true, "other"), "", "10.66.20.77"), pod,
			object("my-ip", "", ""), Ending,
		},
		{
			"the runner has another", reports(machine("vm", true, "other"), "", "10.66.20.78"), pod,
			object("my-ip", "", ""), Unused,
		},
		{"the runner has none", reports(machine("vm", true, "other"), "", ""), pod, object("my-ip", "", ""), Ending},
		{
			"a former runner had another", reports(machine("vm", true, "other"), "before", "10.66.20.78"), pod,
			object("my-ip", "", ""), Ending,
		},
		{"the VM is gone", nil, nil, nil, Unused},
		{"only its pod is there", nil, pod, nil, Ending},
	} {
		require.Equal(t, row.want, UseOf(row.vm, row.pod, l, row.object, some), row.what)
	}
}

func TestTheEndOfALease(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const retention = 10 * time.Minute
	released := func(at time.Time) *v1.VirtualMachineIPAddressLease {
		l := lease("ip-10-66-20-77", "ours", "my-ip", v1.LeaseReleased, "")
		l.Status.ReleaseTime = &metav1.Time{Time: at}
		return l
	}
	bound := func(vm string) *v1.VirtualMachineIPAddressLease {
		return lease("ip-10-66-20-77", "ours", "my-ip", v1.LeaseBound, vm)
	}
	has, another := object("my-ip", "", "10.66.20.77"), object("my-ip", "", "10.66.20.78")
	undated := released(now)
	undated.Status.ReleaseTime = nil
	for _, row := range []struct {
		what   string
		lease  *v1.VirtualMachineIPAddressLease
		object *v1.VirtualMachineIPAddress
		use    Use
		want   Next
		again  time.Time
	}{
		{"used", bound("vm"), has, Wanted, Keep, time.Time{}},
		{"kept without a VM", bound(""), has, Unused, Keep, time.Time{}},
		{"the VM is gone", bound("vm"), has, Unused, Detach, time.Time{}},
		{"its pod is not", bound("vm"), has, Ending, Keep, now.Add(lookAgain)},
		{"the object is gone", bound(""), nil, Unused, Release, time.Time{}},
		{"the object is gone, the VM is not", bound("vm"), nil, Wanted, Keep, now.Add(lookAgain)},
		{"both are gone, the pod is not", bound("vm"), nil, Ending, Keep, now.Add(lookAgain)},
		{"a second lease", bound(""), another, Unused, Release, time.Time{}},
		{"a second lease that a pod has", bound("vm"), another, Ending, Keep, now.Add(lookAgain)},
		{"released", released(now), nil, Unused, Keep, now.Add(retention)},
		{"nearly over", released(now.Add(1 - retention)), nil, Unused, Keep, now.Add(1)},
		{"over", released(now.Add(-retention)), nil, Unused, Expire, time.Time{}},
		{"in the future", released(now.Add(time.Minute + 1)), nil, Unused, Date, time.Time{}},
		{"a little in the future", released(now.Add(time.Minute)), nil, Unused, Keep, now.Add(time.Minute + retention)},
		{"without a time", undated, nil, Unused, Date, time.Time{}},
		{"released, and wanted again", released(now.Add(-time.Hour)), has, Unused, Keep, time.Time{}},
		{"released, its object has another", released(now.Add(-time.Hour)), another, Unused, Expire, time.Time{}},
	} {
		next, again := NextOf(row.lease, row.object, row.use, retention, now)
		require.Equal(t, row.want, next, row.what)
		require.Equal(t, row.again, again, row.what)
	}
	next, _ := NextOf(released(now), nil, Unused, 0, now)
	require.Equal(t, Expire, next, "nothing is kept without a retention")
}
