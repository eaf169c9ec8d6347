package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
	"vmop/test/tier"
)

const (
	namespace = "vms"
	vmCount   = 4
	diskCount = 3
)

// A world simulates a namespace with an API server, the controller of stateful sets, a kubelet, and a manager that is
// repeatedly killed.
type world struct {
	t       testing.TB
	random  *rand.Rand
	now     time.Time
	version int64
	cuts    float64
	cut     bool // the manager is dead

	vms     map[string]*v1.VirtualMachine
	disks   map[string]*v1.VirtualDisk
	images  map[string]*v1.VirtualImage
	claims  map[string]*corev1.PersistentVolumeClaim
	sets    map[string]*appsv1.StatefulSet
	read    map[string]*appsv1.StatefulSet // by the controller of stateful sets, which acts later
	pods    map[string]*corev1.Pod
	works   map[string]*corev1.Pod // import and export pods, by name
	keys    map[string]*corev1.Secret
	data    map[types.UID]string   // by claim UID; "" is half an image, or empty
	known   map[string]*corev1.Pod // to the manager, with a lagging watch
	events  []func()               // of the watch for disks, claims and import pods
	late    []func() error         // writes of managers that believe that they lead
	fails   float64                // fraction of imports that fail
	copies  int                    // begun copies
	ofClaim int                    // of these, copies of a VM's claim
	sent    int                    // begun exports
	refuses bool                   // the API server refuses images

	manager *Controller
}

var errKilled = errors.New("killed")

func newWorld(t testing.TB, seed uint64, cuts float64) *world {
	t.Helper()
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1<<30, 0), cuts: cuts, fails: 0.3,
		vms: map[string]*v1.VirtualMachine{}, disks: map[string]*v1.VirtualDisk{},
		images: map[string]*v1.VirtualImage{},
		claims: map[string]*corev1.PersistentVolumeClaim{}, sets: map[string]*appsv1.StatefulSet{},
		read: map[string]*appsv1.StatefulSet{}, pods: map[string]*corev1.Pod{},
		works: map[string]*corev1.Pod{}, keys: map[string]*corev1.Secret{}, data: map[types.UID]string{},
	}
	w.claims[ownClaim] = w.newOwnClaim()
	w.start()
	return w
}

// start starts a manager, which lists all objects.
func (w *world) start() {
	w.cut, w.events, w.known = false, nil, maps.Clone(w.pods)
	w.manager = New(Options{
		Namespace: namespace, Settings: objects.DefaultSettings, VMs: w, Client: w, Live: live{w},
		Exports: noExports{}, Now: func() time.Time { return w.now },
	})
	var disks []*v1.VirtualDisk
	for _, d := range w.disks {
		disks = append(disks, d.DeepCopy())
	}
	claims, ofImages := []*corev1.PersistentVolumeClaim(nil), []*corev1.PersistentVolumeClaim(nil)
	for name, c := range w.claims {
		switch {
		case name == ownClaim: // not a disk's claim
		case isOfImage(c):
			ofImages = append(ofImages, c.DeepCopy())
		default:
			claims = append(claims, c.DeepCopy())
		}
	}
	works, filling := []*corev1.Pod(nil), []*corev1.Pod(nil)
	for _, p := range w.works {
		if isOfImage(p) {
			filling = append(filling, p.DeepCopy())
		} else {
			works = append(works, p.DeepCopy())
		}
	}
	var images []*v1.VirtualImage
	for _, i := range w.images {
		images = append(images, i.DeepCopy())
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
		Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
	}}
	require.NoError(w.t, w.manager.book.Listing(disks, claims, works, []*storagev1.StorageClass{class}))
	require.NoError(w.t, w.manager.images.book.ListingImages(images, ofImages, filling))
}

// The manager's view of VMs.

func (w *world) VM(name string) (*v1.VirtualMachine, error) { return w.vms[name].DeepCopy(), nil }

func (w *world) Pod(vm string) (*corev1.Pod, error) { return w.known[vm].DeepCopy(), nil }

func (w *world) Metadata(objects.Kind, string) (*objects.Metadata, error) { return nil, nil }

func (w *world) UsersOf(objects.DeviceRef) []string { return nil }

func (w *world) EnqueueAny(...string) {}

