// Command scale measures the manager with many VMs:
//
//	go run ./test/scale [-n 500,1000,2500,5000] [-idle 5m] [-settle 150s] [-classes] [-json FILE]
//		[-vmmanager bin/vmmanager]
//
// The API server, etcd and kube-controller-manager are real (test/cluster), and so
// is the manager, a process of its own with the rights that deploy gives it. What is
// played is what would need as many machines: kubelets, and the runners in their
// pods (kubelet.go). Pods are bound, run and become ready at once, and their runners
// tell the VM's status as real ones do.
//
// VMs are made as fast as the machine takes them, which says what it costs, and not
// how long anything takes. That is measured at the largest number, where more are
// made and changed one by one (pace.go).
//
// What the manager asks of the API server is counted from the audit log, so nothing
// is missed. What it needs of memory is what the kernel says. The goals are those of
// test/bench/RESULTS.md, where the lines of the table are explained.
//
// The tests of this package are the same with few VMs: counts must be right there
// already; only times and sizes need many.
package main
