// Package objects computes the Kubernetes objects of a VM.
//
// Its functions are pure. They take a VirtualMachine, the manager's Settings and the existing objects, and return
// typed configurations for server-side apply. Package manager/vm/apply writes them.
//
//	ConfigMap       the runner's configuration file (Config), its logging
//	Claims          the volumes of the VM, without an owner and never deleted
//	DisplaySecret   the password of the display, created once
//	StatefulSet     the pod, with no more rights than its VM needs (Privileges)
//	Service         exposes the display, if it is configured
//
// Each object carries the hash of the applied configuration (AnnotationApplied). From this hash a manager detects
// without a read whether a write is necessary.
//
// Most of a pod can't be changed while it runs. Therefore a pod carries a short list of what the VM's definition
// requires from it (AnnotationDefinition). PodChanges compares this list with the list of the next pod. PodPatch
// contains what a running pod can take: labels, annotations, and the versions of mounted files.
package objects