// The API server.

func (w *world) next(o client.Object) {
	w.version++
	o.SetResourceVersion(strconv.FormatInt(w.version, 10))
}

func (w *world) see(o client.Object, gone bool) {
	o = o.DeepCopyObject().(client.Object)
	w.events = append(w.events, func() {
		book := w.manager.book
		if isOfImage(o) {
			book = w.manager.images.book
		}
		if gone {
			require.NoError(w.t, book.Forget(o))
		} else {
			require.NoError(w.t, book.Learn(o))
		}
	})
}

// write executes a write of the manager, who may be killed before or after it.
func (w *world) write(do func() error) error {
	if w.cut = w.cut || w.random.Float64() < w.cuts/2; w.cut {
		return errKilled
	}
	err := do()
	if w.cut = w.random.Float64() < w.cuts/2; w.cut {
		return errKilled
	}
	return err
}

func missing(name string) error { return apierrors.NewNotFound(schema.GroupResource{}, name) }

func (w *world) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if pod, is := o.(*corev1.Pod); is {
		return w.writeWork(func() error { return w.createWork(pod) })
	}
	if key, is := o.(*corev1.Secret); is {
		return w.writeWork(func() error { return w.createKey(key) })
	}
	if image, is := o.(*v1.VirtualImage); is {
		return w.write(func() error { return w.createImage(image) })
	}
	claim, is := o.(*corev1.PersistentVolumeClaim)
	if !is {
		return nil // an event
	}
	return w.write(func() error {
		if w.claims[claim.Name] != nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{}, claim.Name)
		}
		w.next(claim)
		claim.UID = types.UID("claim-" + claim.ResourceVersion)
		claim.Status.Phase = corev1.ClaimBound
		claim.Status.Capacity = claim.Spec.Resources.Requests
		w.claims[claim.Name] = claim.DeepCopy()
		w.see(claim, false)
		return nil
	})
}

func (w *world) Status() client.SubResourceWriter { return status{nil, w} }

type status struct {
	client.SubResourceWriter

	w *world
}

// Patch patches the status of a disk.
func (s status) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	text, err := p.Data(o)
	require.NoError(s.w.t, err)
	var steps []struct{ Value json.RawMessage }
	require.NoError(s.w.t, json.Unmarshal(text, &steps))
	if image, is := o.(*v1.VirtualImage); is {
		return s.w.write(func() error { return s.w.patchImage(image, steps[0].Value, steps[1].Value) })
	}
	return s.w.write(func() error {
		have := s.w.disks[o.GetName()]
		switch {
		case have == nil:
			return missing(o.GetName())
		case strings.Trim(string(steps[0].Value), `"`) != have.ResourceVersion:
			return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("it has another version"))
		}
		have = have.DeepCopy()
		have.Status = v1.VirtualDiskStatus{}
		require.NoError(s.w.t, json.Unmarshal(steps[1].Value, &have.Status))
		s.w.next(have)
		s.w.disks[have.Name] = have
		s.w.see(have, false)
		have.DeepCopyInto(o.(*v1.VirtualDisk))
		return nil
	})
}

// Writes that the manager never uses for disks.

func (w *world) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errors.ErrUnsupported
}

func (w *world) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errors.ErrUnsupported
}

func (w *world) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errors.ErrUnsupported
}

// live reads from the API server.
type live struct{ *world }

func (l live) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *appsv1.StatefulSet:
		if have := l.sets[key.Name]; have != nil {
			have.DeepCopyInto(into)
			return nil
		}
	case *corev1.Pod:
		if have := l.works[key.Name]; have != nil {
			have.DeepCopyInto(into)
			return nil
		}
	case *corev1.Secret:
		if have := l.keys[key.Name]; have != nil {
			have.DeepCopyInto(into)
			return nil
		}
	case *corev1.PersistentVolumeClaim:
		if have := l.claims[key.Name]; have != nil {
			have.DeepCopyInto(into)
			return nil
		}
	}
	return missing(key.Name)
}

