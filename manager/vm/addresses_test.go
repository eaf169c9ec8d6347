package vm

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	"vmop/manager/objects"
	"vmop/test/tier"
	"vmop/test/wait"
)

// A manager that begins, and knows addresses and leases before VMs, takes them from none.
func TestAddressesAreKnownBeforeVMs(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := leasing(t, addresses.Range{CIDR: "10.66.60.0/24"})
	end := w.manage(nil)
	w.vm("early", onTap(""), stopped)
	name := addresses.AutomaticName(w.Name, "early")
	w.attached("early", name)
	w.settled()
	end()
	via := newWire()
	via.late, via.only = "/vms", "virtualmachineipaddress"
	w.manage(via)
	w.settled()
	require.Empty(t, via.written())
}

// leasing is a world with a manager that has ranges. Leases are the whole cluster's, so each
// test has ranges of its own.
func leasing(t *testing.T, all ...addresses.Range) *world {
	t.Helper()
	w := newWorld(t)
	w.ranges(all...)
	return w
}

func (w *world) ranges(all ...addresses.Range) {
	w.t.Helper()
	require.Empty(w.t, addresses.Ranges(all).Check(""))
	settings := *w.settings.Load()
	settings.Ranges = all
	w.settings.Store(&settings)
}

func onTap(address string) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks, vm.Spec.VM.Networks = nil, []v1.Network{{Tap: &v1.Tap{}}}
		vm.Spec.VirtualMachineIPAddressName = address
	}
}

func (w *world) address(name, what string, is func(*v1.VirtualMachineIPAddress) bool) *v1.VirtualMachineIPAddress {
	w.t.Helper()
	return eventually(w, name, &v1.VirtualMachineIPAddress{}, what, is)
}

func (w *world) holds(name, address string, vm string) {
	w.t.Helper()
	w.address(name, "bound", func(a *v1.VirtualMachineIPAddress) bool {
		return a.Status.Address == address && a.Status.VirtualMachine == vm && a.Status.Phase != v1.IPAddressPending
	})
}

// attached waits until a VM has an address object, and returns the address in the runner's
// configuration.
func (w *world) attached(vm, address string) string {
	w.t.Helper()
	eventually(w, vm, &v1.VirtualMachine{}, "has "+address, func(vm *v1.VirtualMachine) bool {
		return vm.Status.VirtualMachineIPAddressName == address
	})
	var lease string
	eventually(w, vm, &corev1.ConfigMap{}, "has an address", func(c *corev1.ConfigMap) bool {
		found := regexp.MustCompile(`(?m)^ *lease:\n +address: (\S+)$`).FindStringSubmatch(c.Data[objects.ConfigKey])
		if found != nil {
			lease = found[1]
		}
		return found != nil
	})
	return lease
}

const static = `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineIPAddress, metadata: {name: %s},
  spec: {staticIP: %s, type: Static}}`

