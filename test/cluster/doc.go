// Package cluster runs a real Kubernetes on this machine, for tests and for manual use: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and nodes. Each node runs containerd, kubelet and kube-proxy in its own
// namespaces. The package needs no registry and leaves the machine's installation unchanged, and several clusters can
// run side by side.
//
//	c, err := cluster.Up(ctx, cluster.Options{Nodes: 1})
//	...
//	defer c.Down(ctx)
//	… use c.Kubeconfig
//
// # Programs
//
// [Programs] builds Kubernetes and etcd from their Go modules (tools/kubernetes) as one executable, and unpacks
// containerd, runc and the CNI plugins from the distribution's packages. The results are in the user's cache folder.
// The first build takes minutes, later calls return immediately. With [Options.Oldest], the oldest supported version of
// Kubernetes is built in addition (tools/kubernetes-oldest).
//
// [Cluster.AddCSI] adds storage with volumes that can grow and support snapshots and clones, in both volume modes. It
// starts a CSI driver for tests (tools/csi/csidriver) on each node, and Kubernetes' sidecars external-provisioner,
// -attacher, -resizer and -snapshotter with the snapshot controller, built from their Go modules ([CSIPrograms]). It
// needs about 250 MB of memory and two seconds, so only tests that need it should call it. The volumes have the storage
// class [CSIClass].
//
// # Effects on the machine
//
// A cluster has the first free number from 0 to 9. It uses the network namespace kube<N>, which [Cluster.Dial] and
// [Cluster.Kubectl] enter. Each node has its own namespaces (mount, network, process, host name, IPC), which end with
// the node's first process. Killing this process acts as a power cut. On the machine itself, the cluster creates a
// cgroup for each node, and a folder with its state.
//
// [Cluster.Down] ends the processes with pidfds and removes the rest. If the process that started the cluster ends
// without Down, for example because a test was killed, a guard does the same ([Guard]), unless the cluster should
// outlive the process. For manual use, [Cluster.Expose] makes the cluster reachable from the machine, and
// [Cluster.AddStorage] creates volumes.
//
// The package needs root, and Linux with cgroups version 1 or 2 (only version 1 has been tested). It does not need
// CAP_SYS_RESOURCE.
//
// See docs/decisions/0032-cluster.md and docs/decisions/0112-csi.md.
package cluster
