package objects

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
	"vmop/runner/config"
	"vmop/vmspec"
)

// gracePeriod is how many seconds a pod has to end. It is that of the pod's start: when
// powerdownTimeout becomes longer, the runner gives the guest no more than this leaves.
func gracePeriod(vm *v1.VirtualMachine) int64 {
	return int64(powerdownTimeout(vm)) + int64(config.ForcedStop/time.Second)
}

// podTemplate returns the pod of a VM, or the target of a move of its guest.
func podTemplate(vm *v1.VirtualMachine, s Settings, claims []Claim, secret string, gated, target bool) (
	*applycorev1.PodTemplateSpecApplyConfiguration, error,
) {
	annotations, err := podAnnotations(vm, s, secret)
	if err != nil {
		return nil, err
	}
	r := rightsOf(vm, s)
	v := volumesOf(vm, s, r, mounted(claims, target), secret)
	runner, err := container(vm, s, r, v, secret)
	if err != nil {
		return nil, err
	}
	spec := applycorev1.PodSpec().
		WithServiceAccountName(ServiceAccount).WithAutomountServiceAccountToken(true).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(gracePeriod(vm)).
		WithSecurityContext(podSecurity(vm, r)).
		WithContainers(runner).
		WithVolumes(v.volumes...)
	if r.hostNetwork {
		spec.WithHostNetwork(true).WithDNSPolicy(corev1.DNSClusterFirstWithHostNet)
	}
	if err := place(vm, spec); err != nil {
		return nil, err
	}
	if target {
		receives(vm, claims, spec)
		annotations[AnnotationReceives] = string(vm.Status.Migration.OperationUID)
	}
	if gated {
		spec.NodeName = nil // it is not scheduled
		spec.WithSchedulingGates(applycorev1.PodSchedulingGate().WithName(SchedulingGate))
	}
	if annotations[AnnotationTemplate], err = hashOf(spec); err != nil {
		return nil, err
	}
	return applycorev1.PodTemplateSpec().WithLabels(podLabels(vm)).WithAnnotations(annotations).WithSpec(spec), nil
}

func container(vm *v1.VirtualMachine, s Settings, r *rights, v *volumes, secret string) (
	*applycorev1.ContainerApplyConfiguration, error,
) {
	resources, err := resources(vm, s, r)
	if err != nil {
		return nil, err
	}
	image, policy := imageOf(vm, s)
	c := applycorev1.Container().WithName(ContainerName).WithImage(image).
		WithEnv(
			applycorev1.EnvVar().WithName("TMPDIR").WithValue(RuntimeDir),
			field("POD_NAME", "metadata.name"),
			field("POD_UID", "metadata.uid"),
			applycorev1.EnvVar().WithName(config.GracePeriodVariable).WithValue(strconv.FormatInt(gracePeriod(vm), 10)),
		).
		WithResources(resources).
		WithSecurityContext(r.containerSecurity()).
		WithVolumeMounts(v.mounts...).
		WithVolumeDevices(v.devices...)
	control := ControlPort
	if r.hostNetwork { // where several runners may be
		control = 0
	} else {
		c.WithPorts(applycorev1.ContainerPort().WithName("control").WithContainerPort(ControlPort).WithProtocol(
			corev1.ProtocolTCP))
	}
	c.WithEnv(applycorev1.EnvVar().WithName(config.ControlPortVariable).WithValue(strconv.Itoa(control)))
	if secret != "" {
		c.WithEnv(applycorev1.EnvVar().WithName(config.DisplaySecretVariable).WithValue(secret))
	}
	if policy != "" {
		c.WithImagePullPolicy(policy)
	}
	for _, p := range displayPorts(vm) {
		c.WithPorts(applycorev1.ContainerPort().WithName(p.name).WithContainerPort(p.port).WithProtocol(
			corev1.ProtocolTCP))
	}
	c.WithPorts(guestPorts(vm)...)
	return c, nil
}

// field is an environment variable with a field of the pod.
func field(name, path string) *applycorev1.EnvVarApplyConfiguration {
	return applycorev1.EnvVar().WithName(name).WithValueFrom(applycorev1.EnvVarSource().
		WithFieldRef(applycorev1.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath(path)))
}

// imageOf returns the runner's image for a VM, and when it is pulled.
func imageOf(vm *v1.VirtualMachine, s Settings) (string, corev1.PullPolicy) {
	if image := ownImage(vm); image != "" {
		return image, vm.Spec.Image.PullPolicy
	}
	return s.Image, s.ImagePullPolicy
}

// originalImages are those of VM-Operator's runner, which its definition of the resource
// has written into each VM that names none. They don't understand our configuration.
const originalImages = "ghcr.io/mnlipp/org.jdrupes.vmoperator.runner."

// ownImage returns the image that a VM names; "" is the manager's.
func ownImage(vm *v1.VirtualMachine) string {
	own := vm.Spec.Image
	if own == nil {
		return ""
	}
	image := own.Source
	if image == "" {
		image = own.Repository + "/" + own.Path
		if own.Version != "" {
			image += ":" + own.Version
		}
	}
	if strings.HasPrefix(image, originalImages) {
		return ""
	}
	return image
}

// powerdownTimeout is how many seconds the guest has for shutting down.
func powerdownTimeout(vm *v1.VirtualMachine) int {
	m := vmspec.Spec{PowerdownTimeout: seconds(vm.Spec.VM.PowerdownTimeout)}.WithDefaults()
	return int(*m.PowerdownTimeout)
}
