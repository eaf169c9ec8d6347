// Package e2e tests the complete project on a real Kubernetes: two nodes with kubelet and containerd, the images of
// deploy/images, deploy/ applied as users do, the manager in its pod, and VMs with a real Linux as guest.
//
//	make e2e
//
// Independent scenarios run at the same time, each with its own VMs. Scenarios that kill shared components run one at a
// time. When a scenario fails, it logs what an engineer on call would inspect.
//
// During all scenarios, a watcher checks that no VM ever has two QEMUs.
package e2e
