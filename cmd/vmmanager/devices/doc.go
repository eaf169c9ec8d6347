// Package devices is a device plugin of the kubelet. It offers devices of a node to the pods on that node: a pod
// with a container that has the limit "vmop/kvm: 1" gets /dev/kvm without further rights.
//
//	/sys/class/misc/kvm ──▶ offer ──▶ …/device-plugins/vmop_kvm.sock ◀── the kubelet: list, allocate
//	                          │ └────▶ …/device-plugins/vmop-devices/vmop_kvm, of mode 0666: what pods get
//	                          └──────▶ …/device-plugins/kubelet.sock: register
//
// Each device has its own loop ([offer.run]). Every second, the loop checks the current state and performs the
// missing steps. So the device, the kubelet and this program can start in any order, and each can be restarted.
//
// A container gets a device with the owner and mode of the device's node. /dev/kvm often belongs to a group, with
// a number that differs between distributions. Therefore this package creates a separate node with the same
// device numbers for pods. The access rights of the node in /dev stay unchanged.
//
// See docs/decisions/0150-device-plugin.md.
package devices
