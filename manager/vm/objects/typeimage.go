package objects

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
	"vmop/vmtypes/artifact/versions"
)

// typesSuffix is the suffix of the name of a ConfigMap with the VM types of an image.
const typesSuffix = ".vmtype"

// mostTypes is the maximum size of the VM types in a ConfigMap, in bytes, excluding its metadata.
const mostTypes = 1<<20 - 16<<10

// TypeImageName returns the name of the ConfigMap with the VM types from a VM's image. It is unique, since names of
// VMs contain no dot.
func TypeImageName(vm string) string { return vm + typesSuffix }

// UserOfTypeImage returns the VM that a ConfigMap with such a name belongs to.
func UserOfTypeImage(configMap string) (vm string, is bool) {
	return strings.CutSuffix(configMap, typesSuffix)
}

// TypeImageFault returns why VM types must not be read from the image that a VM names. It returns nil if they may be
// read, or the VM names no image. The manager doesn't connect to unlisted registries, because otherwise users could
// direct it to any server.
//
// See docs/decisions/0151-types-in-registries.md.
func TypeImageFault(vm *v1.VirtualMachine, s Settings) *Problem {
	image := vm.Spec.VMType.Image
	trusted := func(p ImagePattern) bool { return p.matchesImage(image) }
	if image == "" || slices.ContainsFunc(s.Trust.TypeImages, trusted) {
		return nil
	}
	return &Problem{Path: "spec.vmType.image", Fatal: true, Message: fmt.Sprintf("VM types are not taken from %s; ask "+
		"the administrator to add its repository to trustedVMTypeImages in the manager's configuration", image)}
}

// TypeImageReference returns the full, unambiguous reference to the image of a VM's types. A non-empty digest
// replaces the image's tag or range of versions.
func TypeImageReference(image, digest string) (string, error) {
	repository, within := versions.Cut(image)
	named, err := reference.ParseDockerRef(repository)
	if err == nil && within != "" {
		err = versions.Check(within)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("%q: %w", image, err)
	case digest != "":
		return named.Name() + "@" + digest, nil
	case within != "":
		return named.Name() + ":" + within, nil
	}
	return named.String(), nil
}

// IsDigest reports whether an image includes a digest, so that its content is fixed.
func IsDigest(image string) bool { return strings.Contains(image, "@") }

// pinnedTypes returns the image of a VM's types, with its digest if it is known, or "" without an image.
func pinnedTypes(vm *v1.VirtualMachine) string {
	image, pin := vm.Spec.VMType.Image, vm.Status.VMTypeImage
	if pin != nil && pin.Image == image {
		if pinned, err := TypeImageReference(image, pin.Digest); err == nil {
			return pinned
		}
	}
	return image
}

// FetchedTypes are the VM types of an image.
type FetchedTypes struct {
	// Pinned is the image's reference with its digest.
	Pinned string
	// Signer is the fingerprint of the key that has signed the image; "" if no signature was required.
	Signer string
	// Modules are the source texts by file name.
	Modules map[string]string
}

// TypeImageConfigMap returns the ConfigMap with the VM types of an image.
func TypeImageConfigMap(vm *v1.VirtualMachine, s Settings, t FetchedTypes) (
	*corev1.ConfigMapApplyConfiguration, error,
) {
	size := 0
	for name, text := range t.Modules {
		size += len(name) + len(text)
	}
	switch {
	case size > mostTypes:
		return nil, fmt.Errorf("its modules have %d bytes; the most that a ConfigMap can have are %d", size, mostTypes)
	case len(t.Modules) == 0:
		return nil, errors.New("it has no modules")
	}
	annotations := map[string]string{AnnotationTypeImage: t.Pinned}
	if t.Signer != "" {
		annotations[AnnotationTypeSigner] = t.Signer
	}
	return stampHash(corev1.ConfigMap(TypeImageName(vm.Name), vm.Namespace).
		WithLabels(Labels(vm)).WithOwnerReferences(ownerReference(vm)).WithData(t.Modules).
		WithAnnotations(annotations), s)
}
