package decide

import (
	"vmop/manager/objects"
)

// A TypeImage says what is next with the image of a VM's type.
type TypeImage struct {
	// Reference is what is to be read from the registry; "" if that needs not be.
	Reference string
	// Optional: the types that the VM has will do if it can't be read.
	Optional bool
	// Remove is set if the status has what an image meant that the VM has no more.
	Remove bool
	// Settled: what was read for this start is of no use any more.
	Settled bool
}

// NextTypeImage returns what is next with the image of a VM's type. What a tag means is looked up
// before each start, as a changed ConfigMap counts from the next one, unless the VM keeps its
// type (spec.vmType.update). An error means that the image is no reference.
//
// See docs/decisions/0151-types-in-registries.md.
func NextTypeImage(s *Snapshot) (next TypeImage, err error) {
	t, pin := s.VM.Spec.VMType, s.VM.Status.VMTypeImage
	if t.Image == "" || s.Class.waits() || objects.TypeImageFault(s.VM, s.Settings) != nil {
		return TypeImage{Remove: t.Image == "" && pin != nil, Settled: true}, nil
	}
	keeps := t.Update != nil && !*t.Update
	if pin == nil || pin.Image != t.Image {
		next.Reference, err = objects.TypeImageReference(t.Image, "")
		return next, err
	}
	if keeps && s.VM.Status.VMType != "" {
		return TypeImage{Settled: true}, nil // the runner has it
	}
	pinned, err := objects.TypeImageReference(t.Image, pin.Digest)
	if err != nil {
		return next, err
	}
	has := HasTypes(s.Types, pinned)
	starts := s.Wanted() && s.Other == nil && (s.Pod == nil || Terminating(s.Pod)) // its successor follows at once
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

// HasTypes reports whether a ConfigMap has the VM types of an image, which is named with its digest.
func HasTypes(types *objects.Metadata, pinned string) bool {
	return types != nil && types.DeletionTimestamp == nil && types.Annotations[objects.AnnotationTypeImage] == pinned
}
