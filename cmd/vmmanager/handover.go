package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubescheme "k8s.io/client-go/kubernetes/scheme"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager"
	"vmop/manager/vm/objects"
	"vmop/manager/vm/takeover"
)

// namespaceClient is a client for a namespace with VMs that are handed over.
type namespaceClient struct {
	client.Client
	name string
}

func (f *takeoverFlags) connectNamespace() (*namespaceClient, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(f.rules, &f.overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, manager.ErrNoServer
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	in := &namespaceClient{}
	if in.name, _, err = loader.Namespace(); err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(kubescheme.AddToScheme(scheme), v1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("prepare a client: %w", err)
	}
	if in.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return in, nil
}

// listObjects returns the objects that a takeover needs. It reads only the metadata of Secrets.
func (in *namespaceClient) listObjects(ctx context.Context) (all []unstructured.Unstructured, err error) {
	for _, kind := range []schema.GroupVersionKind{
		v1.GroupVersion().WithKind("VirtualMachine"), v1.GroupVersion().WithKind("VmPool"),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("Pod"), appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
	} {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		switch err := in.List(ctx, &list, client.InNamespace(in.name)); {
		case meta.IsNoMatchError(err): // earlier versions of VM-Operator lack pools
		case err != nil:
			return nil, fmt.Errorf("list objects of kind %s in namespace %s: %w", kind.Kind, in.name, err)
		}
		all = append(all, list.Items...)
	}
	var secrets metav1.PartialObjectMetadataList
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := in.List(ctx, &secrets, client.InNamespace(in.name),
		client.MatchingLabels{objects.LabelComponent: objects.ComponentDisplaySecret}); err != nil {
		return nil, fmt.Errorf("list display secrets in namespace %s: %w", in.name, err)
	}
	for i := range secrets.Items {
		secrets.Items[i].SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&secrets.Items[i])
		if err != nil {
			return nil, fmt.Errorf("read secret %s: %w", secrets.Items[i].Name, err)
		}
		all = append(all, unstructured.Unstructured{Object: content})
	}
	return all, nil
}

// handOver hands VMs over to our manager: the named VMs, or all VMs if names is empty.
func (in *namespaceClient) handOver(cmd *cobra.Command, r *takeover.Report, names []string, stop bool,
	patience time.Duration,
) error {
	if len(r.Managers) > 0 {
		return fmt.Errorf("the manager of VM-Operator would also start the VMs, on the same disks: "+
			"kubectl -n %s scale deployment %s --replicas 0", in.name, r.Managers[0])
	}
	var vms []takeover.Subject
	for _, s := range r.Subjects {
		if s.Kind == "VirtualMachine" {
			vms = append(vms, s)
		}
	}
	nameOf := func(s takeover.Subject) string { return s.Name }
	return doEach(cmd, vms, names, nameOf, func(s takeover.Subject) (string, error) {
		switch {
		case s.RunsIn != "" && !stop:
			return "left: its guest runs in the pod " + s.RunsIn + " of VM-Operator; --stop shuts it down", nil
		case s.Blocked():
			return "", errors.New("left: something blocks, as takeover shows without --apply")
		case s.StatefulSet:
			set := &appsv1.StatefulSet{}
			if err := in.getObject(cmd.Context(), s.Name, set); err != nil {
				return "", err
			}
			if set.UID != "" && takeover.StatefulSetOfOriginal(set) {
				if err := in.removeObject(cmd.Context(), set); err != nil {
					return "", err
				}
			}
		}
		if s.RunsIn != "" {
			if err := in.endPod(cmd.Context(), s.RunsIn, patience); err != nil {
				return "", err
			}
		}
		return "handed over", nil
	})
}

