package controller

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	"vmop/manager/vm/objects"
	"vmop/test/tier"
)

// leasing returns a world with address ranges. Leases belong to the whole cluster, so each test uses its own ranges.
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

// attached waits until a VM has an address object, and returns the address in the runner's configuration.
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

// A VM that names another address keeps the address of its running pod until the restart, and neither address is
// released before.
func TestAnAddressChangesWithARestart(t *testing.T) {
	t.Parallel()
	w := leasing(t, addresses.Range{CIDR: "10.67.0.0/24"})
	w.manage(nil)
	w.Apply(fmt.Sprintf(static, "one", "10.67.0.1"), fmt.Sprintf(static, "two", "10.67.0.2"))
	w.vm("vm", onTap("one"))
	require.Equal(t, "10.67.0.1/24", w.attached("vm", "one"))
	there(w, "vm-0", &corev1.Pod{})
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

// Without the right to read leases, the manager works and reports what it can't do.
func TestWithoutTheRightForLeases(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := leasing(t, addresses.Range{CIDR: "10.69.0.0/24"})
	config := rest.CopyConfig(w.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
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
	there(w, "plain-0", &corev1.Pod{})
	vm := w.phase("tapped", v1.PhasePending, addresses.ReasonNotReady)
	require.Contains(t, vm.Status.Message, "the manager may not list VirtualMachineIPAddressLeases")
	require.Contains(t, vm.Status.Message, "deploy/manager/cluster-account.yaml")
}
