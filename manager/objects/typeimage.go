package objects

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// typesSuffix is the end of the name of a ConfigMap that has the VM types of an image.
const typesSuffix = ".vmtype"

// mostTypes is how many bytes of VM types a ConfigMap can have beside its metadata.
const mostTypes = 1<<20 - 16<<10

// TypeImageName returns the name of the ConfigMap with the VM types that a VM has of an image. No
// VM has a name with a dot.
func TypeImageName(vm string) string { return vm + typesSuffix }

// UserOfTypeImage returns the VM to which a ConfigMap of such a name belongs.
func UserOfTypeImage(configMap string) (vm string, is bool) {
	return strings.CutSuffix(configMap, typesSuffix)
}

// TypeImageFault returns why VM types are not taken from the image that a VM names; nil if they are,
// or it names none. What is not listed is not asked for: the manager would be led to any server.
//
// See docs/decisions/0151-types-in-registries.md.
func TypeImageFault(vm *v1.VirtualMachine, s Settings) *Problem {
	image := vm.Spec.VMType.Image
	trusted := func(p ImagePattern) bool { return p.matches(image) }
	if image == "" || slices.ContainsFunc(s.Trust.TypeImages, trusted) {
		return nil
	}
	return &Problem{Path: "spec.vmType.image", Fatal: true, Message: fmt.Sprintf("VM types are not taken from %s; ask "+
		"the administrator to add its repository to trustedVMTypeImages in the manager's configuration", image)}
}

// TypeImageReference returns the image of a VM's types, or of a digest of it that is not "", in its
// full form, which has but one reading.
func TypeImageReference(image, digest string) (string, error) {
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return "", fmt.Errorf("%q: %w", image, err)
	}
	if digest != "" {
		return named.Name() + "@" + digest, nil
	}
	return named.String(), nil
}

// IsDigest reports whether an image can have only one meaning.
func IsDigest(image string) bool { return strings.Contains(image, "@") }

// pinnedTypes returns the image of a VM's types, with its digest if that is known; "" without one.
func pinnedTypes(vm *v1.VirtualMachine) string {
	image, pin := vm.Spec.VMType.Image, vm.Status.VMTypeImage
	if pin != nil && pin.Image == image {
		if pinned, err := TypeImageReference(image, pin.Digest); err == nil {
			return pinned
		}
	}
	return image
}

// TypeImageConfigMap returns the ConfigMap with the VM types of an image: pinned is its
// reference with the digest, modules are the texts by their file names.
func TypeImageConfigMap(vm *v1.VirtualMachine, s Settings, pinned string, modules map[string]string) (
	*corev1.ConfigMapApplyConfiguration, error,
) {
	size := 0
	for name, text := range modules {
		size += len(name) + len(text)
	}
	switch {
	case size > mostTypes:
		return nil, fmt.Errorf("its modules have %d bytes; the most that a ConfigMap can have are %d", size, mostTypes)
	case len(modules) == 0:
		return nil, errors.New("it has no modules")
	}
	return stamp(corev1.ConfigMap(TypeImageName(vm.Name), vm.Namespace).
		WithLabels(Labels(vm)).WithOwnerReferences(owner(vm)).WithData(modules).
		WithAnnotations(map[string]string{AnnotationTypeImage: pinned}), s)
}
