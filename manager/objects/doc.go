// Package objects computes the Kubernetes objects of a VM.
//
// Everything here is pure: a VirtualMachine, the manager's Settings and the objects that
// exist go in, typed configurations for server-side apply come out. Package manager/apply
// writes them.
//
//	ConfigMap       the runner's configuration file (Config), its logging
//	Claims          the volumes of the VM, without an owner and never deleted
//	DisplaySecret   the password of the display, created once
//	StatefulSet     the pod, with no more rights than its VM needs (Privileges)
//	Service         the way to the display from outside, if it is configured
//
// Each object carries the hash of what was applied (AnnotationApplied), so that a manager
// knows without a read whether there is anything to write.
//
// A pod can't be changed while it runs. What a VM's definition asks of its pod is
// written into the pod as a short list (AnnotationDefinition); PodChanges compares
// the list of the running pod with that of the next one. PodPatch is what does
// reach a running pod: labels, annotations, and the versions of mounted files.
package objects