func (l live) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var all client.ListOptions
	all.ApplyOptions(opts)
	for vm, pod := range l.pods {
		selected := map[string]string{objects.LabelName: objects.AppName, objects.LabelInstance: vm}
		if all.LabelSelector == nil || all.LabelSelector.Matches(labels.Set(selected)) {
			pods := into.(*corev1.PodList)
			pods.Items = append(pods.Items, *pod.DeepCopy())
		}
	}
	return nil
}

// reconcileVM does what the VM controller does about disks.
func (w *world) reconcileVM(name string) {
	if w.cut {
		return
	}
	vm := w.vms[name]
	if vm == nil {
		w.manager.Release(w.t.Context(), name, nil, nil)
		return
	}
	got, did := w.manager.Attach(w.t.Context(), vm.DeepCopy(), ownClaims(vm), objects.DefaultSettings())
	if w.cut {
		return
	}
	got.Unknown = got.Unknown || did.Obstacle != nil
	replicas, pod := int32(0), w.known[name]
	gated := pod != nil && len(pod.Spec.SchedulingGates) > 0
	if vm.Spec.DesiredState() == v1.Running && (!got.Unknown || pod != nil && !gated) {
		replicas = 1
	}
	spec := corev1.PodSpec{Volumes: ownVolumes(vm)}
	for _, ref := range objects.DeviceRefs(vm) {
		volume := corev1.Volume{Name: disk.VolumeName(ref.Name)}
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: disk.ClaimName(ref.Name)}
		if ref.Kind == v1.KindVirtualImage {
			volume.Name, volume.PersistentVolumeClaim.ClaimName = ref.Name, claimOfImage(got)
		}
		spec.Volumes = append(spec.Volumes, volume)
	}
	if got.Unknown {
		spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: objects.SchedulingGate}}
	}
	_ = w.write(func() error {
		set := w.sets[name].DeepCopy()
		if set == nil {
			set = &appsv1.StatefulSet{}
		}
		before := set.Spec.DeepCopy()
		set.Spec.Replicas, set.Spec.Template.Spec = &replicas, spec
		if !equality.Semantic.DeepEqual(before, &set.Spec) {
			set.Generation++
		}
		w.sets[name] = set
		return nil
	})
	if now := w.pods[name]; gated && !got.Unknown && now == pod {
		now.DeletionTimestamp = &metav1.Time{Time: w.now}
	}
	if !w.cut {
		w.manager.Release(w.t.Context(), name, vm.DeepCopy(), nil)
	}
}

// keepSet simulates the controller of stateful sets, which acts on an outdated read.
func (w *world) keepSet(name string) {
	set := w.read[name]
	delete(w.read, name)
	if set == nil || w.sets[name] == nil {
		if w.sets[name] != nil {
			w.read[name] = w.sets[name].DeepCopy()
		}
		return
	}
	pod := w.pods[name]
	switch {
	case *set.Spec.Replicas > 0 && pod == nil:
		w.pods[name] = &corev1.Pod{Spec: *set.Spec.Template.Spec.DeepCopy()}
	case *set.Spec.Replicas == 0 && pod != nil:
		pod.DeletionTimestamp = &metav1.Time{Time: w.now}
	}
	w.sets[name].Status.ObservedGeneration = set.Generation
}

// act executes a random step of a user, a controller, a kubelet, the watch, or the manager.
func (w *world) act() {
	name, data := fmt.Sprintf("vm-%d", w.random.IntN(vmCount)), fmt.Sprintf("disk-%d", w.random.IntN(diskCount))
	switch w.random.IntN(25) {
	case 0:
		w.define(name)
	case 1:
		if w.random.IntN(4) == 0 { // with all its objects except the pod, which ends later
			delete(w.vms, name)
			delete(w.sets, name)
			delete(w.read, name)
			if pod := w.pods[name]; pod != nil {
				pod.DeletionTimestamp = &metav1.Time{Time: w.now}
			}
		}
	case 2:
		if vm := w.vms[name]; vm != nil {
			vm.Spec.VM.State = []v1.State{v1.Running, v1.Stopped}[w.random.IntN(2)]
		}
	case 3:
		w.defineDisk(data)
	case 4:
		if pod := w.pods[name]; pod != nil && w.random.IntN(3) == 0 { // kubectl delete pod
			pod.DeletionTimestamp = &metav1.Time{Time: w.now}
		}
	case 5:
		if pod := w.pods[name]; pod != nil && pod.DeletionTimestamp != nil {
			delete(w.pods, name)
		}
	case 6:
		w.collect()
		w.known = maps.Clone(w.pods)
	case 7:
		for range min(w.random.IntN(6), len(w.events)) {
			event := w.events[0]
			w.events = w.events[1:]
			event()
		}
	case 8, 9:
		w.keepSet(name)
	case 10, 11, 12:
		w.reconcileVM(name)
	case 13, 14, 15:
		w.reconcileDisk(data)
	case 16, 17:
		w.work(disk.PodName(data))
		w.now = w.now.Add(5 * time.Second)
	case 18:
		w.defineImage(imageName)
	case 19, 20:
		w.reconcileImage(imageName)
	case 21:
		w.work(disk.ImagePodName(imageName))
	case 22:
		if len(w.late) > 0 {
			_ = w.late[0]() // its manager no longer waits
			w.late = w.late[1:]
		}
	case 23:
		w.askForExport(data)
	case 24:
		w.send(disk.ExporterName(data))
		w.send(disk.ImageExporterName(imageName))
	}
	if w.cut {
		w.start()
	}
}

