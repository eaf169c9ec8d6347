package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// The writers of a VM's status and objects. What the runner writes is written in
// its place when it cannot speak any more.
const (
	managerWriter = client.FieldOwner("vm-operator")
	runnerWriter  = client.FieldOwner("vm-runner")
)

// memory is what is remembered of a VM from one look to the next. A manager that
// starts remembers nothing, and believes what it finds.
type memory struct {
	uid      types.UID
	written  writes
	made     uint64             // the version of the stateful set when it was changed last
	status   uint64             // the VM's version after its status was written last
	fleeting time.Time          // since when a phase that passes is not told
	refusals map[string]refusal // of changes of claims, by name
	place    place              // where others are rewritten, too
	mounts   *mounts            // of the pod, if that was asked
	inquiry  *inquiry           // about what keeps it from starting
}

// written is a version of an object that is as it shall be.
type written struct {
	hash       string
	version    uint64
	generation int64
	seen       bool // it has been in the cache
	at         time.Time
}

// writes are what was written for a VM, by kind and, of claims, name: so few that a
// map would be larger.
type writes []write

type write struct {
	what string
	written
}

func (all writes) index(what string) int {
	return slices.IndexFunc(all, func(w write) bool { return w.what == what })
}

func (all writes) of(what string) (written, bool) {
	if i := all.index(what); i >= 0 {
		return all[i].written, true
	}
	return written{}, false
}

func (all *writes) note(what string, w written) {
	if i := all.index(what); i >= 0 {
		(*all)[i].written = w
		return
	}
	*all = append(*all, write{what, w})
}

func (all *writes) forget(what string) {
	*all = slices.DeleteFunc(*all, func(w write) bool { return w.what == what })
}

// memories are those of all VMs, by name.
type memories struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*memory
}

// of returns what is remembered of a VM. One at a time looks at a VM, so that
// nobody else has it.
func (m *memories) of(vm *v1.VirtualMachine) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(vm)
	if have := m.all[key]; have != nil && have.uid == vm.UID {
		return have
	}
	fresh := &memory{uid: vm.UID}
	m.all[key] = fresh
	return fresh
}

func (m *memories) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, key)
}

// unseen is how long an object that was written may take to come into the cache.
const unseen = 30 * time.Second

// current tells whether an object is as it shall be, or is on its way: it has the
// hash of what shall be applied, and nobody has changed it since.
func (m *memory) current(what, hash string, have *metav1.PartialObjectMetadata, now time.Time) bool {
	last, remembered := m.written.of(what)
	if have == nil {
		return remembered && !last.seen && last.hash == hash && now.Sub(last.at) < unseen
	}
	version := versionOf(have)
	if remembered && version < last.version { // written, and not yet in the cache
		return last.hash == hash
	}
	if have.Annotations[objects.AnnotationApplied] != hash {
		return false
	}
	if remembered && last.hash == hash && last.changed(have) {
		return false
	}
	m.written.note(what, written{hash: hash, version: version, generation: have.Generation, seen: true, at: now})
	return true
}

// current is that of the memory. What was written and is not in the cache is looked
// for again: somebody may have deleted it before it came there.
func (v *visit) current(what, hash string, have *metav1.PartialObjectMetadata) bool {
	current := v.memory.current(what, hash, have, v.now)
	if current && have == nil {
		v.lookAgain(v.now.Add(unseen))
	}
	return current
}

// changed tells whether somebody has changed an object. Those with a generation
// have a status, whose changes don't count.
func (w written) changed(have *metav1.PartialObjectMetadata) bool {
	if w.generation != 0 {
		return have.Generation != w.generation
	}
	return versionOf(have) != w.version
}

