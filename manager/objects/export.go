package objects

import (
	"crypto/sha256"
	"fmt"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apimeta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	metav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/nbdexport"
)

// An Export serves the claim of a disk to a VM that is running: a pod that has the claim, a
// Service, whose address stays when the pod is another one, and a Secret with the server's
// certificate. They have nothing that the VM's pod doesn't have, and may be on another node.
//
// They belong to the disk, and not to an attachment or the VM: what a guest has must not end with
// those. Of an image each VM has an export of its own, which belongs to the VM: the image may be deleted meanwhile.
//
// See docs/decisions/0108-nbd-exports.md and docs/decisions/0159-images-attached-and-servers-awaited.md.
type Export struct {
	// Name of the three objects, a DNS label. As there is one pod of a name at a time, there is one
	// of an export.
	Name, Namespace string
	// VM is the one that uses the disk: the pod is near it if it can be.
	VM string
	// Claim is that of the disk. OnFileSystem: the disk is a file in its volume, and is made, of
	// Size, if there is none.
	Claim string
	// Image names the image: KIND/NAME, of a VirtualImage NAME; "" for a disk.
	Image        string
	OnFileSystem bool
	Size         resource.Quantity
	ReadOnly     bool
	// Address is that of the Service. Before there is one, it is what it is to be; "" leaves that to
	// the API server.
	Address string
	// Owner is what the objects are deleted with.
	Owner *metav1.OwnerReferenceApplyConfiguration
}

// ExportName returns the name of the export of a disk, of which there is one at a time.
func ExportName(of string) string { return disk.ClaimName(of) }

// ExportOf returns the disk or image that a pod exports to a VM; false: it is none of the manager's exports.
func ExportOf(pod apimeta.Object) (ref v1.AttachedDeviceRef, is bool) {
	owner, annotations := apimeta.GetControllerOfNoCopy(pod), pod.GetAnnotations()
	switch image := annotations[AnnotationImage]; {
	case owner == nil:
	case owner.Kind == string(v1.KindVirtualDisk) && ExportName(owner.Name) == pod.GetName():
		return v1.AttachedDeviceRef{Kind: v1.AttachedDisk, Name: owner.Name}, true
	case owner.Kind == kindVM && owner.Name == annotations[AnnotationVM] && image != "":
		return imageCalled(image), true
	}
	return ref, false
}

// NewExport returns the export of a disk to a VM.
func NewExport(d *v1.VirtualDisk, vm string) Export {
	return Export{
		Name: ExportName(d.Name), Namespace: d.Namespace, VM: vm, Claim: disk.ClaimOf(d),
		OnFileSystem: disk.OnFileSystem(d), Size: disk.Size(d),
		Owner: metav1.OwnerReference().WithAPIVersion(v1.GroupVersion().String()).
			WithKind(string(v1.KindVirtualDisk)).WithName(d.Name).WithUID(d.UID).WithController(true),
	}
}

// textOf returns what an export notes of its image: the name, of a ClusterVirtualImage behind its kind.
func textOf(image v1.AttachedDeviceRef) string {
	if image.Kind == v1.AttachedImage {
		return image.Name
	}
	return string(image.Kind) + "/" + image.Name
}

// imageCalled returns the image that an export has noted.
func imageCalled(text string) v1.AttachedDeviceRef {
	if kind, name, two := strings.Cut(text, "/"); two {
		return v1.AttachedDeviceRef{Kind: v1.AttachedDeviceKind(kind), Name: name}
	}
	return v1.AttachedDeviceRef{Kind: v1.AttachedImage, Name: text}
}

// NewImageExport returns the export of an image (disk.AsDisk) to a VM. Its name has the uids of both: another image of
// the same name is another export. So is that of the same image by its other name: that of a ClusterVirtualImage, or of
// what is stored of it.
func NewImageExport(ref v1.AttachedDeviceRef, image *v1.VirtualDisk, vm *v1.VirtualMachine) Export {
	text := string(vm.UID + "/" + image.UID)
	if ref.Kind != v1.AttachedImage {
		text += "/" + string(ref.Kind)
	}
	sum := sha256.Sum256([]byte(text))
	return Export{
		Name: fmt.Sprintf("vi-%.46s-%x", image.Name, sum[:5]), Namespace: vm.Namespace, VM: vm.Name,
		Claim: disk.ClaimOf(image), Image: textOf(ref), OnFileSystem: disk.OnFileSystem(image), ReadOnly: true,
		Owner: owner(vm),
	}
}

// ExportAppName is the value of the label app.kubernetes.io/name of exports. It is another one than
// that of VMs: no Service or StatefulSet of a VM takes the pod for its own.
const ExportAppName = "vm-disk-export"

const (
	exportTLSDir   = "/etc/opt/vmimport"
	exportDevice   = "/dev/disk"
	exportEndSecs  = 15 // longer than the server gets to end
	nbdPortName    = "nbd"
	terminationLog = "/dev/termination-log"
)

func (e Export) labels() map[string]string {
	return map[string]string{LabelName: ExportAppName, LabelInstance: e.Name, LabelManagedBy: ManagerName}
}

func (e Export) annotations() map[string]string {
	all := map[string]string{AnnotationVM: e.VM, AnnotationAddress: e.Address}
	if e.Image != "" {
		all[AnnotationImage] = e.Image
	}
	return all
}

// ServerNames are the names by which a VM reaches the export. The Service's address is another.
func (e Export) ServerNames() []string {
	return []string{e.Name + "." + e.Namespace + ".svc", e.Name + "." + e.Namespace}
}

