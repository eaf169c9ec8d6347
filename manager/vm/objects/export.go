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
	"vmop/diskimage/nbd"
	"vmop/manager/disk"
	"vmop/vmspec"
)

// An Export serves the claim of a disk to a running VM. It consists of three objects:
//
//   - a pod that mounts the claim, possibly on another node than the VM
//   - a Service with an address that stays when the pod is replaced
//   - a Secret with the server's certificate
//
// These objects have only rights and data that the VM's pod also has.
//
// The objects belong to the disk, not to an attachment or the VM, because a guest must not lose a disk when those
// are deleted. For an image each VM has a separate export, which belongs to the VM, since the image may be deleted
// while the VM uses it.
//
// See docs/decisions/0108-nbd-exports.md and docs/decisions/0159-images-attached-and-servers-awaited.md.
type Export struct {
	// Name of the three objects, a DNS label. Since pod names are unique, an export has at most one pod.
	Name, Namespace string
	// VM that uses the disk. The pod runs near the VM if possible.
	VM string
	// Claim of the disk. OnFileSystem is set if the disk is a file in its volume. A missing file is created with
	// Size.
	Claim string
	// Image identifies the image: the NAME of a VirtualImage, or KIND/NAME; "" for a disk.
	Image        string
	OnFileSystem bool
	Size         resource.Quantity
	ReadOnly     bool
	// Address of the Service. Before the Service exists, it is the address to request; "" leaves the choice to the
	// API server.
	Address string
	// Owner of the objects. They are deleted together with their owner.
	Owner *metav1.OwnerReferenceApplyConfiguration
}

// ExportName returns the name of a disk's export. A disk has at most one export at a time.
func ExportName(of string) string { return disk.ClaimName(of) }

// ExportOf returns the disk or image that a pod exports to a VM. It returns false if the pod doesn't belong to the
// manager's exports.
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

// textOf returns the text that an export records for its image: the name, for a ClusterVirtualImage preceded by its
// kind.
func textOf(image v1.AttachedDeviceRef) string {
	if image.Kind == v1.AttachedImage {
		return image.Name
	}
	return string(image.Kind) + "/" + image.Name
}

// imageCalled parses the recorded text of an image.
func imageCalled(text string) v1.AttachedDeviceRef {
	if kind, name, two := strings.Cut(text, "/"); two {
		return v1.AttachedDeviceRef{Kind: v1.AttachedDeviceKind(kind), Name: name}
	}
	return v1.AttachedDeviceRef{Kind: v1.AttachedImage, Name: text}
}

// NewImageExport returns the export of an image (disk.AsDisk) to a VM. Its name includes a hash of both UIDs, so
// another image with the same name has another export. The same image also has another export if it is referenced by
// its other name: the ClusterVirtualImage, or its stored copy.
func NewImageExport(ref v1.AttachedDeviceRef, image *v1.VirtualDisk, vm *v1.VirtualMachine) Export {
	text := string(vm.UID + "/" + image.UID)
	if ref.Kind != v1.AttachedImage {
		text += "/" + string(ref.Kind)
	}
	sum := sha256.Sum256([]byte(text))
	return Export{
		Name: fmt.Sprintf("vi-%.46s-%x", image.Name, sum[:5]), Namespace: vm.Namespace, VM: vm.Name,
		Claim: disk.ClaimOf(image), Image: textOf(ref), OnFileSystem: disk.OnFileSystem(image), ReadOnly: true,
		Owner: ownerReference(vm),
	}
}

// ExportAppName is the value of the label app.kubernetes.io/name of exports. It differs from the VMs' value, so that
// a VM's Service or StatefulSet doesn't select the pod.
const ExportAppName = "vm-disk-export"

const (
	exportTLSDir   = "/etc/opt/vmimport"
	exportDevice   = "/dev/disk"
	exportEndSecs  = 15 // longer than the server's own shutdown limit
	nbdPortName    = "nbd"
	terminationLog = "/dev/termination-log"
)

func (e Export) exportLabels() map[string]string {
	return map[string]string{LabelName: ExportAppName, LabelInstance: e.Name, LabelManagedBy: ManagerName}
}

func (e Export) exportAnnotations() map[string]string {
	all := map[string]string{AnnotationVM: e.VM, AnnotationAddress: e.Address}
	if e.Image != "" {
		all[AnnotationImage] = e.Image
	}
	return all
}

// ServerNames returns the export's DNS names for VMs. VMs can also use the Service's address.
func (e Export) ServerNames() []string {
	return []string{e.Name + "." + e.Namespace + ".svc", e.Name + "." + e.Namespace}
}

