package controller

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/diskimage/transfer"
	"vmop/manager/disk"
	"vmop/runner/control/remote"
)

// whole is the data of a claim after an import.
const whole = "whole"

// writeWork executes a manager's write about an import pod. A very slow manager's write arrives when another manager
// already leads.
func (w *world) writeWork(do func() error) error {
	if !w.cut && w.random.Float64() < w.cuts/4 {
		w.cut = true
		w.late = append(w.late, do)
		return errKilled
	}
	return w.write(do)
}

func (w *world) createWork(pod *corev1.Pod) error {
	if w.works[pod.Name] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, pod.Name)
	}
	w.next(pod)
	pod.UID = types.UID("pod-" + pod.ResourceVersion)
	pod.Status.Phase = corev1.PodPending
	w.works[pod.Name] = pod.DeepCopy()
	w.see(pod, false)
	return nil
}

// Patch removes the gate of a pod, or an export request.
func (w *world) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	text, err := p.Data(o)
	require.NoError(w.t, err)
	var fields struct{ Metadata metav1.ObjectMeta }
	require.NoError(w.t, json.Unmarshal(text, &fields))
	if _, is := o.(*corev1.Pod); !is {
		return w.writeWork(func() error { return w.forget(o, fields.Metadata.ResourceVersion) })
	}
	return w.writeWork(func() error {
		have := w.works[o.GetName()]
		switch {
		case have == nil:
			return missing(o.GetName())
		case have.UID != fields.Metadata.UID:
			return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("it is another"))
		}
		have = have.DeepCopy()
		if key := w.keys[disk.KeySecretOf(have.Name)]; fields.Metadata.Annotations != nil {
			require.True(w.t, key != nil && w.podOf(key), "its key is there before it starts")
			hash, err := remote.HashOf(key.Data[transfer.CertificateFile])
			require.NoError(w.t, err)
			require.Equal(w.t, map[string]string{disk.AnnotationKey: hash}, fields.Metadata.Annotations)
		}
		have.Annotations, have.Spec.SchedulingGates = fields.Metadata.Annotations, nil
		w.put(have)
		have.DeepCopyInto(o.(*corev1.Pod))
		return nil
	})
}

// createKey creates the Secret with the key of a pod.
func (w *world) createKey(key *corev1.Secret) error {
	if w.keys[key.Name] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, key.Name)
	}
	require.Len(w.t, key.Data, 2)
	w.next(key)
	key.UID = types.UID("key-" + key.ResourceVersion)
	w.keys[key.Name] = key.DeepCopy()
	return nil
}

// podOf reports whether the pod that owns a key exists.
func (w *world) podOf(key *corev1.Secret) bool {
	of := metav1.GetControllerOf(key)
	pod := w.works[of.Name]
	return pod != nil && pod.UID == of.UID
}

// Delete marks an import pod as deleted, so that it ends later, or deletes a key.
func (w *world) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	var all client.DeleteOptions
	all.ApplyOptions(opts)
	if key, is := o.(*corev1.Secret); is {
		return w.writeWork(func() error {
			have := w.keys[key.Name]
			require.False(w.t, have != nil && have.UID == *all.Preconditions.UID && w.podOf(have), "it is in use")
			delete(w.keys, key.Name)
			return nil
		})
	}
	return w.writeWork(func() error {
		have := w.works[o.GetName()]
		if have == nil {
			return missing(o.GetName())
		}
		if *all.Preconditions.UID != have.UID {
			return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("it is another"))
		}
		have = have.DeepCopy()
		have.DeletionTimestamp = &metav1.Time{Time: w.now}
		w.put(have)
		return nil
	})
}

func (w *world) put(pod *corev1.Pod) {
	w.next(pod)
	w.works[pod.Name] = pod
	w.see(pod, false)
}

// work simulates the kubelet of an import pod, which starts, ends, or is lost.
func (w *world) work(name string) {
	pod := w.works[name].DeepCopy()
	if pod == nil {
		return
	}
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "target" })
	claim := w.claims[pod.Spec.Volumes[i].PersistentVolumeClaim.ClaimName]
	switch {
	case pod.DeletionTimestamp != nil:
		delete(w.works, name)
		w.see(pod, true)
		return
	case claim == nil, len(pod.Spec.SchedulingGates) > 0,
		claim.OwnerReferences[0].UID != pod.OwnerReferences[0].UID:
		return
	case w.random.Float64() < w.fails/4: // kubectl delete pod
		pod.DeletionTimestamp = &metav1.Time{Time: w.now}
	case pod.Status.Phase == corev1.PodPending:
		if !w.beginsToRead(pod) {
			return
		}
		pod.Status.Phase = corev1.PodRunning
		w.data[claim.UID] = "half"
	case pod.Status.Phase != corev1.PodRunning:
		return
	case w.random.Float64() < w.fails:
		pod.Status.Phase = corev1.PodFailed
		pod.Status.ContainerStatuses = endedWith(`{"reason": "SourceUnreachable", "message": "no answer"}`)
	default:
		w.data[claim.UID] = w.copied(pod)
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = endedWith(`{"reason": "Imported", "format": "raw"}`)
	}
	w.put(pod)
}

func endedWith(message string) []corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: "import"}
	s.State.Terminated = &corev1.ContainerStateTerminated{Message: message}
	return []corev1.ContainerStatus{s}
}