// The examples of Deckhouse's document about addresses, in its order.
func TestAddressesAsDocumented(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := leasing(t, addresses.Range{CIDR: "10.66.10.0/28", Gateway: "10.66.10.1"},
		addresses.Range{CIDR: "10.66.20.0/24"})
	other := newWorld(t)
	other.settings.Store(w.settings.Load())
	via := newWire()
	w.manage(via)
	other.manage(nil)

	w.vm("linux-vm", onTap(""))
	automatic := addresses.AutomaticName(w.Name, "linux-vm")
	require.Regexp(t, `^linux-vm-[b-z2-9]{5}$`, automatic)
	lease := w.attached("linux-vm", automatic)
	address, _, _ := strings.Cut(lease, "/")
	require.Regexp(t, `^(10\.66\.10\.\d+/28|10\.66\.20\.\d+/24)$`, lease)
	require.Empty(t, via.read())
	writes := 0
	for _, write := range via.written() {
		if strings.Contains(write, "virtualmachineipaddress") {
			writes++
		}
	}
	require.Equal(t, 2, writes, via.written())
	row := automatic + ` +` + regexp.QuoteMeta(address) + ` +Attached +linux-vm +\d+s`
	require.Regexp(t, `^NAME +ADDRESS +STATUS +VM +AGE\n`+row+`\n$`, w.Kubectl("get", "vmip"))
	name := "ip-" + strings.ReplaceAll(address, ".", "-")
	row = name + ` +\{"name":"` + automatic + `","namespace":"` + w.Name + `"\} +Bound +\d+s`
	require.Regexp(t, `^NAME +VIRTUALMACHINEIPADDRESS +STATUS +AGE\n`+row+`\n$`, w.Kubectl("get", "vmipl", name))

	// How to request a specific IP address?
	w.vm("other-vm", onTap("linux-vm-custom-ip"))
	w.phase("other-vm", v1.PhasePending, addresses.ReasonMissing)
	w.Apply(fmt.Sprintf(static, "linux-vm-custom-ip", "10.66.20.77"))
	require.Equal(t, "10.66.20.77/24", w.attached("other-vm", "linux-vm-custom-ip"))
	w.vm("third-vm", onTap("linux-vm-custom-ip"))
	third := w.phase("third-vm", v1.PhasePending, addresses.ReasonInUse)
	require.Contains(t, third.Status.Message, "the VirtualMachineIPAddress linux-vm-custom-ip is attached to the VM other-vm")
	other.Apply(fmt.Sprintf(static, "mine", "10.66.20.77"))
	refused := other.address("mine", "refused", func(a *v1.VirtualMachineIPAddress) bool {
		return a.Status.Message != "" && a.Status.Reason != "NotSeen"
	})
	require.Equal(t, "10.66.20.77 is leased in another namespace", refused.Status.Message, "and not in which")
	w.Apply(fmt.Sprintf(static, "again", "10.66.20.77"))
	w.address("again", "refused", func(a *v1.VirtualMachineIPAddress) bool {
		return a.Status.Message == "10.66.20.77 is leased to the VirtualMachineIPAddress linux-vm-custom-ip"
	})

	// How to retain the assigned IP address for a virtual machine?
	require.Equal(t, automatic, w.Kubectl("get", "vm", "linux-vm", "-o",
		"jsonpath={.status.virtualMachineIPAddressName}"))
	w.Kubectl("patch", "vmip", automatic, "--type=merge", "--patch", `{"metadata":{"ownerReferences":null}}`)
	w.Kubectl("delete", "vm", "linux-vm", "--cascade=foreground")
	w.holds(automatic, address, "")
	w.edit("third-vm", func(vm *v1.VirtualMachine) { vm.Spec.VirtualMachineIPAddressName = automatic })
	require.Equal(t, lease, w.attached("third-vm", automatic))
	w.holds(automatic, address, "third-vm")

	// Even if the vmip resource is deleted, it remains leased to the namespace.
	w.Kubectl("delete", "vm", "third-vm", "--cascade=foreground")
	w.holds(automatic, address, "")
	w.Kubectl("delete", "vmip", automatic)
	w.leaseIs(name, v1.LeaseReleased)
	other.Apply(fmt.Sprintf(static, "late", address))
	other.address("late", "refused", func(a *v1.VirtualMachineIPAddress) bool {
		return a.Status.Reason == addresses.ReasonTaken
	})
	w.Apply(fmt.Sprintf(static, "linux-vm-custom-ip-2", address))
	w.holds("linux-vm-custom-ip-2", address, "")
	w.leaseIs(name, v1.LeaseBound)

	// After ten minutes another namespace gets it.
	w.Kubectl("delete", "vmip", "linux-vm-custom-ip-2")
	w.leaseIs(name, v1.LeaseReleased)
	w.advance(11 * time.Minute)
	other.holds("late", address, "")
}