// Service returns the Service that connects a VM to the export. It publishes the pod as soon as the pod has an
// address. Otherwise the endpoints controller would often notice the ready pod only at its next attempt, a second
// later.
func (e Export) Service(s Settings) (*applycorev1.ServiceApplyConfiguration, error) {
	spec := applycorev1.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithSelector(e.exportLabels()).
		WithPublishNotReadyAddresses(true).
		WithPorts(applycorev1.ServicePort().WithName(nbdPortName).WithProtocol(corev1.ProtocolTCP).
			WithPort(nbd.Port).WithTargetPort(intstr.FromString(nbdPortName)))
	if e.Address != "" {
		spec.WithClusterIP(e.Address)
	}
	return stampHash(applycorev1.Service(e.Name, e.Namespace).WithLabels(e.exportLabels()).WithOwnerReferences(e.Owner).
		WithAnnotations(map[string]string{AnnotationVM: e.VM}).WithSpec(spec), s)
}

// Secret returns the Secret with a server certificate that the VM's authority has signed.
func (e Export) Secret(authority []byte, server nbd.Pair, s Settings) (
	*applycorev1.SecretApplyConfiguration, error,
) {
	return stampHash(applycorev1.Secret(e.Name,
		e.Namespace).WithLabels(e.exportLabels()).WithAnnotations(e.exportAnnotations()).
		WithOwnerReferences(e.Owner).
		WithType(corev1.SecretTypeOpaque).WithImmutable(true).WithData(map[string][]byte{
		nbd.CAFile: authority, nbd.ServerCertificateFile: server.Certificate,
		nbd.ServerKeyFile: server.Key,
	}), s)
}

// Pod returns the pod that serves the disk. It is ready when it accepts connections.
func (e Export) Pod(s Settings) (*applycorev1.PodApplyConfiguration, error) {
	none := &rights{}
	args := []string{
		"serve", "--name", e.Name, "--tls", exportTLSDir, "--address", "$(POD_IP)",
		"--port", strconv.Itoa(nbd.Port),
		"--log-format", "json", "--termination-log", terminationLog,
	}
	c := applycorev1.Container().WithName("export").WithImage(s.Image).WithCommand("/usr/local/bin/vmimport").
		WithEnv(fieldVariable("POD_IP", "status.podIP")).
		WithPorts(applycorev1.ContainerPort().WithName(nbdPortName).WithContainerPort(nbd.Port).
			WithProtocol(corev1.ProtocolTCP)).
		WithVolumeMounts(applycorev1.VolumeMount().WithName("tls").WithMountPath(exportTLSDir).WithReadOnly(true)).
		WithResources(applycorev1.ResourceRequirements().
			WithRequests(resourceQuantities("50m", "32Mi")).WithLimits(corev1.ResourceList{
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
		mount := applycorev1.VolumeMount().WithName("disk").WithMountPath(diskDir)
		args = append(args, "--disk", path.Join(diskDir, disk.FileName))
		if e.ReadOnly {
			mount.WithReadOnly(true)
		} else {
			size := vmspec.Bytes(e.Size.Value()).WholeMiB() // same size as in a VM's pod
			args = append(args, "--size", strconv.FormatInt(int64(size), 10))
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
		WithAffinity(e.exportAffinity()).WithVolumes(
		applycorev1.Volume().WithName("disk").WithPersistentVolumeClaim(claim),
		applycorev1.Volume().WithName("tls").WithSecret(
			applycorev1.SecretVolumeSource().WithSecretName(e.Name).WithDefaultMode(fileMode)))
	return stampHash(applycorev1.Pod(e.Name,
		e.Namespace).WithLabels(e.exportLabels()).WithAnnotations(e.exportAnnotations()).
		WithOwnerReferences(e.Owner).WithSpec(spec), s)
}

// exportAffinity prefers the VM's node, so that the disk's data stays off the network. The scheduler decides where the
// claim can be mounted.
func (e Export) exportAffinity() *applycorev1.AffinityApplyConfiguration {
	vm := metav1.LabelSelector().WithMatchLabels(map[string]string{
		LabelName: AppName, LabelInstance: e.VM, LabelComponent: ComponentRunner,
	})
	return applycorev1.Affinity().WithPodAffinity(applycorev1.PodAffinity().
		WithPreferredDuringSchedulingIgnoredDuringExecution(applycorev1.WeightedPodAffinityTerm().WithWeight(100).
			WithPodAffinityTerm(applycorev1.PodAffinityTerm().
				WithTopologyKey(corev1.LabelHostname).WithLabelSelector(vm))))
}

func resourceQuantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
}
