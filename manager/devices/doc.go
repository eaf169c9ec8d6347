// Package devices offers devices of a node to the pods on it, as a device plugin of the
// kubelet: a pod whose container has the limit "vmop/kvm: 1" has /dev/kvm, and needs no
// right for that.
//
//	/sys/class/misc/kvm ──▶ offer ──▶ …/device-plugins/vmop_kvm.sock ◀── the kubelet: list, allocate
//	                          │ └────▶ …/device-plugins/vmop-devices/vmop_kvm, of mode 0666: what pods get
//	                          └──────▶ …/device-plugins/kubelet.sock: register
//
// Each device has a loop of its own ([offer.run]), which looks every second at what there is,
// and does what is missing. So it makes no difference whether a device, the kubelet or this
// program was there first, or was away.
//
// A container gets a device with the owner and mode that its node has, and /dev/kvm often is
// for one group only, whose number differs between distributions. Therefore pods get a node
// that this package makes, with the same numbers; who may use the node of /dev stays as it is.
//
// See docs/decisions/0150-device-plugin.md.
package devices
