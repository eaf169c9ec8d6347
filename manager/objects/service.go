package objects

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// Service returns the load balancer by which a VM's screen is reached from outside
// of the cluster. Nil: there is to be none.
func Service(vm *v1.VirtualMachine, s Settings) (*applycorev1.ServiceApplyConfiguration, error) {
	ports := displayPorts(vm)
	own := vm.Spec.LoadBalancerService
	if s.LoadBalancer == nil || len(ports) == 0 || own != nil && len(own.Labels) == 0 && len(own.Annotations) == 0 {
		return nil, nil
	}
	if own == nil {
		own = &v1.LoadBalancerService{}
	}
	labels := merge(s.LoadBalancer.Labels, own.Labels)
	maps.Copy(labels, Labels(vm))
	service := applycorev1.ServiceSpec().WithType(corev1.ServiceTypeLoadBalancer).
		WithSelector(map[string]string{
			LabelName: AppName, LabelInstance: vm.Name,
			appsv1.StatefulSetPodNameLabel: PodName(vm.Name, vm.Status.PodOrdinal), // not that to which the guest moves
		})
	for _, p := range ports {
		service.WithPorts(applycorev1.ServicePort().WithName(p.name).WithProtocol(corev1.ProtocolTCP).
			WithPort(p.port).WithTargetPort(intstr.FromInt32(p.port)))
	}
	return stamp(applycorev1.Service(vm.Name, vm.Namespace).
		WithLabels(labels).WithAnnotations(merge(s.LoadBalancer.Annotations, own.Annotations)).
		WithOwnerReferences(owner(vm)).WithSpec(service), s)
}

// merge returns defaults with what the VM says instead; null takes one away.
func merge(defaults map[string]string, own map[string]*v1.Entry) map[string]string {
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

// A displayPort is one on which a screen can be reached.
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
