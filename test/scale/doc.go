// Command scale measures the manager with many VMs:
//
//	go run ./test/scale [-n 500,1000,2500,5000] [-idle 5m] [-settle 150s] [-classes] [-json FILE]
//		[-vmmanager bin/vmmanager]
//
// The API server, etcd and kube-controller-manager are real (test/cluster). The manager is a real process with the
// permissions that deploy grants. The kubelets and the runners in pods, which would need many machines, are simulated
// (kubelet.go): pods are bound, run and become ready immediately, and their runners write the same status of the VM as
// real runners.
//
// VMs are created at the highest possible rate, which measures costs but not durations. Durations are measured at the
// largest number of VMs, where more VMs are created and changed one at a time (pace.go).
//
// The audit log counts all requests of the manager to the API server. The kernel reports the manager's memory.
// test/bench/RESULTS.md contains the goals and explains the lines of the table.
//
// The tests of this package do the same with few VMs: counts must be right even there, but times and sizes need many
// VMs.
package main
