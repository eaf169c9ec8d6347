package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/vm/apply"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/fetch"
	"vmop/manager/vm/objects"
)

// typeImage copies the VM types from the image that a VM names to the place where its pod reads them. It reports
// whether it wrote an object, so that the VM is reconciled again. The verdict is nil if checkType can determine it.
func (c *reconciler) typeImage(ctx context.Context, s *decide.Snapshot, round *apply.Round) (
	written bool, verdict *decide.Verdict, did decide.Report,
) {
	next, err := decide.NextTypeImage(s)
	if next.Settled {
		c.types.Forget(s.VM.Name)
	}
	switch {
	case err != nil:
		verdict, did = typeStalled("spec.vmType.image: " + err.Error())
		return false, verdict, did
	case next.Remove:
		did.Err = round.NoTypeImage(ctx)
		return did.Err == nil, nil, did
	case next.Reference == "":
		return false, nil, did
	}
	t := s.VM.Spec.VMType
	request := fetch.Request{
		Reference: next.Reference, CABundle: t.CABundle, Keys: s.Settings.Trust.TypeKeys,
	}
	if t.ImagePullSecret != nil {
		request.Secret = t.ImagePullSecret.Name
	}
	result := c.types.Fetch(ctx, s.VM.Name, request)
	switch {
	case result.Pending:
		message := "spec.vmType.image: reading " + next.Reference
		did.Stop(decide.Waiting{Reason: decide.ReasonFetchingType, Message: message}, nil)
		return false, &decide.Verdict{
			Status: metav1.ConditionUnknown, Reason: decide.ReasonFetchingType, Message: message,
		}, did
	case result.Err != nil:
		did.RetryAt(result.Again)
		verdict, more := typeNotFetched(next, result)
		did.Append(more)
		return false, verdict, did
	}
	pinned, err := objects.TypeImageReference(t.Image, result.Digest)
	if err != nil {
		did.Stop(nil, err)
		return false, nil, did
	}
	pin := v1.VMTypeImage{Image: t.Image, Digest: result.Digest, Version: result.Version}
	if was := s.VM.Status.VMTypeImage; was != nil && was.Image == pin.Image && was.Digest == pin.Digest {
		pin.Version = cmp.Or(pin.Version, was.Version) // it was read by its digest
	}
	got := objects.FetchedTypes{Pinned: pinned, Signer: result.Signer, Modules: result.Modules}
	written, o, err := round.TypeImage(ctx, pin, got)
	did.Stop(o, err)
	if stalled, is := o.(decide.Stalled); is {
		verdict = &decide.Verdict{Status: metav1.ConditionFalse, Reason: stalled.Reason, Message: stalled.Message}
		return false, verdict, did
	}
	return written, nil, did
}

// typeNotFetched reports that a type could not be read from a registry.
func typeNotFetched(next decide.TypeImage, result fetch.Result) (*decide.Verdict, decide.Report) {
	var did decide.Report
	message := decide.Readable("spec.vmType.image: " + result.Err.Error())
	if next.Optional {
		did.Problem(decide.ReasonTypeNotFetched, message+"; the VM starts with what the image has meant before")
		return nil, did
	}
	if fetch.IsForGood(result.Err) {
		did.Stop(decide.Stalled{Reason: decide.ReasonTypeNotFetched, Message: message}, nil)
	} else {
		did.Stop(decide.Waiting{Reason: decide.ReasonTypeNotFetched, Message: message, Until: result.Again}, nil)
	}
	return &decide.Verdict{Status: metav1.ConditionFalse, Reason: decide.ReasonTypeNotFetched, Message: message}, did
}

func typeStalled(message string) (*decide.Verdict, decide.Report) {
	var did decide.Report
	did.Stop(decide.Stalled{Reason: decide.ReasonTypesMissing, Message: decide.Readable(message)}, nil)
	return &decide.Verdict{Status: metav1.ConditionFalse, Reason: decide.ReasonTypesMissing, Message: message}, did
}

// pullSecret returns the registry credentials in a Secret. Secrets of other types are never sent to a registry,
// since a user who may write VMs isn't necessarily allowed to read Secrets.
func (c *reconciler) pullSecret(ctx context.Context, name string) ([]byte, error) {
	var secret corev1.Secret
	key := types.NamespacedName{Namespace: c.opts.Namespace, Name: name}
	if err := c.live.Get(ctx, key, &secret); err != nil {
		return nil, fmt.Errorf("read the Secret: %w", err)
	}
	if secret.Type != corev1.SecretTypeDockerConfigJson {
		return nil, errors.New("must be a Secret of the type " + string(corev1.SecretTypeDockerConfigJson))
	}
	return secret.Data[corev1.DockerConfigJsonKey], nil
}
