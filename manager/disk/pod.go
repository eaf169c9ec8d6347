package disk

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A Place describes where the pods of a VM may run.
type Place struct {
	NodeSelector map[string]string
	Affinity     *corev1.Affinity
	Tolerations  []corev1.Toleration
	// Claims are the claims of the VM's disks. Their volumes must be created where one pod can mount all of them.
	Claims []string
}

// A Worker is the configuration that all import and export pods share.
type Worker struct {
	Image          string
	PullPolicy     corev1.PullPolicy
	ServiceAccount string // its token is not mounted
	Labels         map[string]string
	Gate           string // scheduling gate
	Authorities    string // ConfigMap with the manager's authorities
	NoPrivate      bool   // refuse sources at private addresses
}

const (
	containerName = "import"
	// annotationCA is the annotation of an import pod that contains the trusted authorities, in PEM format.
	annotationCA = v1.GroupName + "/ca-bundle"
	// ProgressPort is the TCP port at which an import pod answers GET /progress.
	ProgressPort = 8080
	// UploadSocket is the Unix socket at which an import pod accepts an upload from vmimport receive. Anyone with
	// permission to execute programs in pods can upload.
	UploadSocket = scratchFolder + "/upload.sock"
	// AnnotationKey is the annotation with the hash of the pod's public key (remote.KeyHash). Only pods with a data
	// port for the manager have it.
	AnnotationKey = v1.GroupName + "/key"

	program       = "/usr/local/bin/vmimport"
	targetDevice  = "/dev/target"
	targetFolder  = "/target"
	sourceDevice  = "/dev/source"
	sourceFolder  = "/source"
	scratchFolder = "/scratch"
	secretFolder  = "/etc/vmimport/secret"
	tlsFolder     = "/etc/vmimport/tls"
	caFolder      = "/etc/vmimport/ca"

	user      = 65532 // the runner's user, which uses the file later
	diskGroup = 6     // owns block devices
	// qemuGroup is the group of QEMU in KubeVirt (util.NonRootUID). It owns disk.img in KubeVirt's claims.
	qemuGroup = 107
	// deadline is the time limit of a pod in seconds. The import itself gives up after 6 hours.
	deadline = 23400
	// memoryLimit suffices for decompression and qemu-img.
	memoryLimit = "1Gi"
	// mebibyte is 1 MiB in bytes.
	mebibyte = 1 << 20
)

// Pod returns the pod that imports the data of a disk into its claim. It meets the Pod Security level "restricted", and
// can't start until its scheduling gate is removed. from is the source if the disk is a copy. near is where to create
// the volume; nil if the volume exists.
func Pod(d, from *v1.VirtualDisk, w Worker, near *Place) *corev1.Pod {
	pod, c := newPod(d, importPodOf(d), verbOf(d), w)
	c.Resources = podResources(d)
	b := builder{d, pod, &c, w.Authorities}
	b.addArguments(fmt.Sprintf("--listen=:%d", ProgressPort), "--scratch="+scratchFolder)
	to := b.mountTarget()
	if isCopy(d) {
		b.addArguments(b.mountOrigin(from), to)
	} else {
		b.addArguments("--target=" + to)
		if w.NoPrivate {
			b.addArguments("--no-private-addresses")
		}
		b.mountSource()
	}
	if near != nil {
		b.placeVolume(near)
	}
	pod.Spec.Containers = []corev1.Container{c}
	return pod
}

// newPod returns a pod that runs a verb of vmimport, and its container, without volumes.
func newPod(d *v1.VirtualDisk, name, verb string, w Worker) (*corev1.Pod, corev1.Container) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: d.Namespace, Labels: w.Labels,
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(d, v1.GroupVersion().WithKind(string(kindOf(d)))),
		},
	}}
	pod.OwnerReferences[0].BlockOwnerDeletion = nil // blocking would need permission on finalizers
	pod.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: new(int64(deadline)),
		ServiceAccountName: w.ServiceAccount, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		SchedulingGates: []corev1.PodSchedulingGate{{Name: w.Gate}},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)),
			FSGroup:            new(int64(user)),
			SupplementalGroups: []int64{diskGroup},
			SeccompProfile:     &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	return pod, corev1.Container{
		Name: containerName, Image: w.Image, ImagePullPolicy: w.PullPolicy, Command: []string{program},
		Args: []string{
			verb, "--log-format=json", "--termination-log=" + corev1.TerminationMessagePathDefault,
		},
		TerminationMessagePath: corev1.TerminationMessagePathDefault,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// scratchOf returns how much scratch space an import needs for an image that must be converted. It equals the maximum
// transfer for a disk of that size.
func scratchOf(d *v1.VirtualDisk) *resource.Quantity {
	size := d.Spec.PersistentVolumeClaim.Size.Value()
	return resource.NewQuantity(size+size/10+80*mebibyte, resource.BinarySI)
}

// podResources returns the resources of an import pod. The request for scratch is at most 1 GiB, as most images need
// little or none.
func podResources(d *v1.VirtualDisk) corev1.ResourceRequirements {
	scratch, requested := scratchOf(d), resource.NewQuantity(1<<30, resource.BinarySI)
	if scratch.Cmp(*requested) < 0 {
		requested = scratch
	}
	r := memoryAndCPU()
	r.Requests[corev1.ResourceEphemeralStorage] = *requested
	// 64 MiB more, for logs.
	r.Limits[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(scratch.Value()+64*mebibyte, resource.BinarySI)
	return r
}

func memoryAndCPU() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		},
		Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse(memoryLimit),
		},
	}
}

// builder completes a pod.
type builder struct {
	disk *v1.VirtualDisk
	pod  *corev1.Pod
	c    *corev1.Container

	authorities string // ConfigMap
}

