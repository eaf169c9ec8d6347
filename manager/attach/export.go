package attach

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

	"vmop/manager/objects"
	"vmop/nbdexport"
)

// errTaken is an object that is in the way of one of ours.
type errTaken struct{ kind, name, whose string }

func (e errTaken) Error() string {
	return fmt.Sprintf("there is a %s %s that is not %s: waiting until it is gone (kubectl delete)", e.kind, e.name, e.whose)
}

// errStale is what was decided upon something that is not so any more.
var errStale = errors.New("the watch is late")

// errUnsettled is a StatefulSet whose controller has not seen its last change.
var errUnsettled = errors.New("the StatefulSet of the VM is changing")

// serve makes what serves a disk, where it isn't there: an earlier manager may have been ended
// before it was done. It returns the pod.
func (r *round) serve(o *one) (*corev1.Pod, error) {
	e := o.toBe()
	authority, err := r.authority()
	if err != nil {
		return nil, err
	}
	if have := r.drives.Of(o.Ref); have != nil {
		e.Address = have.Address // where the guest's drive looks for it
	}
	if e.Address, err = r.service(e); err != nil {
		return nil, err
	}
	if err := r.certificate(e, authority); err != nil {
		return nil, err
	}
	configuration, err := e.Pod(r.opts.Settings())
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	switch err := r.create(r.ctx, configuration, pod); {
	case apierrors.IsAlreadyExists(err): // it ends, or the watch is late
		return nil, r.whose("Pod", e, &corev1.Pod{}, err)
	case err != nil:
		return nil, fmt.Errorf("create the pod %s of an export: %w", e.Name, err)
	}
	return pod, r.book.Learn(pod.DeepCopy())
}

// service makes the Service of an export, and returns its address.
func (r *round) service(e objects.Export) (string, error) {
	configuration, err := e.Service(r.opts.Settings())
	if err != nil {
		return "", err
	}
	service := &corev1.Service{}
	if e.Address != "" { // most likely it is there, and an address that is taken says nothing of by whom
		err := r.whose("Service", e, service, nil)
		if !apierrors.IsNotFound(err) {
			return service.Spec.ClusterIP, err
		}
		service = &corev1.Service{}
	}
	err = r.create(r.ctx, configuration, service)
	if apierrors.IsAlreadyExists(err) {
		err = r.whose("Service", e, service, nil)
	}
	if err != nil {
		return "", fmt.Errorf("create the Service %s: %w", e.Name, err)
	}
	return service.Spec.ClusterIP, nil
}

// certificate makes the Secret of an export with the certificate for its address.
func (r *round) certificate(e objects.Export, by *nbdexport.Authority) error {
	server, err := by.Server(e.ServerNames(), []net.IP{net.ParseIP(e.Address)}, r.opts.Now())
	if err != nil {
		return err
	}
	configuration, err := e.Secret(by.Certificate, server, r.opts.Settings())
	if err != nil {
		return err
	}
	secret := &corev1.Secret{}
	err = r.create(r.ctx, configuration, secret)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("create the Secret %s: %w", e.Name, err)
		}
		return nil
	}
	have := &corev1.Secret{}
	if err := r.whose("Secret", e, have, nil); err != nil {
		return err
	}
	if have.Annotations[objects.AnnotationAddress] == e.Address &&
		bytes.Equal(have.Data[nbdexport.CAFile], by.Certificate) {
		return nil
	}
	// It is of an earlier export, whose address or VM was another.
	if err := r.opts.Client.Delete(r.ctx, have, client.Preconditions{UID: &have.UID}); err != nil {
		return fmt.Errorf("delete the Secret %s of an earlier export: %w", e.Name, err)
	}
	return errStale
}

// whose reads an object into which is in the way of one of an export, and returns an error if it is not
// the export's, or is being deleted; otherwise err.
func (r *round) whose(kind string, e objects.Export, into client.Object, err error) error {
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

// reachable makes the Service of an export that is about to be used, if it is gone, at the address that the pod
// has noted: a manager that was killed while it ended the export may have deleted it.
func (r *round) reachable(o *one) error {
	service, name := &corev1.Service{}, o.export.Name
	err := r.opts.Live.Get(r.ctx, client.ObjectKey{Namespace: r.opts.Namespace, Name: name}, service)
	if !apierrors.IsNotFound(err) || o.Disk == nil {
		return client.IgnoreNotFound(err)
	}
	e := o.toBe()
	e.Address = o.export.Annotations[objects.AnnotationAddress]
	_, err = r.service(e)
	return err
}

// toBe returns the export of a disk, or of an image, that is there.
func (o *one) toBe() objects.Export {
	if o.Ref.Kind.IsImage() {
		return objects.NewImageExport(o.Ref, o.Disk, o.VM)
	}
	return objects.NewExport(o.Disk, o.VMName)
}

// end deletes what serves a disk, the pod last: as long as it is there, the next manager does it.
func (r *round) end(pod *corev1.Pod) error {
	for _, object := range []client.Object{&corev1.Service{}, &corev1.Secret{}} {
		err := r.opts.Live.Get(r.ctx, client.ObjectKeyFromObject(pod), object)
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("end the export %s: %w", pod.Name, err)
		}
		owner, mine := metav1.GetControllerOfNoCopy(object), metav1.GetControllerOfNoCopy(pod)
		if owner == nil || mine == nil || owner.UID != mine.UID {
			continue // someone has made one of that name: it stays, and keeps nothing from ending
		}
		if err := r.remove(object, pod, object.GetUID()); err != nil {
			return err
		}
	}
	return r.remove(&corev1.Pod{}, pod, pod.UID)
}

// remove deletes an object of an export, unless there is another one of that name meanwhile.
func (r *round) remove(object client.Object, of *corev1.Pod, uid types.UID) error {
	object.SetNamespace(r.opts.Namespace)
	object.SetName(of.Name)
	err := r.opts.Client.Delete(r.ctx, object, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("end the export %s: %w", of.Name, err)
	}
	return nil
}

// podName is the name of the VM's pod.
func (r *round) podName() string {
	switch {
	case r.pod != nil:
		return r.pod.Name
	case r.VM != nil:
		return objects.PodName(r.Name, r.VM.Status.PodOrdinal)
	}
	return objects.PodName(r.Name, 0)
}

// unchanged returns an error if the pod of the VM, or the drives in its configuration, are not those
// upon which was decided: then a machine may get a disk of which nothing is known.
func (r *round) unchanged() error {
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