// define creates a VM, or changes its disks.
func (w *world) define(name string) {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	vm.Spec.VM.State = v1.Running
	for i := range diskCount {
		if w.random.IntN(2) == 0 {
			ref := v1.BlockDeviceRef{Kind: v1.KindVirtualDisk, Name: fmt.Sprintf("disk-%d", i)}
			vm.Spec.BlockDeviceRefs = append(vm.Spec.BlockDeviceRefs, ref)
		}
	}
	if w.random.IntN(3) == 0 {
		ref := v1.BlockDeviceRef{Kind: v1.KindVirtualImage, Name: imageName}
		vm.Spec.BlockDeviceRefs = append(vm.Spec.BlockDeviceRefs, ref)
	}
	withOwnClaim(vm)
	w.vms[name] = vm
}

// defineDisk creates a disk, or deletes an unused one, as the policy requires.
func (w *world) defineDisk(name string) {
	d := w.disks[name]
	switch {
	case d == nil:
		d = &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		d.Spec.PersistentVolumeClaim.Size = resource.MustParse("1Gi")
		d.Spec.DataSource = w.anySource(name)
		w.next(d)
		d.UID = types.UID("disk-" + d.ResourceVersion)
		w.disks[name] = d
		w.see(d, false)
	case disk.Holder(d) == "" && len(d.Status.CopiedBy) == 0 && !disk.Exported(d) && w.random.IntN(4) == 0:
		delete(w.disks, name)
		w.see(d, true)
	}
}

// collect simulates the garbage collector, which removes the objects of deleted disks.
func (w *world) collect() {
	for name, claim := range w.claims {
		if name != ownClaim && !w.owned(claim) && !w.used(name) {
			delete(w.claims, name)
			w.see(claim, true)
		}
	}
	for name, pod := range w.works {
		if !w.owned(pod) {
			delete(w.works, name)
			w.see(pod, true)
		}
	}
	for name, key := range w.keys {
		if !w.podOf(key) && w.random.IntN(3) == 0 { // sooner or later
			delete(w.keys, name)
		}
	}
}

func (w *world) reconcileDisk(name string) {
	if w.cut {
		return
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if _, err := w.manager.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		require.ErrorIs(w.t, err, errKilled)
	}
}

// check verifies that each disk is in at most one startable pod, and only in a pod of the VM that uses the disk.
func (w *world) check() {
	w.t.Helper()
	for vm, pod := range w.pods {
		if len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		for _, volume := range pod.Spec.Volumes {
			if volume.Name == ownVolume {
				require.False(w.t, w.isRead(ownClaim), "the claim of %s is copied, and in its pod", vm)
				continue
			}
			if volume.Name == imageName {
				if claim := w.claims[volume.PersistentVolumeClaim.ClaimName]; claim != nil { // else it does not run
					require.Equal(w.t, whole, w.data[claim.UID], "the image is in the pod of %s", vm)
				}
				continue
			}
			name := strings.TrimSuffix(volume.Name, disk.VolumeName(""))
			d := w.disks[name]
			copied := w.isRead(disk.ClaimName(name))
			require.False(w.t, copied, "%s is copied, and in the pod of %s", volume.Name, vm)
			require.NotNil(w.t, d, "%s is in the pod of %s", volume.Name, vm)
			require.Equal(w.t, vm, disk.Holder(d), "%s is in the pod of %s", volume.Name, vm)
			if d.Spec.DataSource != nil {
				require.Equal(w.t, whole, w.data[d.Status.Target.UID], "%s is in the pod of %s", volume.Name, vm)
			}
		}
	}
}

