package objects

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// A DataSecret is a Secret from which a guest configures itself. Its content gets into the
// pod as files, and nowhere else: the manager doesn't read it.
//
// See docs/decisions/0094-secrets-of-guests.md.
type DataSecret struct {
	Field string // of the VM: "spec.provisioning.userDataRef"
	Name  string
	Type  corev1.SecretType
	// Keys, of which it must have one, and what their files are called in the pod's
	// ConfigDir.
	Keys  []string
	files []string
}

// Files in ConfigDir with the data of a guest.
const (
	userDataFile      = "cloud-init/user-data"
	networkConfigFile = "cloud-init/network-config"
	sysprepDirectory  = "sysprep"
)

// DataSecrets returns those that a VM names.
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

// String says what the Secret must be.
func (s DataSecret) String() string {
	return s.Field + ": Secret " + s.Name + " of the type " + string(s.Type) + " with the key " +
		strings.Join(s.Keys, " or ")
}

// projection mounts the files. What is missing must not keep the pod's other files from being
// updated, so it is the runner that reports it.
func (s DataSecret) projection() *applycorev1.VolumeProjectionApplyConfiguration {
	from := applycorev1.SecretProjection().WithName(s.Name).WithOptional(true)
	for i, key := range s.Keys {
		from.WithItems(applycorev1.KeyToPath().WithKey(key).WithPath(s.files[i]))
	}
	return applycorev1.VolumeProjection().WithSecret(from)
}
