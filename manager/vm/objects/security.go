package objects

import (
	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

const (
	// runnerID is the user and the group of the runner and of QEMU.
	runnerID = 65532
	// diskGroup is the group "disk", which owns block devices.
	diskGroup = 6
)

// podSecurity sets the group for volumes in every pod, with or without root: files from one kind of pod must be
// readable in the other after a change of the VM.
func (r *rights) podSecurity() *applycorev1.PodSecurityContextApplyConfiguration {
	c := applycorev1.PodSecurityContext().WithFSGroup(runnerID).WithSupplementalGroups(diskGroup)
	if r.root {
		c.WithRunAsUser(0).WithRunAsGroup(0)
	} else {
		c.WithRunAsNonRoot(true).WithRunAsUser(runnerID).WithRunAsGroup(runnerID)
	}
	if !r.privileged {
		c.WithSeccompProfile(applycorev1.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	}
	return c
}

func (r *rights) containerSecurity() *applycorev1.SecurityContextApplyConfiguration {
	c := applycorev1.SecurityContext().WithReadOnlyRootFilesystem(true)
	if r.privileged {
		return c.WithPrivileged(true)
	}
	capabilities := applycorev1.Capabilities().WithDrop("ALL").WithAdd(r.capabilities...)
	return c.WithAllowPrivilegeEscalation(false).WithCapabilities(capabilities)
}
