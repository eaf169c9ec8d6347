package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// tunDevice is the device that creates taps.
const tunDevice = "/dev/net/tun"

// rights are a pod's rights beyond the minimum. A pod with minimum rights satisfies the Pod Security level
// "restricted" (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
//
// See docs/decisions/0038-rights-by-need.md.
type rights struct {
	privileged   bool
	root         bool
	hostNetwork  bool
	capabilities []corev1.Capability
	devices      []string
	resources    []string // from device plugins
	networked    bool     // some of the rights are for a network
	reasons      []v1.Privilege
}

// Privileges returns the rights of a VM's pod beyond the minimum, each with the field of the VM that requires it.
func Privileges(vm *v1.VirtualMachine, s Settings) []v1.Privilege {
	return rightsOf(vm, s).reasons
}

func rightsOf(vm *v1.VirtualMachine, s Settings) *rights {
	r := &rights{}
	r.grantAcceleration(vm.Spec.VM.Accelerator, s.KVMResource)
	for i, n := range vm.Spec.VM.Networks {
		switch {
		case n.Tap != nil:
			r.grantTap(fmt.Sprintf("spec.vm.networks[%d].tap", i), true, s.VhostNetResource)
		case n.Masquerade != nil:
			r.grantTap(fmt.Sprintf("spec.vm.networks[%d].masquerade", i), false, s.VhostNetResource)
		}
	}
	return r
}

// grantAcceleration makes /dev/kvm available in the pod. Without a device plugin, only a privileged container can open
// it, because cgroups limit the devices of other containers.
func (r *rights) grantAcceleration(accelerator, plugin string) {
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
		r.grantDevice(plugin, reason)
		return
	}
	r.privileged = true
	r.grantBecause("privileged", reason)
	r.becomeRoot(reason)
}

// grantTap adds the rights that taps require. A tap on a bridge requires the node's network.
func (r *rights) grantTap(reason string, onBridge bool, vhost string) {
	r.networked = true
	if onBridge && !r.hostNetwork {
		r.hostNetwork = true
		r.grantBecause("hostNetwork", reason)
	}
	r.becomeRoot(reason)
	if r.privileged {
		return // a privileged pod has all capabilities and devices
	}
	r.grantCapability("NET_ADMIN", reason)
	if onBridge { // DHCP for a guest with a lease
		r.grantCapability("NET_RAW", reason)
	} else {
		r.grantCapability("NET_BIND_SERVICE", reason)
	}
	if len(r.devices) == 0 {
		r.devices = []string{tunDevice}
		r.grantBecause("device "+tunDevice, reason)
		if vhost != "" {
			r.grantDevice(vhost, reason)
		}
	}
}

// grantDevice requests a device from a device plugin.
func (r *rights) grantDevice(name, reason string) {
	r.resources = append(r.resources, name)
	r.grantBecause("device "+name, reason)
}

// becomeRoot makes the runner run as root, since other users don't receive the capabilities of their container.
func (r *rights) becomeRoot(reason string) {
	if !r.root {
		r.root = true
		r.grantBecause("root", reason)
	}
}

func (r *rights) grantCapability(name corev1.Capability, reason string) {
	for _, has := range r.capabilities {
		if has == name {
			return
		}
	}
	r.capabilities = append(r.capabilities, name)
	r.grantBecause("capability "+string(name), reason)
}

func (r *rights) grantBecause(name, reason string) {
	r.reasons = append(r.reasons, v1.Privilege{Name: name, Reason: reason})
}
