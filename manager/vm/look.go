package vm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// visit is one look at a VM: what was found, and what came of it.
type visit struct {
	situation
	settings objects.Settings
	memory   *memory

	// What the caches have.
	statefulSet, configMap, service *metav1.PartialObjectMetadata
	types                           *metav1.PartialObjectMetadata // the ConfigMap with the VM's custom types
	secrets                         []metav1.PartialObjectMetadata
	existing                        map[string]metav1.ObjectMeta // claims

	// What steps have found out for later ones.
	accepted   verdict
	secret     string // the name of the display secret
	claims     []objects.Claim
	configured bool               // the ConfigMap was written in this visit
	changes    []v1.PendingChange // what needs a new pod
	decision   decision
	problems   []problem
	again      time.Time
}

// problem is something that is not as the definition says.
type problem struct{ reason, message string }

// lookAgain makes the VM be looked at no later than at a time; zero means never.
func (v *visit) lookAgain(at time.Time) {
	if !at.IsZero() && (v.again.IsZero() || at.Before(v.again)) {
		v.again = at
	}
}

// look reads the caches. Nil: there is no such VM.
func (c *reconciler) look(ctx context.Context, key types.NamespacedName) (*visit, error) {
	vm := &v1.VirtualMachine{}
	if err := c.client.Get(ctx, key, vm); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("look at VM %s: %w", key.Name, err)
	}
	v := &visit{settings: c.opts.Settings(), memory: c.memories.of(vm)}
	v.vm, v.now = vm, c.opts.Now()
	for _, get := range []struct {
		kind kind
		name string
		into **metav1.PartialObjectMetadata
	}{
		{statefulSetKind, vm.Name, &v.statefulSet},
		{configMapKind, vm.Name, &v.configMap},
		{serviceKind, vm.Name, &v.service},
		{configMapKind, typesConfigMap(vm, v.settings), &v.types},
	} {
		var err error
		if *get.into, err = c.cached(ctx, get.kind, vm.Namespace, get.name); err != nil {
			return nil, err
		}
	}
	return v, c.lookFurther(ctx, v)
}

// lookFurther reads what there can be several of.
func (c *reconciler) lookFurther(ctx context.Context, v *visit) error {
	v.existing = map[string]metav1.ObjectMeta{}
	for _, name := range objects.ClaimNames(v.vm) {
		claim, err := c.cached(ctx, claimKind, v.vm.Namespace, name)
		if err != nil {
			return err
		}
		if claim != nil {
			v.existing[name] = claim.ObjectMeta
		}
	}
	ours := []client.ListOption{client.InNamespace(v.vm.Namespace), client.MatchingFields{byInstance: v.vm.Name}}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(secretKind.version())
	if err := c.client.List(ctx, secrets, ours...); err != nil {
		return fmt.Errorf("look for the display secret of VM %s: %w", v.vm.Name, err)
	}
	v.secrets = secrets.Items
	pods := &corev1.PodList{}
	if err := c.client.List(ctx, pods, ours...); err != nil {
		return fmt.Errorf("look for the pod of VM %s: %w", v.vm.Name, err)
	}
	for i := range pods.Items {
		switch pod := &pods.Items[i]; {
		case pod.Name == podName(v.vm):
			v.pod = v.neglected(pod)
			if noticed := unnoticed(pod); !noticed.IsZero() && v.now.Before(noticed) {
				v.lookAgain(noticed)
			}
		case pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed:
			v.strays = append(v.strays, pod)
		}
	}
	return nil
}

// cached returns the metadata of an object; nil if there is none.
func (c *reconciler) cached(ctx context.Context, k kind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	if name == "" {
		return nil, nil
	}
	object := metadataOf(k)
	err := c.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for %s %s: %w", k, name, err)
	}
	return object, nil
}

// podName is the name of the pod that the VM's stateful set makes.
func podName(vm *v1.VirtualMachine) string { return vm.Name + "-0" }

// typesConfigMap is the name of the ConfigMap with the custom types that a VM can
// use; empty if there is none.
func typesConfigMap(vm *v1.VirtualMachine, s objects.Settings) string {
	return orElse(vm.Spec.VMType.ConfigMap, s.VMTypes)
}
