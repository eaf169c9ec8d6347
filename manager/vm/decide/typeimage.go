package decide

import (
	"slices"

	"vmop/manager/vm/objects"
	"vmop/vmtypes/signature"
)

// TypeImage describes the next step for the image of a VM's type.
type TypeImage struct {
	// Reference to read from the registry; "" if reading isn't necessary.
	Reference string
	// Optional is set if the VM can use its existing types when the image can't be read.
	Optional bool
	// Remove is set if the status still contains the digest of an image that the VM no longer uses.
	Remove bool
	// Settled is set if the data read for this start is no longer needed.
	Settled bool
}

// NextTypeImage returns the next step for the image of a VM's type. A tag is resolved before each start, just as a
// changed ConfigMap takes effect with the next start, unless the VM keeps its type (spec.vmType.update). An error
// means that the image is not a valid reference.
//
// See docs/decisions/0151-types-in-registries.md.
func NextTypeImage(s *Snapshot) (next TypeImage, err error) {
	t, pin := s.VM.Spec.VMType, s.VM.Status.VMTypeImage
	if t.Image == "" || s.Class.waitsForClass() || objects.TypeImageFault(s.VM, s.Settings) != nil {
		return TypeImage{Remove: t.Image == "" && pin != nil, Settled: true}, nil
	}
	keeps := t.Update != nil && !*t.Update
	if pin == nil || pin.Image != t.Image {
		next.Reference, err = objects.TypeImageReference(t.Image, "")
		return next, err
	}
	if keeps && s.VM.Status.VMType != "" {
		return TypeImage{Settled: true}, nil // the runner has stored it
	}
	pinned, err := objects.TypeImageReference(t.Image, pin.Digest)
	if err != nil {
		return next, err
	}
	has := HasTypes(s.Types, pinned, s.Settings)
	starts := s.Wanted() && s.Other == nil && (s.Pod == nil || Terminating(s.Pod)) // about to be replaced
	switch {
	case starts && !keeps && !objects.IsDigest(t.Image):
		next.Reference, err = objects.TypeImageReference(t.Image, "")
		next.Optional = has
	case !has:
		next.Reference = pinned
	default:
		next.Settled = true
	}
	return next, err
}

// HasTypes reports whether a ConfigMap contains the VM types of an image. pinned is the image's reference with its
// digest. If the settings require signatures, one of their keys must have signed the image.
func HasTypes(types *objects.Metadata, pinned string, s objects.Settings) bool {
	if types == nil || types.DeletionTimestamp != nil || types.Annotations[objects.AnnotationTypeImage] != pinned {
		return false
	}
	return len(s.Trust.TypeKeys) == 0 || slices.ContainsFunc(s.Trust.TypeKeys, func(k signature.Key) bool {
		return k.Fingerprint() == types.Annotations[objects.AnnotationTypeSigner]
	})
}