// handBack hands VMs back to VM-Operator's manager: the named VMs, or all VMs if names is empty.
func (in *namespaceClient) handBack(cmd *cobra.Command, all []unstructured.Unstructured, names []string, stop bool,
	patience time.Duration,
) error {
	var sets []appsv1.StatefulSet
	for _, u := range all {
		switch u.GetKind() {
		case "Deployment":
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
				return fmt.Errorf("read the Deployment %s: %w", u.GetName(), err)
			}
			wanted := d.Spec.Replicas == nil || *d.Spec.Replicas > 0 || d.Status.Replicas > 0
			if d.Name == takeover.ManagerName && !takeover.OfOriginal(&d) && wanted {
				return fmt.Errorf("our manager would start the VMs again: kubectl -n %s scale deployment %s --replicas 0",
					in.name, d.Name)
			}
		case "StatefulSet":
			ours := u.GetAnnotations()[objects.AnnotationApplied] != ""
			if ours && u.GetLabels()[objects.LabelName] == objects.AppName {
				sets = append(sets, appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
					Name: u.GetName(), Namespace: in.name, UID: u.GetUID(),
				}})
			}
		}
	}
	nameOf := func(s appsv1.StatefulSet) string { return s.Name }
	return doEach(cmd, sets, names, nameOf, func(s appsv1.StatefulSet) (string, error) {
		pods := []string{objects.PodName(s.Name, 0), objects.PodName(s.Name, 1)}
		for _, name := range pods {
			pod := &corev1.Pod{}
			if err := in.getObject(cmd.Context(), name, pod); err != nil {
				return "", err
			}
			if pod.UID != "" && !stop {
				return "left: its guest may run in the pod " + name + "; --stop shuts it down", nil
			}
		}
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: in.name}}
		if err := errors.Join(in.removeObject(cmd.Context(), &s), in.removeObject(cmd.Context(), budget)); err != nil {
			return "", err
		}
		for _, name := range pods {
			if err := in.endPod(cmd.Context(), name, patience); err != nil {
				return "", err
			}
		}
		return "handed back", nil
	})
}

// doEach calls do for the named items, or for all items if names is empty, and prints the result for each.
func doEach[T any](cmd *cobra.Command, all []T, names []string, nameOf func(T) string,
	do func(T) (string, error),
) error {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(one T) bool { return nameOf(one) == name }) {
			return cli.UsageError{Err: fmt.Errorf("there is no VM %s to be handed over", name)}
		}
	}
	failed := 0
	for _, one := range all {
		name := nameOf(one)
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		what, err := do(one)
		if err != nil {
			what, failed = err.Error(), failed+1
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", name, cli.Printable(what))
	}
	if failed > 0 {
		return fmt.Errorf("%d VMs were not handed over", failed)
	}
	return nil
}

// getObject reads an object. The UID is empty if the object does not exist.
func (in *namespaceClient) getObject(ctx context.Context, name string, into client.Object) error {
	err := client.IgnoreNotFound(in.Get(ctx, client.ObjectKey{Namespace: in.name, Name: name}, into))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// removeObject deletes an object and its pods. It does not delete a newer object with the same name.
func (in *namespaceClient) removeObject(ctx context.Context, object client.Object) error {
	var only metav1.Preconditions
	if uid := object.GetUID(); uid != "" {
		only.UID = &uid
	}
	err := in.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions(only))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", object.GetName(), err)
	}
	return nil
}

// endPod deletes a pod, which asks the guest to shut down, and waits until the pod is gone.
func (in *namespaceClient) endPod(ctx context.Context, name string, patience time.Duration) error {
	pod := &corev1.Pod{}
	if err := in.getObject(ctx, name, pod); err != nil || pod.UID == "" {
		return err
	}
	if err := in.removeObject(ctx, pod); err != nil {
		return err
	}
	uid := pod.UID
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		now := &corev1.Pod{}
		err := in.Get(ctx, client.ObjectKey{Namespace: in.name, Name: name}, now)
		return apierrors.IsNotFound(err) || err == nil && now.UID != uid, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("the pod %s is being deleted, but still exists: %w", name, err)
	}
	return nil
}
