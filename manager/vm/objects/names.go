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

// Values of the labels. LabelInstance contains the VM's name.
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
	// AnnotationApplied is the hash of the applied configuration without the manager's version. An object with the
	// same hash that has not been changed since needs no write.
	AnnotationApplied = v1.GroupName + "/applied"
	// AnnotationDefinition describes what a pod was created from; see PodChanges.
	AnnotationDefinition = v1.GroupName + "/definition"
	// annotationTemplate of a pod is the hash of everything that the pod was created from; see Outdated.
	annotationTemplate = v1.GroupName + "/template"
	// AnnotationClass of a ConfigMap records what the VM has taken from its class for this configuration; see
	// class.Taken. It is absent without a class.
	AnnotationClass = v1.GroupName + "/class"
	// AnnotationTypeImage of a ConfigMap is the image, with its digest, that contained the VM types.
	AnnotationTypeImage = v1.GroupName + "/vmtype-image"
	// AnnotationTypeSigner of such a ConfigMap is the fingerprint of the key that has signed the image.
	AnnotationTypeSigner = v1.GroupName + "/vmtype-signer"
	// AnnotationDrives of a ConfigMap contains the drives of disks attached while the guest runs, with their
	// revision; see Drives. It is absent if the VM has never had such drives.
	AnnotationDrives = v1.GroupName + "/drives"
	// AnnotationVM of an export's objects is the VM that uses the disk. AnnotationAddress is the address of the
	// Service; it is also set on the Secret with the certificate for this address.
	AnnotationVM      = v1.GroupName + "/vm"
	AnnotationAddress = v1.GroupName + "/address"
	// AnnotationImage of a pod that exports an image to a VM is the image's name.
	AnnotationImage = v1.GroupName + "/image"
	// AnnotationReceives of a pod is the UID of the migration's operation. The pod's runner waits, or has waited,
	// for the guest of this migration.
	AnnotationReceives = v1.GroupName + "/receives"
	// annotationTaken lists the pod's labels and annotations that come from the VM; see PodPatch.
	annotationTaken = v1.GroupName + "/taken"
	// AnnotationUntrusted of a claim is the reason why its files are not trusted: the image or VM types that have
	// used its volume, or its initial content; see Distrust. The VM's status also contains the reason, and so does
	// the claim's record, where other users can't remove it.
	AnnotationUntrusted = v1.GroupName + "/untrusted"
	// AnnotationToken of a claim proves that the manager has created it: the VM's status contains the hash.
	AnnotationToken = v1.GroupName + "/token"
	// AnnotationGuestSince of a claim for a runner's data is the time since which the guest has been in the claim's
	// pod, if it arrived there by a migration. The corresponding data in the VM's status may be lost.
	AnnotationGuestSince = v1.GroupName + "/guest-since"
	// AnnotationStorage of a claim is the size that it is known to have requested.
	AnnotationStorage = v1.GroupName + "/storage"
	// AnnotationKept of a claim lists immutable values that differ from the VM's request, by field of the claim's
	// spec, as JSON.
	AnnotationKept = v1.GroupName + "/kept"

	// The following annotations of a pod contain resourceVersions of mounted objects: AnnotationConfigVersion of the
	// ConfigMap, AnnotationPasswordVersion of the display secret, AnnotationTypesVersion of the ConfigMap with VM
	// types. When a pod changes, its kubelet updates the mounted files immediately.
	AnnotationConfigVersion   = "vmrunner.jdrupes.org/cmVersion"
	AnnotationPasswordVersion = "vmrunner.jdrupes.org/dpVersion"
	AnnotationTypesVersion    = "vmrunner.jdrupes.org/typesVersion"
	// AnnotationDataVersion is the version of the Secrets with the guest's configuration data.
	AnnotationDataVersion = "vmrunner.jdrupes.org/dataVersion"
	// AnnotationDiskTLSVersion is the version of the Secret that the VM uses as a client of exports. A pod that
	// supports exports starts with "0".
	AnnotationDiskTLSVersion = "vmrunner.jdrupes.org/diskTLSVersion"
)

// ManagerCA is the name of two objects: the Secret with the keys of the authorities that sign the manager's
// certificates, and the ConfigMap with their certificates, which runners read.
const ManagerCA = "vm-operator-ca"

// anyAddress binds to all addresses of the pod.
const anyAddress = "0.0.0.0"

// controlPort is the runners' TCP port for the manager, except in a node's network.
const controlPort = 7443

// Paths in the pod.
const (
	configDir          = "/etc/opt/vmrunner"
	DataDir            = "/var/local/vm-data"
	ImageRepositoryDir = "/var/local/vmop-image-repository"
	VMTypesDir         = "/opt/vmrunner/vmtypes"
	RuntimeDir         = "/run/vmrunner"
	diskDir            = "/var/local/vm-disks"  // disks on file systems, each in its own folder
	diskTLSDir         = "/etc/opt/vm-disk-tls" // client certificates for exports; initially empty
)

// ServiceAccount is the service account of the pods. It can't be configured, since the admission policy in deploy
// restricts only this account to what a runner may do.
const ServiceAccount = "vm-runner"

// SchedulingGate prevents a pod from starting if the definition must not be used.
const SchedulingGate = v1.GroupName + "/held"

// ContainerName is the name of the runner's container in the pod.
const ContainerName = "runner"

// Labels returns the common labels of all objects of a VM. The manager selects the objects by these labels.
func Labels(vm *v1.VirtualMachine) map[string]string {
	return map[string]string{LabelName: AppName, LabelInstance: vm.Name, LabelManagedBy: ManagerName}
}

// withEntry returns a copy of labels with an additional label.
func withEntry(labels map[string]string, key, value string) map[string]string {
	more := maps.Clone(labels)
	more[key] = value
	return more
}

// kindVM is the kind of VMs.
const kindVM = "VirtualMachine"

// ownerReference returns the owner reference that deletes an object with its VM. A VM deletion with
// --cascade=foreground waits for the object's deletion.
func ownerReference(vm *v1.VirtualMachine) *metav1.OwnerReferenceApplyConfiguration {
	return metav1.OwnerReference().
		WithAPIVersion(v1.GroupVersion().String()).WithKind(kindVM).
		WithName(vm.Name).WithUID(vm.UID).WithController(true).WithBlockOwnerDeletion(true)
}
