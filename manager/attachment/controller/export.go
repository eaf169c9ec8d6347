package controller

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/diskimage/nbd"
	"vmop/manager/vm/objects"
)

// errTaken means that a foreign object has the name of one of our objects.
type errTaken struct{ kind, name, whose string }

func (e errTaken) Error() string {
	return fmt.Sprintf("there is a %s %s that is not %s: waiting until it is gone (kubectl delete)", e.kind, e.name, e.whose)
}

// errStale means that a decision was based on outdated state.
var errStale = errors.New("the watch is late")

// errUnsettled means that the StatefulSet's controller has not seen its last change.
var errUnsettled = errors.New("the StatefulSet of the VM is changing")

// serveDisk creates the missing objects that serve a disk, and returns the pod. An earlier manager may have been
// killed before it had created all of them.
func (r *round) serveDisk(o *one) (*corev1.Pod, error) {
	e := o.toBe()
	authority, err := r.certificateAuthority()
	if err != nil {
		return nil, err
	}
	if have := r.drives.Of(o.Ref); have != nil {
		e.Address = have.Address // the address that the guest's drive connects to
	}
	if e.Address, err = r.exportService(e); err != nil {
		return nil, err
	}
	if err := r.exportCertificate(e, authority); err != nil {
		return nil, err
	}
	configuration, err := e.Pod(r.opts.Settings())
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	switch err := r.createFrom(r.ctx, configuration, pod); {
	case apierrors.IsAlreadyExists(err): // the pod is ending, or the watch is late
		return nil, r.readConflicting("Pod", e, &corev1.Pod{}, err)
	case err != nil:
		return nil, fmt.Errorf("create the pod %s of an export: %w", e.Name, err)
	}
	return pod, r.book.Learn(pod.DeepCopy())
}

// exportService creates the Service of an export, and returns its address.
func (r *round) exportService(e objects.Export) (string, error) {
	configuration, err := e.Service(r.opts.Settings())
	if err != nil {
		return "", err
	}
	service := &corev1.Service{}
	if e.Address != "" { // it probably exists; the error for an address in use does not name its user
		err := r.readConflicting("Service", e, service, nil)
		if !apierrors.IsNotFound(err) {
			return service.Spec.ClusterIP, err
		}
		service = &corev1.Service{}
	}
	err = r.createFrom(r.ctx, configuration, service)
	if apierrors.IsAlreadyExists(err) {
		err = r.readConflicting("Service", e, service, nil)
	}
	if err != nil {
		return "", fmt.Errorf("create the Service %s: %w", e.Name, err)
	}
	return service.Spec.ClusterIP, nil
}

// exportCertificate creates the Secret of an export, with the certificate for its address.
func (r *round) exportCertificate(e objects.Export, by *nbd.Authority) error {
	server, err := by.Server(e.ServerNames(), []net.IP{net.ParseIP(e.Address)}, r.opts.Now())
	if err != nil {
		return err
	}
	configuration, err := e.Secret(by.Certificate, server, r.opts.Settings())
	if err != nil {
		return err
	}
	secret := &corev1.Secret{}
	err = r.createFrom(r.ctx, configuration, secret)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("create the Secret %s: %w", e.Name, err)
		}
		return nil
	}
	have := &corev1.Secret{}
	if err := r.readConflicting("Secret", e, have, nil); err != nil {
		return err
	}
	if have.Annotations[objects.AnnotationAddress] == e.Address &&
		bytes.Equal(have.Data[nbd.CAFile], by.Certificate) {
		return nil
	}
	// The Secret belongs to an earlier export with another address or VM.
	if err := r.opts.Client.Delete(r.ctx, have, client.Preconditions{UID: &have.UID}); err != nil {
		return fmt.Errorf("delete the Secret %s of an earlier export: %w", e.Name, err)
	}
	return errStale
}

