package objects

import (
	"encoding/base64"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// Keys of a display secret, which are file names in ConfigDir.
const (
	PasswordKey = "display-password"
	expiryKey   = "password-expiry"
)

// DisplaySecretLabels returns the labels that identify a VM's display secret, regardless of its name and creator.
func DisplaySecretLabels(vm *v1.VirtualMachine) map[string]string {
	return map[string]string{LabelName: AppName, LabelInstance: vm.Name, LabelComponent: ComponentDisplaySecret}
}

// DisplaySecretName returns the name of the secret with the password of a VM's display: the first name among the
// existing secrets with DisplaySecretLabels, otherwise the name of the secret to create, or "" if the VM needs no
// password.
func DisplaySecretName(vm *v1.VirtualMachine, existing []string) (name string, missing bool) {
	switch {
	case len(existing) > 0:
		return slices.Min(existing), false
	case generatesSecret(vm):
		return DisplaySecretOf(vm.Name), true
	}
	return "", false
}

// DisplaySecretOf returns the name of the display secret that the manager creates for a VM.
func DisplaySecretOf(vm string) string { return vm + "-display-secret" }

// generatesSecret reports whether the VM has a display that needs a password.
func generatesSecret(vm *v1.VirtualMachine) bool {
	d := vm.Spec.VM.Display
	switch {
	case d == nil:
		return false
	case d.Spice != nil:
		return d.Spice.GenerateSecret == nil || *d.Spice.GenerateSecret
	}
	return d.VNC != nil
}

// passwordBytes is the number of random bytes in a password.
const passwordBytes = 16

// DisplaySecret returns a secret with a random password that has expired: viewers can connect only after a user has
// set another expiry. The secret is created once, and never applied again.
func DisplaySecret(vm *v1.VirtualMachine, s Settings, random io.Reader) (*applycorev1.SecretApplyConfiguration, error) {
	password := make([]byte, passwordBytes)
	if _, err := io.ReadFull(random, password); err != nil {
		return nil, fmt.Errorf("make a display password for %s: %w", vm.Name, err)
	}
	return applycorev1.Secret(DisplaySecretOf(vm.Name), vm.Namespace).
		WithLabels(withEntry(DisplaySecretLabels(vm), LabelManagedBy, ManagerName)).
		WithAnnotations(map[string]string{AnnotationVersion: s.Version}).
		WithOwnerReferences(ownerReference(vm)).WithType(corev1.SecretTypeOpaque).
		WithData(map[string][]byte{
			PasswordKey: []byte(base64.RawURLEncoding.EncodeToString(password)),
			expiryKey:   []byte("now"),
		}), nil
}
