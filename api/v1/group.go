package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group.
const GroupName = "vmoperator.jdrupes.org"

// GroupVersion returns the group and version of this package's resources.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1"}
}

// AddToScheme registers the resources with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &VirtualMachine{}, &VirtualMachineList{},
		&VirtualMachineOperation{}, &VirtualMachineOperationList{},
		&VirtualMachineIPAddress{}, &VirtualMachineIPAddressList{},
		&VirtualMachineIPAddressLease{}, &VirtualMachineIPAddressLeaseList{},
		&VirtualMachineClass{}, &VirtualMachineClassList{},
		&VirtualDisk{}, &VirtualDiskList{}, &VirtualDiskSnapshot{}, &VirtualDiskSnapshotList{},
		&VirtualImage{}, &VirtualImageList{}, &ClusterVirtualImage{}, &ClusterVirtualImageList{},
		&VirtualMachineSnapshot{}, &VirtualMachineSnapshotList{},
		&VirtualMachineBlockDeviceAttachment{}, &VirtualMachineBlockDeviceAttachmentList{},
		&VmPool{}, &VmPoolList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