// versionOf returns an object's resourceVersion, a number that grows
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions).
func versionOf(object client.Object) uint64 {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// ensure applies an object of the VM's name unless it is as it shall be, and tells
// whether it did. Somebody else's object is left alone.
func (c *reconciler) ensure(ctx context.Context, v *visit, k kind, hash string, configuration any, have *metav1.PartialObjectMetadata) (bool, outcome, error) {
	if taken := notOurs(k, v.vm, have); taken != nil {
		return false, taken, nil
	}
	if v.current(k.String(), hash, have) {
		return false, nil, nil
	}
	if !c.mayWrite(v) {
		return false, nil, nil
	}
	text, err := json.Marshal(configuration)
	if err != nil {
		return false, nil, fmt.Errorf("apply %s %s: %w", k, v.vm.Name, err)
	}
	object, err := c.patch(ctx, k, v.vm.Name, types.ApplyPatchType, text, client.ForceOwnership)
	if err != nil {
		return false, refused(err), fmt.Errorf("apply %s %s: %w", k, v.vm.Name, err)
	}
	v.memory.written.note(k.String(), written{hash: hash, version: versionOf(object), generation: object.Generation, at: v.now})
	return true, nil, nil
}

// patch changes an object of the namespace, and returns its metadata after that.
func (c *reconciler) patch(ctx context.Context, k kind, name string, how types.PatchType, text []byte, opts ...client.PatchOption) (*metadata, error) {
	object := metadataOf(k)
	object.Name, object.Namespace = name, c.opts.Namespace
	return object, c.client.Patch(ctx, object, client.RawPatch(how, text), append(opts, managerWriter)...)
}

// create makes an object of a configuration, where to apply it could overwrite
// somebody else's.
func (c *reconciler) create(ctx context.Context, configuration any, object client.Object) error {
	text, err := json.Marshal(configuration)
	if err == nil {
		err = json.Unmarshal(text, object)
	}
	if err != nil {
		return err
	}
	return c.client.Create(ctx, object, managerWriter)
}

// notOurs says whose an object is that this VM must not touch; nil if it may.
func notOurs(k kind, vm *v1.VirtualMachine, have *metav1.PartialObjectMetadata) outcome {
	if have == nil {
		return nil
	}
	owner := metav1.GetControllerOf(have)
	switch {
	case owner != nil && owner.UID == vm.UID:
	case owner != nil && owner.Kind == "VirtualMachine" && owner.Name == vm.Name:
		return waiting{reason: reasonOldObject, message: fmt.Sprintf("%s %s belongs to a VM of the same name that was deleted: waiting until it is gone", k, have.Name)}
	case owner != nil:
		return stalled{reasonNameTaken, fmt.Sprintf("%s %s belongs to %s %s: give the VM another name", k, have.Name, owner.Kind, owner.Name)}
	case have.Labels[objects.LabelManagedBy] != objects.ManagerName || have.Labels[objects.LabelInstance] != vm.Name:
		return stalled{reasonNameTaken, fmt.Sprintf("%s %s is somebody else's, for it has not the labels %s=%s and %s=%s: give the VM another name, or it the labels",
			k, have.Name, objects.LabelManagedBy, objects.ManagerName, objects.LabelInstance, vm.Name)}
	}
	if have.DeletionTimestamp != nil {
		return waiting{reason: reasonOldObject, message: fmt.Sprintf("%s %s is being deleted: waiting until it is gone", k, have.Name)}
	}
	return nil
}

// refusedFrom is refused, with the field of the VM that something is made from.
func refusedFrom(field string, err error) outcome {
	o, is := refused(err).(stalled)
	if !is {
		return nil
	}
	o.message = field + ": " + o.message
	return o
}

// refused returns what the VM's user has to know of an error: that the API server
// takes something not as it is. Nil for errors of the moment.
func refused(err error) outcome {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || tooLarge(err) {
		return stalled{reasonRefused, readable(err.Error())}
	}
	return nil
}

// tooLarge tells whether an object has no room for what is written. What etcd does
// not take is an internal error, in its words.
func tooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || err != nil && strings.Contains(err.Error(), "etcdserver: request is too large")
}
