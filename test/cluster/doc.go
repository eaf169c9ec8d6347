// Package cluster runs a real Kubernetes on this machine, for tests and for
// people: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and one or
// more nodes, each with containerd, kubelet and kube-proxy in namespaces of its
// own. Nothing comes from a registry, nothing is installed, and several clusters
// can run side by side.
//
//	c, err := cluster.Up(ctx, cluster.Options{Nodes: 1})
//	...
//	defer c.Down(ctx)
//	… use c.Kubeconfig
//
// # What it is made of
//
// [Programs] builds Kubernetes and etcd from their Go modules (tools/kubernetes)
// as one executable, and unpacks containerd, runc and the CNI plugins from the
// distribution's packages, into the user's cache folder: minutes for the first
// time, nothing later.
//
// [Cluster.AddCSI] adds storage whose volumes grow, have snapshots and are cloned, in
// both modes: a CSI driver for tests (tools/csi/csidriver) on each node, and what
// Kubernetes runs beside one: external-provisioner, -attacher, -resizer and -snapshotter
// with the snapshot controller, built from their Go modules ([CSIPrograms]). It costs
// about 250 MB of memory and two seconds, so that a test asks for it that needs it.
// Volumes are of the storage class [CSIClass].
//
// # What it touches
//
// A cluster has a number, 0 to 9, the first that is free. It lives in the network
// namespace kube<N>, which [Cluster.Dial] and [Cluster.Kubectl] enter; each node
// has namespaces of its own besides (mount, network, process, host name, IPC),
// which end with their first process: ending it is a power cut. On the machine
// there are a cgroup for each node and a folder with all the cluster's state.
// [Cluster.Down] ends the processes by handles and removes the rest. Should the
// process that has started a cluster end without, as a killed test does, a guard does
// the same ([Guard]), unless the cluster is to outlive it.
// [Cluster.Expose] lets the machine in, and [Cluster.AddStorage] makes volumes, for
// people.
//
// It needs root, and Linux with cgroups of version 1 or 2, of which version 1 has
// been tried; it needs no CAP_SYS_RESOURCE.
//
// See docs/decisions/0032-cluster.md and docs/decisions/0112-csi.md.
package cluster