// settle lets all participants finish.
func (w *world) settle() {
	w.cuts, w.cut, w.late, w.fails = 0, false, nil, 0
	w.start()
	for range 24 {
		w.collect()
		if w.images[imageName] == nil {
			w.defineImage(imageName)
		}
		for _, event := range w.events {
			event()
		}
		w.events = nil
		for range 3 {
			w.reconcileImage(imageName)
			w.work(disk.ImagePodName(imageName))
			w.send(disk.ImageExporterName(imageName))
		}
		for i := range diskCount {
			name := fmt.Sprintf("disk-%d", i)
			if w.disks[name] == nil {
				w.defineDisk(name)
			}
			for _, event := range w.events {
				event()
			}
			w.events = nil
			for range 3 {
				w.reconcileDisk(name)
				w.work(disk.PodName(name))
				w.send(disk.ExporterName(name))
			}
		}
		w.now = w.now.Add(10 * time.Minute)
		for i := range vmCount {
			name := fmt.Sprintf("vm-%d", i)
			for _, event := range w.events {
				event()
			}
			w.events = nil
			w.reconcileVM(name)
			w.keepSet(name)
			w.keepSet(name)
			if pod := w.pods[name]; pod != nil && pod.DeletionTimestamp != nil {
				delete(w.pods, name)
			}
			w.known = maps.Clone(w.pods)
			w.check()
		}
	}
}

// No disk is ever in two pods, and every VM eventually gets the disks that no other VM uses. That holds for any order
// of steps by users, controllers, kubelets and the watch, and for managers killed at any write.
func TestNoDiskHasTwoVMs(t *testing.T) {
	t.Parallel()
	shared, copies, ofClaim, sent := 0, 0, 0, 0
	rounds := tier.Rounds(60)
	for seed := range uint64(rounds) {
		w := newWorld(t, seed, 0.2)
		for range 2000 {
			w.act()
			w.check()
			shared += len(w.pods)
		}
		copies, ofClaim, sent = copies+w.copies, ofClaim+w.ofClaim, sent+w.sent
		w.settle()
		w.noExportIsLeft()
		for name, vm := range w.vms {
			pod := w.pods[name]
			if vm.Spec.DesiredState() != v1.Running || pod != nil && len(pod.Spec.SchedulingGates) == 0 {
				continue
			}
			waits := slices.ContainsFunc(vm.Spec.BlockDeviceRefs, func(r v1.BlockDeviceRef) bool {
				if r.Kind == v1.KindVirtualImage {
					return false
				}
				holder := disk.Holder(w.disks[r.Name])
				return holder != "" && holder != name || w.waitsForCopy(r.Name, 0)
			})
			got, did := w.manager.Attach(t.Context(), vm, ownClaims(vm), objects.DefaultSettings())
			require.True(t, waits, "seed %d: %s doesn't run: %+v, %+v, pod %+v", seed, name, got, did, w.pods[name])
		}
		for name, d := range w.disks {
			if vm := disk.Holder(d); vm != "" {
				require.NotNil(t, w.vms[vm], "seed %d: %s is left of %s", seed, name, vm)
				require.Equal(t, v1.Running, w.vms[vm].Spec.DesiredState(), "seed %d: %s has %s", seed, vm, name)
			}
		}
	}
	require.Greater(t, shared, 160*rounds, "pods are made")
	require.Greater(t, copies, rounds*5/6, "disks are copied")
	require.Greater(t, ofClaim, rounds/6, "a VM's claim is copied")
	require.Greater(t, sent, rounds*5/3, "disks are exported")
}

// noExports reports that no disk is attached to a running guest.
type noExports struct{}

func (noExports) Exported(context.Context, string, bool) (bool, error) { return false, nil }
