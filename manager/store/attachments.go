package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// Attachments stores the attachments of one namespace, and the pods that export disks. It is separate from Store,
// because a manager also works without it. It is safe for concurrent use.
type Attachments struct {
	notice

	namespace   string
	attachments *collection[*v1.VirtualMachineBlockDeviceAttachment]
	pods        *collection[*corev1.Pod]

	mu      sync.Mutex
	failure error // error of the last attempt to list attachments
}

// NewAttachments returns an empty store. It calls changed with the VM of each attachment or export that is
// created, changed or deleted. The VM need not exist.
func NewAttachments(namespace string, changed func(vm string)) *Attachments {
	by, s := newCompressor(), &Attachments{namespace: namespace}
	changed = s.thenNotify(changed)
	of := func(_ string, r record) {
		if r.group != "" {
			changed(r.group)
		}
	}
	s.attachments = newCollection(attachmentEncoding(namespace), by, of)
	s.pods = newCollection(exportEncoding(namespace), by, of)
	return s
}

// attachmentEncoding stores attachments as JSON, grouped by the VM that they name.
func attachmentEncoding(namespace string) encoding[*v1.VirtualMachineBlockDeviceAttachment] {
	return encoding[*v1.VirtualMachineBlockDeviceAttachment]{
		trim: func(a *v1.VirtualMachineBlockDeviceAttachment) {
			a.TypeMeta, a.ObjectMeta = metav1.TypeMeta{}, metav1.ObjectMeta{
				Name: a.Name, UID: a.UID, ResourceVersion: a.ResourceVersion, Generation: a.Generation,
				CreationTimestamp: a.CreationTimestamp, DeletionTimestamp: a.DeletionTimestamp,
				Finalizers: a.Finalizers,
			}
		},
		encode: func(a *v1.VirtualMachineBlockDeviceAttachment) ([]byte, error) { return json.Marshal(a) },
		decode: func(text []byte) (*v1.VirtualMachineBlockDeviceAttachment, error) {
			a := &v1.VirtualMachineBlockDeviceAttachment{}
			err := json.Unmarshal(text, a)
			a.Namespace = namespace
			return a, err
		},
		group:     func(a *v1.VirtualMachineBlockDeviceAttachment) string { return a.Spec.VirtualMachineName },
		irregular: func(_, vm string) bool { return vm != "" },
		data:      func(a *v1.VirtualMachineBlockDeviceAttachment) string { return a.Spec.BlockDeviceRef.Name },
	}
}

// exportEncoding groups the pods that export disks by the VM that uses them.
func exportEncoding(namespace string) encoding[*corev1.Pod] {
	e := podEncoding(namespace)
	e.trim = func(pod *corev1.Pod) {
		owners := pod.OwnerReferences
		trimPod(pod)
		pod.Labels, pod.OwnerReferences = nil, owners
		pod.Annotations = entriesOf(pod.Annotations, []string{
			objects.AnnotationVM, objects.AnnotationAddress, objects.AnnotationImage,
		})
	}
	e.group = func(pod *corev1.Pod) string {
		if _, is := objects.ExportOf(pod); !is {
			return ""
		}
		return pod.Annotations[objects.AnnotationVM]
	}
	e.irregular = func(_, vm string) bool { return vm != "" }
	return e
}

// Of returns the attachments of a VM.
func (s *Attachments) Of(vm string) (all []*v1.VirtualMachineBlockDeviceAttachment, err error) {
	for _, name := range s.attachments.irregularNames(vm) {
		a, err := s.attachments.getObject(name)
		if err != nil {
			return nil, err
		}
		if a != nil {
			all = append(all, a)
		}
	}
	return all, nil
}

// UsersOf returns the VMs with attachments of a disk or image of that name, sorted. The VMs need not exist.
func (s *Attachments) UsersOf(disk string) (vms []string) {
	s.attachments.eachRecord(func(_ string, r record) {
		if r.commonOf().data == disk {
			vms = append(vms, r.group)
		}
	})
	slices.Sort(vms)
	return slices.Compact(vms)
}

// Exports returns the names of a VM's exports.
func (s *Attachments) Exports(vm string) []string { return s.pods.irregularNames(vm) }

// Export returns the trimmed pod of an export, or nil if no pod of that name is an export.
func (s *Attachments) Export(name string) (*corev1.Pod, error) {
	pod, err := s.pods.getObject(name)
	if pod == nil {
		return nil, err
	}
	if _, is := objects.ExportOf(pod); !is {
		return nil, nil
	}
	return pod, nil
}

// VMs returns the VMs that have attachments or exports. The VMs need not exist.
func (s *Attachments) VMs() []string {
	return append(s.attachments.irregularGroups(), s.pods.irregularGroups()...)
}

// Learn stores the result of a write, unless the watch has already delivered that version or a later version.
func (s *Attachments) Learn(object client.Object) error {
	switch o := object.(type) {
	case *v1.VirtualMachineBlockDeviceAttachment:
		return s.attachments.learnWrite(o)
	case *corev1.Pod:
		return s.pods.learnWrite(o)
	}
	return errors.New("store an object: there is no collection of its kind")
}

// Listing stores an initial list of all objects, as a watch does. It is for tests without an API server.
func (s *Attachments) Listing(attachments []*v1.VirtualMachineBlockDeviceAttachment, exports []*corev1.Pod) error {
	return errors.Join(replaceAll(s.attachments, attachments), replaceAll(s.pods, exports))
}

// Follow keeps the attachments and exports in sync with the API server until ctx is done.
func (s *Attachments) Follow(ctx context.Context, from client.WithWatch) {
	var running sync.WaitGroup
	defer running.Wait()
	noted := noting{from, func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failure = err
	}}
	runReflector(ctx, &running, noted, s.namespace, s.attachments, client.ListOptions{},
		&v1.VirtualMachineBlockDeviceAttachment{},
		func() client.ObjectList { return &v1.VirtualMachineBlockDeviceAttachmentList{} })
	exports := client.ListOptions{LabelSelector: labels.Set{objects.LabelName: objects.ExportAppName}.AsSelector()}
	runReflector(ctx, &running, from, s.namespace, s.pods, exports,
		&corev1.Pod{}, func() client.ObjectList { return &corev1.PodList{} })
}

// Listed returns nil if all objects have been listed, otherwise the reason. Callers must not decide anything
// before.
func (s *Attachments) Listed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listsNeeded().areComplete() {
		return cmp.Or(s.failure, errAttachmentsNotListed)
	}
	return nil
}

func (s *Attachments) listsNeeded() lists { return lists{s.attachments.listed, s.pods.listed} }

var errAttachmentsNotListed = errors.New("the list of VirtualMachineBlockDeviceAttachments has not been read yet")

// Await waits until all objects have been listed, or ctx is done.
func (s *Attachments) Await(ctx context.Context) { s.listsNeeded().awaitLists(ctx) }
