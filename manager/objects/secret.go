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

// Keys of a display secret, which are files in ConfigDir.
const (
	PasswordKey = "display-password"
	ExpiryKey   = "password-expiry"
)

// DisplaySecretLabels returns the labels by which a VM's display secret is found, whatever
// its name is and wherever it comes from.
func DisplaySecretLabels(vm *v1.VirtualMachine) map[string]string {
	return map[string]string{LabelName: AppName, LabelInstance: vm.Name, LabelComponent: ComponentDisplaySecret}
}

// DisplaySecretName returns which secret has the password of a VM's screen: among
// the existing ones with DisplaySecretLabels the first by name, else the one to be
// made, else "".
func DisplaySecretName(vm *v1.VirtualMachine, existing []string) (name string, missing bool) {
	switch {
	case len(existing) > 0:
		return slices.Min(existing), false
	case generatesSecret(vm):
		return DisplaySecretOf(vm.Name), true
	}
	return "", false
}

// DisplaySecretOf returns the name of the display secret that is made for a VM.
func DisplaySecretOf(vm string) string { return vm + "-display-secret" }

// generatesSecret reports whether there is a display that needs a password.
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

// passwordBytes of randomness make a password.
const passwordBytes = 16

// DisplaySecret returns a secret with a random password that has expired: no viewer can
// connect until a user sets another expiry. It is created once, and never applied again.
func DisplaySecret(vm *v1.VirtualMachine, s Settings, random io.Reader) (*applycorev1.SecretApplyConfiguration, error) {
	password := make([]byte, passwordBytes)
	if _, err := io.ReadFull(random, password); err != nil {
		return nil, fmt.Errorf("make a display password for %s: %w", vm.Name, err)
	}
	return applycorev1.Secret(DisplaySecretOf(vm.Name), vm.Namespace).
		WithLabels(with(DisplaySecretLabels(vm), LabelManagedBy, ManagerName)).
		WithAnnotations(map[string]string{AnnotationVersion: s.Version}).
		WithOwnerReferences(owner(vm)).WithType(corev1.SecretTypeOpaque).
		WithData(map[string][]byte{
			PasswordKey: []byte(base64.RawURLEncoding.EncodeToString(password)),
			ExpiryKey:   []byte("now"),
		}), nil
}
