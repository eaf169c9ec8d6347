// Package e2e proves the whole thing on a real Kubernetes: two nodes with kubelet
// and containerd, the images of deploy/images, deploy/ as people apply it, the
// manager in its pod, and VMs whose guests are a real Linux.
//
//	make e2e
//
// Scenarios that don't disturb each other run side by side, each with VMs of its
// own; those that kill what all need run one by one. A failed one logs what an
// engineer on call would inspect.
//
// A watcher counts all the time: there are never two QEMUs of one VM.
package e2e
