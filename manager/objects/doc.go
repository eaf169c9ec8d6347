// Package objects computes the Kubernetes objects of a VM.
//
// Everything here is pure: a VirtualMachine, the manager's Settings and what is
// there already go in, typed configurations for server-side apply come out. Nobody
// is asked and nothing is written; that is the business of manager/vm.
//
//	ConfigMap       the runner's configuration file (Config), its logging
//	Claims          the volumes of the VM, which nobody owns and nobody deletes
//	DisplaySecret   the password of the screen, made once
//	StatefulSet     the pod, with no more rights than its VM needs (Privileges)
//	Service         the way to the screen from outside, if it is wanted
//
// Each object carries the hash of what was applied (AnnotationApplied), so that a manager
// knows without a read whether there is anything to write.
//
// A pod can't be changed while it runs. What a VM's definition asks of its pod is
// written into the pod as a short list (AnnotationDefinition); PodChanges compares
// the list of the running pod with that of the next one. PodPatch is what does
// reach a running pod: labels, annotations, and the versions of mounted files.
package objects
