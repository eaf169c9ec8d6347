package vm

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/objects"
)

// patchPod brings what can reach a running pod there: labels and annotations of the
// VM, and the versions of the files it mounts, which makes the kubelet bring them up
// to date at once.
func (c *reconciler) patchPod(ctx context.Context, v *visit) (outcome, error) {
	const what = "Pod"
	if v.pod == nil || terminating(v.pod) || v.decision.replace != "" {
		return nil, nil
	}
	if last, _ := v.memory.written.of(what); versionOf(v.pod) < last.version {
		return nil, nil // it has been patched, and comes again
	}
	patch, err := objects.PodPatch(v.vm, &v.pod.ObjectMeta, v.fileVersions())
	if err != nil || patch == nil || !c.mayWrite(v) {
		return nil, err
	}
	pod := v.pod.DeepCopy()
	err = c.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch), managerWriter)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return refused(err), fmt.Errorf("patch pod %s: %w", v.pod.Name, err)
	}
	v.memory.written.note(what, written{version: versionOf(pod), at: v.now})
	return nil, nil
}

// fileVersions returns the versions of the mounted files that the pod's kubelet may
// not know: those that have been written since there is the pod.
func (v *visit) fileVersions() map[string]string {
	versions := map[string]string{}
	v.fileVersion(versions, objects.AnnotationConfigVersion, v.configMap)
	if v.configured { // a moment ago
		last, _ := v.memory.written.of(configMapKind.String())
		versions[objects.AnnotationConfigVersion] = strconv.FormatUint(last.version, 10)
	}
	v.fileVersion(versions, objects.AnnotationTypesVersion, v.types)
	for i := range v.secrets {
		if v.secrets[i].Name == v.secret {
			v.fileVersion(versions, objects.AnnotationPasswordVersion, &v.secrets[i])
		}
	}
	return versions
}

func (v *visit) fileVersion(versions map[string]string, annotation string, of *metav1.PartialObjectMetadata) {
	if of == nil {
		return
	}
	known := v.pod.Annotations[annotation]
	if known != "" || writtenAfter(of, v.pod.CreationTimestamp) {
		versions[annotation] = of.ResourceVersion
	}
}

// writtenAfter tells whether an object was written after a time. The API server
// knows seconds: what was written within the same one was most likely there before
// the pod, and else the kubelet finds it by itself, within a minute.
func writtenAfter(object *metav1.PartialObjectMetadata, at metav1.Time) bool {
	last := object.CreationTimestamp
	for _, entry := range object.ManagedFields {
		if entry.Time != nil && last.Before(entry.Time) {
			last = *entry.Time
		}
	}
	return at.Before(&last)
}