func (w *world) leaseIs(name string, phase v1.LeasePhase) {
	w.t.Helper()
	wait.For(w.t, name+" "+string(phase), func() error {
		lease := &v1.VirtualMachineIPAddressLease{}
		if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, lease); err != nil {
			return err
		}
		if lease.Status.Phase != phase {
			return fmt.Errorf("it is %+v", lease)
		}
		return nil
	})
}

// An address that a VM is to have at its next start is not given to the pod that is running,
// and the one that this pod has stays the VM's until then.
func TestAnAddressChangesWithARestart(t *testing.T) {
	t.Parallel()
	w := leasing(t, addresses.Range{CIDR: "10.67.0.0/24"})
	w.manage(nil)
	w.Apply(fmt.Sprintf(static, "one", "10.67.0.1"), fmt.Sprintf(static, "two", "10.67.0.2"))
	w.vm("vm", onTap("one"))
	require.Equal(t, "10.67.0.1/24", w.attached("vm", "one"))
	eventually(w, "vm-0", &corev1.Pod{}, "is there", func(*corev1.Pod) bool { return true })
	w.edit("vm", func(vm *v1.VirtualMachine) { vm.Spec.VirtualMachineIPAddressName = "two" })
	w.holds("two", "10.67.0.2", "vm")
	eventually(w, "vm", &corev1.ConfigMap{}, "has the new address", func(c *corev1.ConfigMap) bool {
		return strings.Contains(c.Data[objects.ConfigKey], "10.67.0.2/24")
	})
	w.holds("one", "10.67.0.1", "vm")
	vm, _ := get(w, "vm", &v1.VirtualMachine{})
	require.Equal(t, "one", vm.Status.VirtualMachineIPAddressName)
	one := &v1.VirtualMachineIPAddress{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: w.Name}}
	err := w.client.Delete(t.Context(), one)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "the address 10.67.0.1 is attached to the VM vm")

	w.edit("vm", stopped)
	eventually(w, "vm", &v1.VirtualMachine{}, "has two", func(vm *v1.VirtualMachine) bool {
		return vm.Status.VirtualMachineIPAddressName == "two"
	})
	w.holds("one", "10.67.0.1", "")
}

// Ranges that shrink take nothing away: what is leased stays, and it is said; a VM that has to
// be started again needs a range that is retired.
func TestRangesShrink(t *testing.T) {
	t.Parallel()
	w := leasing(t, addresses.Range{CIDR: "10.68.0.0/24"})
	w.manage(nil)
	w.vm("vm", onTap(""), stopped)
	name := addresses.AutomaticName(w.Name, "vm")
	lease := w.attached("vm", name)
	w.ranges(addresses.Range{CIDR: "10.68.1.0/24"})
	w.look()
	w.address(name, "out of range", func(a *v1.VirtualMachineIPAddress) bool {
		return a.Status.Phase == v1.IPAddressAttached && a.Status.Reason == addresses.ReasonOutOfRange
	})
	w.edit("vm", running)
	vm := w.phase("vm", v1.PhaseFailed, addresses.ReasonOutOfRange)
	require.Contains(t, vm.Status.Message, "ask the administrator to add its range with retired: true")
	w.ranges(addresses.Range{CIDR: "10.68.1.0/24"},
		addresses.Range{CIDR: "10.68.0.0/24", Retired: true, Gateway: "10.68.0.254"})
	w.look()
	eventually(w, "vm-0", &corev1.Pod{}, "is there", func(*corev1.Pod) bool { return true })
	require.Equal(t, lease, w.attached("vm", name))
	w.Apply(fmt.Sprintf(static, "new", "10.68.0.9"))
	w.address("new", "refused", func(a *v1.VirtualMachineIPAddress) bool {
		return a.Status.Message == "10.68.0.9 is in 10.68.0.0/24, of which no address is leased any more"
	})
}

