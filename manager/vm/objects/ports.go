package objects

import (
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// unprivilegedPorts is a sysctl of the pod's own network. Pod Security's level restricted allows it.
const unprivilegedPorts = "net.ipv4.ip_unprivileged_port_start"

// userPorts returns the pod's ports that are forwarded to the guest.
func userPorts(vm *v1.VirtualMachine) (all []v1.Port) {
	for _, n := range vm.Spec.VM.Networks {
		if n.User != nil {
			all = append(all, n.User.Ports...)
		}
	}
	return all
}

// guestPorts returns the container's ports that lead to the guest. They are informational: a Service also reaches
// other ports, for example ports of a masquerade network or ports that were added later.
func guestPorts(vm *v1.VirtualMachine) (all []*applycorev1.ContainerPortApplyConfiguration) {
	for _, p := range userPorts(vm) {
		all = append(all, applycorev1.ContainerPort().WithContainerPort(p.Port).WithProtocol(p.Protocol))
	}
	return all
}

// podSecurity allows QEMU, which doesn't run as root, to listen on the guest's low ports.
func podSecurity(vm *v1.VirtualMachine, r *rights) *applycorev1.PodSecurityContextApplyConfiguration {
	c := r.podSecurity()
	if r.root || r.hostNetwork {
		return c
	}
	for _, n := range vm.Spec.VM.Networks {
		if n.User != nil {
			return c.WithSysctls(applycorev1.Sysctl().WithName(unprivilegedPorts).WithValue("0"))
		}
	}
	return c
}
