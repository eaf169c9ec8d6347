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

// gracePeriod returns how many seconds a pod has to end. The value is fixed when the pod starts: if powerdownTimeout
// increases later, the runner limits the guest's time to this period.
func gracePeriod(vm *v1.VirtualMachine) int64 {
	return int64(powerdownTimeout(vm)) + int64(config.ForcedStop/time.Second)
}

// podTemplate returns the template for the pod of a VM, or for the target pod of a migration.
func podTemplate(vm *v1.VirtualMachine, s Settings, claims []Claim, secret string, gated, target bool) (
	*applycorev1.PodTemplateSpecApplyConfiguration, error,
) {
	annotations, err := podAnnotations(vm, s, secret)
	if err != nil {
		return nil, err
	}
	r := rightsOf(vm, s)
	v := volumesOf(vm, s, r, podClaims(claims, target), secret)
	runner, err := runnerContainer(vm, s, r, v, secret)
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
	if err := placePod(vm, spec); err != nil {
		return nil, err
	}
	if target {
		makeReceiver(vm, claims, spec)
		annotations[AnnotationReceives] = string(vm.Status.Migration.OperationUID)
	}
	if gated {
		spec.NodeName = nil // a gated pod is not scheduled
		spec.WithSchedulingGates(applycorev1.PodSchedulingGate().WithName(SchedulingGate))
	}
	if annotations[annotationTemplate], err = hashOf(spec); err != nil {
		return nil, err
	}
	return applycorev1.PodTemplateSpec().WithLabels(podLabels(vm)).WithAnnotations(annotations).WithSpec(spec), nil
}

func runnerContainer(vm *v1.VirtualMachine, s Settings, r *rights, v *volumes, secret string) (
	*applycorev1.ContainerApplyConfiguration, error,
) {
	resources, err := containerResources(vm, s, r)
	if err != nil {
		return nil, err
	}
	image, policy := imageOf(vm, s)
	c := applycorev1.Container().WithName(ContainerName).WithImage(image).
		WithEnv(
			applycorev1.EnvVar().WithName("TMPDIR").WithValue(RuntimeDir),
			fieldVariable("POD_NAME", "metadata.name"),
			fieldVariable("POD_UID", "metadata.uid"),
			applycorev1.EnvVar().WithName(config.GracePeriodVariable).WithValue(strconv.FormatInt(gracePeriod(vm), 10)),
		).
		WithResources(resources).
		WithSecurityContext(r.containerSecurity()).
		WithVolumeMounts(v.mounts...).
		WithVolumeDevices(v.devices...)
	control := controlPort
	if r.hostNetwork { // several runners may share the node's network
		control = 0
	} else {
		c.WithPorts(applycorev1.ContainerPort().WithName("control").WithContainerPort(controlPort).WithProtocol(
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

// fieldVariable returns an environment variable with the value of a pod field.
func fieldVariable(name, path string) *applycorev1.EnvVarApplyConfiguration {
	return applycorev1.EnvVar().WithName(name).WithValueFrom(applycorev1.EnvVarSource().
		WithFieldRef(applycorev1.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath(path)))
}

// imageOf returns the runner's image for a VM, and its pull policy.
func imageOf(vm *v1.VirtualMachine, s Settings) (string, corev1.PullPolicy) {
	if image := ownImage(vm); image != "" {
		return image, vm.Spec.Image.PullPolicy
	}
	return s.Image, s.ImagePullPolicy
}

// originalImages is the prefix of the images of VM-Operator's runner. VM-Operator's CRD has written such an image as
// the default into each VM. These runners don't understand our configuration.
const originalImages = "ghcr.io/mnlipp/org.jdrupes.vmoperator.runner."

// ownImage returns the image that a VM names, or "" if the VM uses the manager's image.
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

// powerdownTimeout returns how many seconds the guest has to shut down.
func powerdownTimeout(vm *v1.VirtualMachine) int {
	m := vmspec.Spec{PowerdownTimeout: secondsOf(vm.Spec.VM.PowerdownTimeout)}.WithDefaults()
	return int(*m.PowerdownTimeout)
}
