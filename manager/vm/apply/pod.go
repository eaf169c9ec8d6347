package apply

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// PatchPod updates a running pod where this is possible: labels and annotations of the VM, and the versions of
// mounted files. A new version makes the kubelet update the file immediately.
//
//   - secret is the name of the display secret.
//   - configVersion is the version of the ConfigMap if it was written in this round, otherwise 0.
//   - diskTLS is the version of the Secret with certificates for disks, or "" if the pod already knows it.
//   - drives is the revision of the drives in the configuration.
//
// A kubelet that receives a new version while it is writing files forgets it, and would find the change only within
// a minute (syncFrequency). Therefore PatchPod repeats the notification until the runner reports about the current
// configuration.
func (r *Round) PatchPod(ctx context.Context, secret string, configVersion uint64, diskTLS string, drives int64) (
	did decide.Report,
) {
	const what = "Pod"
	if r.Pod == nil || decide.Terminating(r.Pod) {
		return did
	}
	last, _ := r.memory.written.writeOf(what)
	if objects.VersionOf(r.Pod) < last.version {
		return did // the snapshot is older than the last patch
	}
	versions := r.fileVersions(secret, configVersion)
	if decide.Unseen(r.Snapshot, drives) {
		r.lookAgain(versions, last.at)
	}
	if diskTLS != "" && objects.HasDiskTLS(&r.Pod.ObjectMeta) {
		versions[objects.AnnotationDiskTLSVersion] = diskTLS
	}
	patch, err := objects.PodPatch(r.VM, &r.Pod.ObjectMeta, versions)
	if err != nil || patch == nil || !r.mayWrite() {
		did.Stop(nil, err)
		return did
	}
	pod := r.Pod.DeepCopy()
	err = r.w.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch), managerOwner)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		did.Stop(decide.Refused(err), fmt.Errorf("patch pod %s: %w", r.Pod.Name, err))
	default:
		r.memory.written.setWrite(what, written{version: objects.VersionOf(pod), at: r.Now})
	}
	return did
}

// lookAgain changes the version of the configuration when it is time to notify the kubelet again. since is when the
// pod received its current version.
func (r *Round) lookAgain(versions map[string]string, since time.Time) {
	known := r.Pod.Annotations[objects.AnnotationConfigVersion]
	after, may := objects.LookAgain(known)
	if !may || versions[objects.AnnotationConfigVersion] != known {
		return
	}
	if at := since.Add(after); r.Now.Before(at) {
		r.retryAt(at)
		return
	}
	r.retryAt(r.Now.Add(2 * after))
	version, _, _ := strings.Cut(known, ".")
	versions[objects.AnnotationConfigVersion] = objects.FileVersion(known, version, true)
}

// RestartPod writes an event and deletes the VM's pod, identified by its UID. The pod's runner asks the guest to
// shut down, and the StatefulSet creates the next pod.
func (r *Round) RestartPod(ctx context.Context) error {
	r.recordEvent(ctx, decide.RestartedFor(r.Snapshot))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: r.Pod.Name, Namespace: r.Pod.Namespace}}
	err := r.w.client.Delete(ctx, pod, client.Preconditions{UID: &r.Pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("restart VM %s: %w", r.VM.Name, err)
	}
	return nil
}

// fileVersions returns the versions of mounted files that the pod's kubelet may not know, because the files were
// written after the pod was created.
func (r *Round) fileVersions(secret string, configVersion uint64) map[string]string {
	versions := map[string]string{}
	var last *objects.Metadata
	r.addFileVersion(versions, objects.AnnotationConfigVersion, r.Snapshot.ConfigMap)
	if configVersion != 0 {
		versions[objects.AnnotationConfigVersion] = objects.FileVersion(
			r.Pod.Annotations[objects.AnnotationConfigVersion], strconv.FormatUint(configVersion, 10), false)
	}
	r.addFileVersion(versions, objects.AnnotationTypesVersion, r.Types)
	for i := range r.Secrets {
		if r.Secrets[i].Name == secret {
			r.addFileVersion(versions, objects.AnnotationPasswordVersion, &r.Secrets[i])
		}
	}
	for _, data := range r.Data { // a VM usually has one Secret; otherwise the last written Secret counts
		if data != nil && (last == nil || objects.VersionOf(data) > objects.VersionOf(last)) {
			last = data
		}
	}
	r.addFileVersion(versions, objects.AnnotationDataVersion, last)
	return versions
}

func (r *Round) addFileVersion(versions map[string]string, annotation string, of *objects.Metadata) {
	if of == nil {
		return
	}
	known := r.Pod.Annotations[annotation]
	if known != "" || writtenAfter(of, r.Pod.CreationTimestamp) {
		versions[annotation] = objects.FileVersion(known, of.ResourceVersion, false)
	}
}

// writtenAfter reports whether an object was written after a time. The API server's times are whole seconds. An
// object that was written within the same second most likely existed before the pod; if it didn't, the kubelet finds
// it by itself within a minute.
func writtenAfter(object *objects.Metadata, at metav1.Time) bool {
	return at.Before(objects.WrittenAt(object))
}
