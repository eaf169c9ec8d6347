package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/diskimage/transfer"
	"vmop/manager/disk"
	"vmop/runner/control/remote"
)

// makePodKey creates the key by which managers recognize a pod that has not started yet, and returns its hash. The key
// is stored in a Secret that is deleted with the pod. A killed manager may have created the Secret already.
//
// See docs/decisions/0158-files-through-pages.md.
func (c *Controller) makePodKey(ctx context.Context, pod *corev1.Pod) (hash string, err error) {
	pair, err := remote.NewPair(c.opts.Now())
	if err != nil {
		return "", err
	}
	name := disk.KeySecretOf(pod.Name)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: c.opts.Namespace, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)},
		},
	}}
	secret.Type, secret.Immutable = corev1.SecretTypeOpaque, new(true)
	secret.Data = map[string][]byte{
		transfer.CertificateFile: pair.Certificate, transfer.KeyFile: pair.Key,
	}
	err = c.opts.Client.Create(ctx, secret, owner)
	if err == nil {
		return pair.Hash, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create the Secret %s: %w", name, err)
	}
	var there corev1.Secret
	if err := c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: name}, &there); err != nil {
		return "", fmt.Errorf("read the Secret %s: %w", name, err)
	}
	is := metav1.GetControllerOfNoCopy(&there)
	switch {
	case is == nil || is.Kind != "Pod" || is.Name != pod.Name:
		return "", fmt.Errorf("the Secret %s already exists and does not belong to the pod %s: delete it", name, pod.Name)
	case is.UID == pod.UID:
		hash, err := remote.HashOf(there.Data[transfer.CertificateFile])
		if err != nil {
			err = fmt.Errorf("the Secret %s: %w", name, err)
		}
		return hash, err
	}
	// The Secret belongs to an earlier pod, which is gone.
	was := client.Preconditions{UID: &there.UID}
	if err := c.opts.Client.Delete(ctx, &there, was); err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("delete the Secret %s: %w", name, err)
	}
	return "", err // the next attempt creates it
}
