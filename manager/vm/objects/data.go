package objects

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// A DataSecret is a Secret with a guest's configuration data. Its content is only mounted as files in the pod. The
// manager doesn't read it.
//
// See docs/decisions/0094-secrets-of-guests.md.
type DataSecret struct {
	Field string // VM field: "spec.provisioning.userDataRef"
	Name  string
	Type  corev1.SecretType
	// Keys in the Secret, at least one of them, and the names of their files in the pod's ConfigDir.
	Keys  []string
	files []string
}

// Files in ConfigDir with the data of a guest.
const (
	userDataFile      = "cloud-init/user-data"
	networkConfigFile = "cloud-init/network-config"
	sysprepDirectory  = "sysprep"
)

// DataSecrets returns the Secrets that a VM names.
func DataSecrets(vm *v1.VirtualMachine) []DataSecret {
	var all []DataSecret
	cloudInit := func(field, name, key, file string) {
		all = append(all, DataSecret{field, name, v1.SecretTypeCloudInit, []string{key}, []string{file}})
	}
	if c := vm.Spec.CloudInit; c != nil {
		if from := c.UserDataFrom; from != nil {
			ref := from.SecretKeyRef
			cloudInit("spec.cloudInit.userDataFrom", ref.Name, ref.Key, userDataFile)
		}
		if from := c.NetworkDataFrom; from != nil {
			ref := from.SecretKeyRef
			cloudInit("spec.cloudInit.networkDataFrom", ref.Name, ref.Key, networkConfigFile)
		}
	}
	if p := vm.Spec.Provisioning; p != nil {
		if ref := p.UserDataRef; ref != nil {
			cloudInit("spec.provisioning.userDataRef", ref.Name, "userData", userDataFile)
		}
		if ref := p.SysprepRef; ref != nil {
			s := DataSecret{Field: "spec.provisioning.sysprepRef", Name: ref.Name, Type: v1.SecretTypeSysprep}
			for _, key := range []string{"unattend.xml", "autounattend.xml"} {
				s.Keys, s.files = append(s.Keys, key), append(s.files, path.Join(sysprepDirectory, key))
			}
			all = append(all, s)
		}
	}
	return all
}

// String describes the required Secret.
func (s DataSecret) String() string {
	return s.Field + ": Secret " + s.Name + " of the type " + string(s.Type) + " with the key " +
		strings.Join(s.Keys, " or ")
}

// volumeProjection mounts the files. A missing file must not prevent updates of the pod's other files, so the mount is
// optional and the runner reports missing files.
func (s DataSecret) volumeProjection() *applycorev1.VolumeProjectionApplyConfiguration {
	from := applycorev1.SecretProjection().WithName(s.Name).WithOptional(true)
	for i, key := range s.Keys {
		from.WithItems(applycorev1.KeyToPath().WithKey(key).WithPath(s.files[i]))
	}
	return applycorev1.VolumeProjection().WithSecret(from)
}