func (b builder) addArguments(more ...string) { b.c.Args = append(b.c.Args, more...) }

func (b builder) addVolume(name string, source corev1.VolumeSource) {
	b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
}

// mountVolume adds a volume and mounts it.
func (b builder) mountVolume(name, at string, source corev1.VolumeSource) {
	b.addVolume(name, source)
	written := name == "target" || name == "scratch"
	b.c.VolumeMounts = append(b.c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at, ReadOnly: !written})
}

func claimSource(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// mountTarget adds the target and scratch volumes, and returns the path of the target.
func (b builder) mountTarget() string {
	b.mountVolume("scratch", scratchFolder, corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: scratchOf(b.disk)},
	})
	claim := claimSource(ClaimOf(b.disk))
	if !OnFileSystem(b.disk) {
		b.addVolume("target", claim)
		b.c.VolumeDevices = []corev1.VolumeDevice{{Name: "target", DevicePath: targetDevice}}
		return targetDevice
	}
	b.mountVolume("target", targetFolder, claim)
	size := b.disk.Spec.PersistentVolumeClaim.Size
	b.addArguments(fmt.Sprintf("--size=%d", size.Value()/mebibyte*mebibyte))
	return targetFolder + "/" + FileName
}

// mountOrigin adds the volume to copy, and returns its path.
func (b builder) mountOrigin(from *v1.VirtualDisk) string {
	if n := copyLength(from); n > 0 {
		b.addArguments(fmt.Sprintf("--length=%d", n))
	}
	claim := claimSource(ClaimOf(from))
	claim.PersistentVolumeClaim.ReadOnly = true
	if OnFileSystem(from) && isClaim(from) {
		groups := &b.pod.Spec.SecurityContext.SupplementalGroups
		*groups = append(*groups, qemuGroup)
	}
	if OnFileSystem(from) {
		b.mountVolume("source", sourceFolder, claim)
		return sourceFolder + "/" + FileName
	}
	b.addVolume("source", claim)
	b.c.VolumeDevices = append(b.c.VolumeDevices, corev1.VolumeDevice{Name: "source", DevicePath: sourceDevice})
	return sourceDevice
}

func verbOf(d *v1.VirtualDisk) string {
	if isCopy(d) {
		return "clone"
	}
	return "import"
}

// mountSource adds the source of the data.
func (b builder) mountSource() {
	from, secret := b.disk.Spec.DataSource, SecretOf(b.disk)
	var bundle []byte
	keys := []string{"username", "password"}
	switch {
	case from.Type == v1.DiskSourceUpload:
		b.addArguments("--upload")
		b.openPort()
	case from.HTTP != nil:
		b.addArguments("--url=" + from.HTTP.URL)
		bundle = from.HTTP.CABundle
		if sum := from.HTTP.Checksum; sum != nil {
			b.addArguments("--checksum=" + checksumText(sum))
		}
		if secret.Name != "" {
			b.addArguments("--auth-folder=" + secretFolder)
		}
	case from.ContainerImage != nil:
		b.addArguments("--image=" + from.ContainerImage.Image)
		bundle = from.ContainerImage.CABundle
		keys = []string{corev1.DockerConfigJsonKey}
		if secret.Name != "" {
			b.addArguments("--docker-config=" + secretFolder + "/" + corev1.DockerConfigJsonKey)
		}
	}
	if secret.Name != "" {
		// If a key is missing, the import reports it. If the Secret is missing, the pod waits, and is removed.
		source := &corev1.SecretVolumeSource{SecretName: secret.Name, Optional: new(true)}
		for _, key := range keys {
			source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
		}
		b.mountVolume("secret", secretFolder, corev1.VolumeSource{Secret: source})
	}
	if len(bundle) > 0 {
		b.pod.Annotations = map[string]string{annotationCA: string(bundle)}
		b.mountVolume("ca", caFolder, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "ca.pem",
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + annotationCA + "']"},
			}},
		}})
		b.addArguments("--ca-file=" + caFolder + "/ca.pem")
	}
}

// openPort makes the pod accept or send data at a socket, and at a port that only the manager can use. The Secret with
// the port's key is created before the pod can start.
//
// See docs/decisions/0158-files-through-pages.md.
func (b builder) openPort() {
	b.addArguments("--socket="+UploadSocket, "--tls="+tlsFolder)
	b.mountVolume("tls", tlsFolder, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o440)),
		Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: KeySecretOf(b.pod.Name)},
			}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: b.authorities}, Optional: new(true),
			}},
		},
	}})
}

// HasDoor reports whether the import pod receives its data as an upload: from the manager, or from a program executed
// in the pod.
func HasDoor(d *v1.VirtualDisk) bool {
	return d.Spec.DataSource != nil && d.Spec.DataSource.Type == v1.DiskSourceUpload
}

func checksumText(sum *v1.Checksum) string {
	switch {
	case sum.SHA512 != "":
		return "sha512:" + sum.SHA512
	case sum.SHA256 != "":
		return "sha256:" + sum.SHA256
	}
	return "md5:" + sum.MD5
}

// placeVolume makes the scheduler create the volume where the VM can run. The pod lists the claims of the VM's other
// disks, but no container mounts them: the scheduler considers them, and the kubelet ignores them.
func (b builder) placeVolume(near *Place) {
	spec := &b.pod.Spec
	spec.NodeSelector, spec.Affinity, spec.Tolerations = near.NodeSelector, near.Affinity, near.Tolerations
	for i, claim := range near.Claims {
		if claim != ClaimOf(b.disk) {
			b.addVolume(fmt.Sprintf("beside-%d", i), claimSource(claim))
		}
	}
}
