package objects

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// Service returns the load balancer that exposes a VM's display outside the cluster, or nil if no load balancer is
// configured.
func Service(vm *v1.VirtualMachine, s Settings) (*applycorev1.ServiceApplyConfiguration, error) {
	ports := displayPorts(vm)
	own := vm.Spec.LoadBalancerService
	if s.LoadBalancer == nil || len(ports) == 0 || own != nil && len(own.Labels) == 0 && len(own.Annotations) == 0 {
		return nil, nil
	}
	if own == nil {
		own = &v1.LoadBalancerService{}
	}
	labels := mergeEntries(s.LoadBalancer.Labels, own.Labels)
	maps.Copy(labels, Labels(vm))
	service := applycorev1.ServiceSpec().WithType(corev1.ServiceTypeLoadBalancer).
		WithSelector(map[string]string{
			LabelName: AppName, LabelInstance: vm.Name,
			appsv1.StatefulSetPodNameLabel: PodName(vm.Name, vm.Status.PodOrdinal), // not the target of a migration
		})
	for _, p := range ports {
		service.WithPorts(applycorev1.ServicePort().WithName(p.name).WithProtocol(corev1.ProtocolTCP).
			WithPort(p.port).WithTargetPort(intstr.FromInt32(p.port)))
	}
	return stampHash(applycorev1.Service(vm.Name, vm.Namespace).
		WithLabels(labels).WithAnnotations(mergeEntries(s.LoadBalancer.Annotations, own.Annotations)).
		WithOwnerReferences(ownerReference(vm)).WithSpec(service), s)
}

// mergeEntries returns the defaults overridden by the VM's own entries; a null entry removes a default.
func mergeEntries(defaults map[string]string, own map[string]*v1.Entry) map[string]string {
	merged := map[string]string{}
	maps.Copy(merged, defaults)
	for key, value := range own {
		if value == nil {
			delete(merged, key)
		} else {
			merged[key] = string(*value)
		}
	}
	return merged
}

// displayPort is a port for connections to a display.
type displayPort struct {
	name string
	port int32
}

func displayPorts(vm *v1.VirtualMachine) []displayPort {
	var ports []displayPort
	d := vm.Spec.VM.Display
	if d != nil && d.Spice != nil {
		ports = append(ports, displayPort{"spice", d.Spice.Port})
	}
	if d != nil && d.VNC != nil && d.VNC.Port != nil {
		ports = append(ports, displayPort{"vnc", *d.VNC.Port})
	}
	return ports
}