// A VM and an address object that wait for any address get the next that is free, before the minute is over after
// which it would be tried again.
func TestAnAddressThatGetsFreeIsTaken(t *testing.T) {
	t.Parallel()
	w := leasing(t, addresses.Range{CIDR: "10.72.0.0/30"}) // of two addresses
	w.manage(nil)
	w.vm("one", onTap(""), stopped)
	w.vm("two", onTap(""), stopped)
	w.attached("one", addresses.AutomaticName(w.Name, "one"))
	w.attached("two", addresses.AutomaticName(w.Name, "two"))
	w.vm("late", onTap(""))
	late := w.phase("late", v1.PhasePending, addresses.ReasonNoneFree)
	require.Contains(t, late.Status.Message, "all of 10.72.0.0/30 are leased")
	w.Apply("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineIPAddress, " +
		"metadata: {name: reserved}, spec: {}}")
	w.address("reserved", "refused", func(a *v1.VirtualMachineIPAddress) bool {
		return a.Status.Reason == addresses.ReasonNoneFree
	})

	w.Kubectl("delete", "vm", "one", "two", "--cascade=foreground")
	for _, name := range []string{"ip-10-72-0-1", "ip-10-72-0-2"} {
		w.leaseIs(name, v1.LeaseReleased)
	}
	begin := time.Now()
	w.advance(11 * time.Minute)
	w.attached("late", addresses.AutomaticName(w.Name, "late"))
	w.address("reserved", "bound", func(a *v1.VirtualMachineIPAddress) bool {
		return a.Status.Phase == v1.IPAddressBound
	})
	require.Less(t, time.Since(begin), 30*time.Second)
}

// Without the right to know the leases the manager works, and says what it can't do.
func TestWithoutTheRightForLeases(t *testing.T) {
	t.Parallel()
	w := leasing(t, addresses.Range{CIDR: "10.69.0.0/24"})
	config := rest.CopyConfig(w.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/virtualmachineipaddressleases") {
				r.Header.Set("Impersonate-User", "a-stranger")
			}
			return next.RoundTrip(r)
		})
	})
	vms, _ := w.start(config)
	require.NoError(t, vms.store.Await(t.Context()))
	w.vm("plain")
	w.vm("tapped", onTap(""))
	eventually(w, "plain-0", &corev1.Pod{}, "is there", func(*corev1.Pod) bool { return true })
	vm := w.phase("tapped", v1.PhasePending, addresses.ReasonNotReady)
	require.Contains(t, vm.Status.Message, "the manager may not list VirtualMachineIPAddressLeases")
	require.Contains(t, vm.Status.Message, "deploy/manager/cluster-account.yaml")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Two managers are killed at each of their first writes, and in the end each VM has an address of
// its own. The next manager may begin before the API server's caches have what the last one wrote.
func TestAddressesOfManagersThatAreKilled(t *testing.T) {
	t.Parallel()
	one := leasing(t, addresses.Range{CIDR: "10.71.0.0/24"})
	two := newWorld(t)
	two.settings.Store(one.settings.Load())
	const vms = 6
	for _, w := range []*world{one, two} {
		for i := range vms {
			w.vm(fmt.Sprintf("vm-%d", i), onTap(""), stopped)
		}
	}
	for at := 1; at <= 12; at++ {
		var ends []func()
		for i, w := range []*world{one, two} {
			via := cutWire(at, (at+i)%2 == 0)
			ends = append(ends, w.manage(via))
			select {
			case <-via.cut:
			case <-time.After(5 * time.Second): // there is nothing left to write
			}
		}
		for _, end := range ends {
			end()
		}
	}
	has := map[string]bool{}
	for _, w := range []*world{one, two} {
		w.manage(nil)
		for i := range vms {
			name := fmt.Sprintf("vm-%d", i)
			lease := w.attached(name, addresses.AutomaticName(w.Name, name))
			require.False(t, has[lease], lease)
			has[lease] = true
		}
	}
}