// Service returns the Service by which a VM reaches the export. It knows the pod as soon as that has an address: what
// makes its endpoints sees often that the pod is ready, just after, only at its next attempt, a second later.
func (e Export) Service(s Settings) (*applycorev1.ServiceApplyConfiguration, error) {
	spec := applycorev1.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithSelector(e.labels()).
		WithPublishNotReadyAddresses(true).
		WithPorts(applycorev1.ServicePort().WithName(nbdPortName).WithProtocol(corev1.ProtocolTCP).
			WithPort(nbdexport.Port).WithTargetPort(intstr.FromString(nbdPortName)))
	if e.Address != "" {
		spec.WithClusterIP(e.Address)
	}
	return stamp(applycorev1.Service(e.Name, e.Namespace).WithLabels(e.labels()).WithOwnerReferences(e.Owner).
		WithAnnotations(map[string]string{AnnotationVM: e.VM}).WithSpec(spec), s)
}

// Secret returns the Secret with a certificate of the server that the VM's authority has signed.
func (e Export) Secret(authority []byte, server nbdexport.Pair, s Settings) (
	*applycorev1.SecretApplyConfiguration, error,
) {
	return stamp(applycorev1.Secret(e.Name, e.Namespace).WithLabels(e.labels()).WithAnnotations(e.annotations()).
		WithOwnerReferences(e.Owner).
		WithType(corev1.SecretTypeOpaque).WithImmutable(true).WithData(map[string][]byte{
		nbdexport.CAFile: authority, nbdexport.ServerCertificateFile: server.Certificate,
		nbdexport.ServerKeyFile: server.Key,
	}), s)
}

// Pod returns the pod that serves the disk. It is ready when it does.
func (e Export) Pod(s Settings) (*applycorev1.PodApplyConfiguration, error) {
	none := &rights{}
	args := []string{
		"serve", "--name", e.Name, "--tls", exportTLSDir, "--address", "$(POD_IP)",
		"--port", strconv.Itoa(nbdexport.Port),
		"--log-format", "json", "--termination-log", terminationLog,
	}
	c := applycorev1.Container().WithName("export").WithImage(s.Image).WithCommand("/usr/local/bin/vmimport").
		WithEnv(field("POD_IP", "status.podIP")).
		WithPorts(applycorev1.ContainerPort().WithName(nbdPortName).WithContainerPort(nbdexport.Port).
			WithProtocol(corev1.ProtocolTCP)).
		WithVolumeMounts(applycorev1.VolumeMount().WithName("tls").WithMountPath(exportTLSDir).WithReadOnly(true)).
		WithResources(applycorev1.ResourceRequirements().
			WithRequests(quantities("50m", "32Mi")).WithLimits(corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse("256Mi"),
		})).
		WithReadinessProbe(applycorev1.Probe().WithPeriodSeconds(1).
			WithTCPSocket(applycorev1.TCPSocketAction().WithPort(intstr.FromString(nbdPortName)))).
		WithSecurityContext(none.containerSecurity())
	if s.ImagePullPolicy != "" {
		c.WithImagePullPolicy(s.ImagePullPolicy)
	}
	claim := applycorev1.PersistentVolumeClaimVolumeSource().WithClaimName(e.Claim)
	if e.ReadOnly {
		claim.WithReadOnly(true)
	}
	if e.OnFileSystem {
		mount := applycorev1.VolumeMount().WithName("disk").WithMountPath(DiskDir)
		args = append(args, "--disk", path.Join(DiskDir, disk.FileName))
		if e.ReadOnly {
			mount.WithReadOnly(true)
		} else {
			args = append(args, "--size", strconv.FormatInt(int64(wholeMiB(e.Size)), 10)) // as a VM makes it
		}
		c.WithVolumeMounts(mount)
	} else {
		c.WithVolumeDevices(applycorev1.VolumeDevice().WithName("disk").WithDevicePath(exportDevice))
		args = append(args, "--disk", exportDevice)
	}
	if e.ReadOnly {
		args = append(args, "--read-only")
	}
	spec := applycorev1.PodSpec().WithContainers(c.WithArgs(args...)).WithRestartPolicy(corev1.RestartPolicyAlways).
		WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(exportEndSecs).WithSecurityContext(none.podSecurity()).
		WithAffinity(e.affinity()).WithVolumes(
		applycorev1.Volume().WithName("disk").WithPersistentVolumeClaim(claim),
		applycorev1.Volume().WithName("tls").WithSecret(
			applycorev1.SecretVolumeSource().WithSecretName(e.Name).WithDefaultMode(fileMode)))
	return stamp(applycorev1.Pod(e.Name, e.Namespace).WithLabels(e.labels()).WithAnnotations(e.annotations()).
		WithOwnerReferences(e.Owner).WithSpec(spec), s)
}

// affinity prefers the VM's node: what is written there stays off the network. Where the claim can
// be is left to the scheduler.
func (e Export) affinity() *applycorev1.AffinityApplyConfiguration {
	vm := metav1.LabelSelector().WithMatchLabels(map[string]string{
		LabelName: AppName, LabelInstance: e.VM, LabelComponent: ComponentRunner,
	})
	return applycorev1.Affinity().WithPodAffinity(applycorev1.PodAffinity().
		WithPreferredDuringSchedulingIgnoredDuringExecution(applycorev1.WeightedPodAffinityTerm().WithWeight(100).
			WithPodAffinityTerm(applycorev1.PodAffinityTerm().
				WithTopologyKey(corev1.LabelHostname).WithLabelSelector(vm))))
}

func quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
}
