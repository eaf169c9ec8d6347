package objects

import (
	"maps"

	metav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	v1 "vmop/api/v1"
)

// Labels of a VM's objects.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelComponent = "app.kubernetes.io/component"
)

// Values of the labels. LabelInstance has the VM's name.
const (
	AppName                = "vm-runner"
	ManagerName            = "vm-operator"
	ComponentRunner        = "vm-runner"      // pods
	ComponentDisplaySecret = "display-secret" // secrets with the password of a screen
)

// Annotations of a VM's objects.
const (
	// AnnotationVersion is the version of the manager that last wrote the object.
	AnnotationVersion = v1.GroupName + "/version"
	// AnnotationApplied is the hash of all that was applied but the manager's version.
	// An object with the same hash that has not been changed since needs no write.
	AnnotationApplied = v1.GroupName + "/applied"
	// AnnotationDefinition is what a pod was made from; see PodChanges.
	AnnotationDefinition = v1.GroupName + "/definition"
	// AnnotationTemplate of a pod is the hash of all that it was made from; see
	// Outdated.
	AnnotationTemplate = v1.GroupName + "/template"
	// AnnotationClass of a ConfigMap is what the VM has taken of its class for the
	// configuration in it; see class.Taken. It is absent without a class.
	AnnotationClass = v1.GroupName + "/class"
	// AnnotationTypeImage of a ConfigMap is the image, with its digest, whose VM types it has.
	AnnotationTypeImage = v1.GroupName + "/vmtype-image"
	// AnnotationDrives of a ConfigMap are the drives in it of disks that are attached while the guest
	// runs, with their revision; see Drives. It is absent if there have never been any.
	AnnotationDrives = v1.GroupName + "/drives"
	// AnnotationVM of what exports a disk is the VM that uses it, AnnotationAddress the address of
	// the Service, also in the Secret with the certificate for it.
	AnnotationVM      = v1.GroupName + "/vm"
	AnnotationAddress = v1.GroupName + "/address"
	// AnnotationImage of a pod that exports an image to a VM is the image's name.
	AnnotationImage = v1.GroupName + "/image"
	// AnnotationReceives of a pod is the migration (its operation's uid) for whose guest its runner waits, or has
	// waited.
	AnnotationReceives = v1.GroupName + "/receives"
	// AnnotationTaken lists which of the pod's labels and annotations are the
	// VM's; see PodPatch.
	AnnotationTaken = v1.GroupName + "/taken"
	// AnnotationUntrusted of a claim says why its files are not trusted: which image or
	// VM types have had its volume, or what it was filled with; see Distrust. The VM's
	// status has it, too, and the claim's record, from which no other user can remove it.
	AnnotationUntrusted = v1.GroupName + "/untrusted"
	// AnnotationToken of a claim is what proves that the manager has created it: the hash
	// is in the VM's status.
	AnnotationToken = v1.GroupName + "/token"
	// AnnotationGuestSince of a claim for a runner's data is since when the guest has been in the pod with it, if it
	// has come there by a migration: what the VM's status says of that may be lost.
	AnnotationGuestSince = v1.GroupName + "/guest-since"
	// AnnotationStorage of a claim is the size that it is known to have requested.
	AnnotationStorage = v1.GroupName + "/storage"
	// AnnotationKept of a claim is what it has where the VM asks for something else
	// that cannot change, by the field of the claim's spec, as JSON.
	AnnotationKept = v1.GroupName + "/kept"

	// AnnotationConfigVersion of a pod is the resourceVersion of the ConfigMap,
	// AnnotationPasswordVersion that of the display secret, AnnotationTypesVersion
	// that of the ConfigMap with VM types: when a pod changes, its kubelet brings
	// the files up to date at once.
	AnnotationConfigVersion   = "vmrunner.jdrupes.org/cmVersion"
	AnnotationPasswordVersion = "vmrunner.jdrupes.org/dpVersion"
	AnnotationTypesVersion    = "vmrunner.jdrupes.org/typesVersion"
	// AnnotationDataVersion is that of the Secrets from which the guest configures itself.
	AnnotationDataVersion = "vmrunner.jdrupes.org/dataVersion"
	// AnnotationDiskTLSVersion is that of the Secret by which the VM is a client of exports; a pod
	// that can be one begins with "0".
	AnnotationDiskTLSVersion = "vmrunner.jdrupes.org/diskTLSVersion"
)

// ManagerCA is the name of the Secret with the keys of the authorities that sign the manager's
// certificates, and of the ConfigMap with their certificates, which runners read.
const ManagerCA = "vm-operator-ca"

// anyAddress is every address of the pod.
const anyAddress = "0.0.0.0"

// ControlPort is the TCP port on which runners serve the manager, except in a node's network.
const ControlPort = 7443

// Places in the pod.
const (
	ConfigDir          = "/etc/opt/vmrunner"
	DataDir            = "/var/local/vm-data"
	ImageRepositoryDir = "/var/local/vmop-image-repository"
	VMTypesDir         = "/opt/vmrunner/vmtypes"
	RuntimeDir         = "/run/vmrunner"
	DiskDir            = "/var/local/vm-disks"  // disks on file systems, each in a folder
	DiskTLSDir         = "/etc/opt/vm-disk-tls" // certificates of a client of exports; empty before the first is used
)

// ServiceAccount is that of the pods. It is no setting: the admission policy in
// deploy holds this account to what a runner may do, and no other.
const ServiceAccount = "vm-runner"

// SchedulingGate keeps a pod from its start that must not be made as the definition
// says.
const SchedulingGate = v1.GroupName + "/held"

// ContainerName is the name of the pod's container.
const ContainerName = "runner"

// Labels returns the labels that all objects of a VM have, and by which they are
// found.
func Labels(vm *v1.VirtualMachine) map[string]string {
	return map[string]string{LabelName: AppName, LabelInstance: vm.Name, LabelManagedBy: ManagerName}
}

// with returns labels and another one.
func with(labels map[string]string, key, value string) map[string]string {
	more := maps.Clone(labels)
	more[key] = value
	return more
}

// kindVM is the kind of VMs.
const kindVM = "VirtualMachine"

// owner makes an object be deleted with the VM, and the VM stay until then if its deletion
// is to wait for that (--cascade=foreground).
func owner(vm *v1.VirtualMachine) *metav1.OwnerReferenceApplyConfiguration {
	return metav1.OwnerReference().
		WithAPIVersion(v1.GroupVersion().String()).WithKind(kindVM).
		WithName(vm.Name).WithUID(vm.UID).WithController(true).WithBlockOwnerDeletion(true)
}