// readConflicting reads the existing object with an export's name into into. It returns an error if the object does not
// belong to the export or is being deleted; otherwise err.
func (r *round) readConflicting(kind string, e objects.Export, into client.Object, err error) error {
	if err := r.opts.Live.Get(r.ctx, client.ObjectKey{Namespace: r.opts.Namespace, Name: e.Name}, into); err != nil {
		return err
	}
	owner := metav1.GetControllerOfNoCopy(into)
	switch {
	case owner == nil || owner.UID != *e.Owner.UID:
		return errTaken{kind, e.Name, "of this export"}
	case into.GetDeletionTimestamp() != nil:
		return errStale
	}
	return err
}

// restoreService creates a missing Service for an export that is about to be used, at the address noted by the pod. A
// manager that was killed while it ended the export may have deleted the Service.
func (r *round) restoreService(o *one) error {
	service, name := &corev1.Service{}, o.export.Name
	err := r.opts.Live.Get(r.ctx, client.ObjectKey{Namespace: r.opts.Namespace, Name: name}, service)
	if !apierrors.IsNotFound(err) || o.Disk == nil {
		return client.IgnoreNotFound(err)
	}
	e := o.toBe()
	e.Address = o.export.Annotations[objects.AnnotationAddress]
	_, err = r.exportService(e)
	return err
}

// toBe returns the export for an existing disk or image.
func (o *one) toBe() objects.Export {
	if o.Ref.Kind.IsImage() {
		return objects.NewImageExport(o.Ref, o.Disk, o.VM)
	}
	return objects.NewExport(o.Disk, o.VMName)
}

// endExport deletes the objects that serve a disk. It deletes the pod last: while the pod exists, the next manager can
// continue.
func (r *round) endExport(pod *corev1.Pod) error {
	for _, object := range []client.Object{&corev1.Service{}, &corev1.Secret{}} {
		err := r.opts.Live.Get(r.ctx, client.ObjectKeyFromObject(pod), object)
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("end the export %s: %w", pod.Name, err)
		}
		owner, mine := metav1.GetControllerOfNoCopy(object), metav1.GetControllerOfNoCopy(pod)
		if owner == nil || mine == nil || owner.UID != mine.UID {
			continue // a foreign object of that name: leave it and continue
		}
		if err := r.removeObject(object, pod, object.GetUID()); err != nil {
			return err
		}
	}
	return r.removeObject(&corev1.Pod{}, pod, pod.UID)
}

// removeObject deletes an object of an export, unless another object has its name by now.
func (r *round) removeObject(object client.Object, of *corev1.Pod, uid types.UID) error {
	object.SetNamespace(r.opts.Namespace)
	object.SetName(of.Name)
	err := r.opts.Client.Delete(r.ctx, object, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("end the export %s: %w", of.Name, err)
	}
	return nil
}

// podName returns the name of the VM's pod.
func (r *round) podName() string {
	switch {
	case r.pod != nil:
		return r.pod.Name
	case r.VM != nil:
		return objects.PodName(r.Name, r.VM.Status.PodOrdinal)
	}
	return objects.PodName(r.Name, 0)
}

// checkUnchanged returns an error if the VM's pod, or the drives in its configuration, differ from the state that the
// decision was based on. In that case, a machine could have a disk that the decision did not take into account.
func (r *round) checkUnchanged() error {
	pod := &corev1.Pod{}
	err := r.opts.Live.Get(r.ctx, client.ObjectKey{Namespace: r.opts.Namespace, Name: r.podName()}, pod)
	switch {
	case apierrors.IsNotFound(err):
		if r.pod != nil {
			return errStale
		}
	case err != nil:
		return fmt.Errorf("read the pod of the VM %s: %w", r.Name, err)
	case r.pod == nil && pod.Labels[objects.LabelInstance] == r.Name, r.pod != nil && pod.UID != r.pod.UID:
		return errStale
	}
	if r.VM == nil {
		return nil
	}
	configMap := objects.NewMetadata(objects.KindConfigMap)
	err = r.opts.Live.Get(r.ctx, client.ObjectKeyFromObject(r.VM), configMap)
	if apierrors.IsNotFound(err) {
		configMap = nil
	} else if err != nil {
		return fmt.Errorf("read the ConfigMap of the VM %s: %w", r.Name, err)
	}
	if !equality.Semantic.DeepEqual(objects.DrivesOf(configMap), r.drives) {
		return errStale
	}
	return nil
}
