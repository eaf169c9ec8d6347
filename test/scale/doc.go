// Command scale measures the manager with many VMs:
//
//	go run ./test/scale [-n 500,1000,2500,5000] [-idle 5m] [-json FILE] [-vmmanager bin/vmmanager]
//
// The API server, etcd and kube-controller-manager are real (test/cluster), and so
// is the manager, a process of its own with the rights that deploy gives it. What is
// played is what would need as many machines: kubelets, and the runners in their
// pods (kubelet.go). Pods are bound, run and become ready at once, and their runners
// tell the VM's status as real ones do.
//
// What the manager asks of the API server is counted from the audit log, so nothing
// is missed. What it needs of memory is what the kernel says. The goals are those of
// docs/performance.md, where the lines of the table are explained.
//
// The tests of this package are the same with few VMs: counts must be right there
// already; only times and sizes need many.
package main
