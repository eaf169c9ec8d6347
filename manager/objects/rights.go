package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// tunDevice is what taps are made with.
const tunDevice = "/dev/net/tun"

// rights are what a pod has beyond the least, which passes the Pod Security level
// "restricted" (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
//
// See docs/decisions/0038-rights-by-need.md.
type rights struct {
	privileged   bool
	root         bool
	hostNetwork  bool
	capabilities []corev1.Capability
	devices      []string
	resources    []string // of device plugins
	networked    bool     // for a network
	reasons      []v1.Privilege
}

// Privileges returns what the pod of a VM may do beyond the least, each with the
// field of the VM that needs it.
func Privileges(vm *v1.VirtualMachine, s Settings) []v1.Privilege {
	return rightsOf(vm, s).reasons
}

func rightsOf(vm *v1.VirtualMachine, s Settings) *rights {
	r := &rights{}
	r.acceleration(vm.Spec.VM.Accelerator, s.KVMResource)
	for i, n := range vm.Spec.VM.Networks {
		switch {
		case n.Tap != nil:
			r.tap(fmt.Sprintf("spec.vm.networks[%d].tap", i), true, s.VhostNetResource)
		case n.Masquerade != nil:
			r.tap(fmt.Sprintf("spec.vm.networks[%d].masquerade", i), false, s.VhostNetResource)
		}
	}
	return r
}

// acceleration gets /dev/kvm into the pod. Without a device plugin only a privileged
// container can open it: other containers' devices are limited by their cgroup.
func (r *rights) acceleration(accelerator, plugin string) {
	reason := "spec.vm.accelerator"
	switch accelerator {
	case "tcg", "none":
		return
	case "":
		reason += " (auto)"
	default:
		reason += " (" + accelerator + ")"
	}
	if plugin != "" {
		r.resource(plugin, reason)
		return
	}
	r.privileged = true
	r.because("privileged", reason)
	r.becomeRoot(reason)
}

// tap gives a pod what taps need. On a bridge, they are in the node's network.
func (r *rights) tap(reason string, onBridge bool, vhost string) {
	r.networked = true
	if onBridge && !r.hostNetwork {
		r.hostNetwork = true
		r.because("hostNetwork", reason)
	}
	r.becomeRoot(reason)
	if r.privileged {
		return // has all capabilities and devices
	}
	r.capability("NET_ADMIN", reason)
	if onBridge { // DHCP for a guest with a lease
		r.capability("NET_RAW", reason)
	} else {
		r.capability("NET_BIND_SERVICE", reason)
	}
	if len(r.devices) == 0 {
		r.devices = []string{tunDevice}
		r.because("device "+tunDevice, reason)
		if vhost != "" {
			r.resource(vhost, reason)
		}
	}
}

// resource asks a device plugin for a device.
func (r *rights) resource(name, reason string) {
	r.resources = append(r.resources, name)
	r.because("device "+name, reason)
}

// becomeRoot: other users don't get the capabilities of their container.
func (r *rights) becomeRoot(reason string) {
	if !r.root {
		r.root = true
		r.because("root", reason)
	}
}

func (r *rights) capability(name corev1.Capability, reason string) {
	for _, has := range r.capabilities {
		if has == name {
			return
		}
	}
	r.capabilities = append(r.capabilities, name)
	r.because("capability "+string(name), reason)
}

func (r *rights) because(name, reason string) {
	r.reasons = append(r.reasons, v1.Privilege{Name: name, Reason: reason})
}
