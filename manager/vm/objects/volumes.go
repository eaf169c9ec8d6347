package objects

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// runtimeSize limits the memory for sockets and cloud-init's disk.
const runtimeSize = "64Mi"

// fileMode lets the group of the volumes read configuration and password.
const fileMode = 0o440

// volumes are the volumes of a pod and their mounts, in the order in which they were added.
type volumes struct {
	volumes []*applycorev1.VolumeApplyConfiguration
	mounts  []*applycorev1.VolumeMountApplyConfiguration
	devices []*applycorev1.VolumeDeviceApplyConfiguration
}

// volumesOf returns the volumes of a VM's pod. claims are the result of Claims. secret is the name of the display
// secret, or empty.
func volumesOf(vm *v1.VirtualMachine, s Settings, r *rights, claims []Claim, secret string) *volumes {
	v := &volumes{}
	files := applycorev1.ProjectedVolumeSource().WithDefaultMode(fileMode).WithSources(
		applycorev1.VolumeProjection().WithConfigMap(applycorev1.ConfigMapProjection().WithName(vm.Name)))
	files.WithSources(applycorev1.VolumeProjection().WithConfigMap( // the manager may not have written it yet
		applycorev1.ConfigMapProjection().WithName(ManagerCA).WithOptional(true)))
	if secret != "" { // its owner may delete it at any time
		files.WithSources(applycorev1.VolumeProjection().WithSecret(
			applycorev1.SecretProjection().WithName(secret).WithOptional(true)))
	}
	for _, data := range DataSecrets(vm) {
		files.WithSources(data.volumeProjection())
	}
	v.addMount(applycorev1.Volume().WithName("config").WithProjected(files), configDir, true)
	v.addMount(applycorev1.Volume().WithName("runtime").WithEmptyDir(applycorev1.EmptyDirVolumeSource().
		WithMedium(corev1.StorageMediumMemory).WithSizeLimit(resource.MustParse(runtimeSize))), RuntimeDir, false)
	v.addMount(diskTLSVolume(vm), diskTLSDir, true)
	for _, c := range claims {
		v.mountClaim(c)
	}
	if s.ImageRepository != "" && usesRepository(vm) {
		v.addMount(applycorev1.Volume().WithName("image-repository").WithPersistentVolumeClaim(
			applycorev1.PersistentVolumeClaimVolumeSource().WithClaimName(s.ImageRepository).WithReadOnly(true),
		), ImageRepositoryDir, true)
	}
	if types := TypesConfigMap(vm, s); types != "" { // only the stock types without it
		v.addMount(applycorev1.Volume().WithName("vm-types").WithConfigMap(
			applycorev1.ConfigMapVolumeSource().WithName(types).WithOptional(true)), VMTypesDir, true)
	}
	for _, device := range r.devices {
		v.addMount(applycorev1.Volume().WithName(path.Base(device)).WithHostPath(
			applycorev1.HostPathVolumeSource().WithPath(device).WithType(corev1.HostPathCharDev)), device, false)
	}
	return v
}

func (v *volumes) mountClaim(c Claim) {
	source := applycorev1.PersistentVolumeClaimVolumeSource().WithClaimName(c.Name)
	if c.readOnly {
		source.WithReadOnly(true)
	}
	volume := applycorev1.Volume().WithName(c.Volume).WithPersistentVolumeClaim(source)
	if c.mount != "" {
		v.addMount(volume, c.mount, c.readOnly)
		return
	}
	v.volumes = append(v.volumes, volume)
	v.devices = append(v.devices, applycorev1.VolumeDevice().WithName(c.Volume).WithDevicePath("/dev/"+c.Volume))
}

func (v *volumes) addMount(volume *applycorev1.VolumeApplyConfiguration, at string, readOnly bool) {
	v.volumes = append(v.volumes, volume)
	mount := applycorev1.VolumeMount().WithName(*volume.Name).WithMountPath(at)
	if readOnly {
		mount.WithReadOnly(true)
	}
	v.mounts = append(v.mounts, mount)
}

// usesRepository reports whether a VM may need a file of the image repository. An empty CD drive can receive a
// medium while the VM is running.
func usesRepository(vm *v1.VirtualMachine) bool {
	return vm.Spec.VM.Kernel != nil || optionsNameFile(vm.Spec.VM.Options) ||
		slices.ContainsFunc(vm.Spec.VM.Disks, func(d v1.Disk) bool { return d.CDROM != nil })
}

// optionsNameFile reports whether a text in the options may name a file. Only the VM type knows which options are
// files, and the active VM type may be a kept type.
func optionsNameFile(options *runtime.RawExtension) bool {
	var value any
	return options != nil && json.Unmarshal(options.Raw, &value) == nil && hasFileName(value)
}

func hasFileName(value any) bool {
	switch v := value.(type) {
	case string:
		return strings.ContainsAny(v, "./")
	case []any:
		return slices.ContainsFunc(v, hasFileName)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasFileName)
	}
	return false
}

// TypesConfigMap returns the name of the ConfigMap with the custom types that a VM can use, or "" without custom
// types.
func TypesConfigMap(vm *v1.VirtualMachine, s Settings) string {
	if vm.Spec.VMType.Image != "" {
		return TypeImageName(vm.Name)
	}
	return cmp.Or(vm.Spec.VMType.ConfigMap, s.VMTypes)
}

// onFileSystem reports whether a disk is a file in its volume.
func onFileSystem(of *v1.VolumeClaimTemplate) bool {
	mode := of.Spec.VolumeMode
	return mode != nil && *mode == corev1.PersistentVolumeFilesystem
}
