package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
	"vmop/manager/vm/objects"
	"vmop/runner/control"
	"vmop/runner/status"
)

// stage is a cluster with a disk, a VM with its own claim and this disk, storage with snapshots, and a guest.
type stage struct {
	client.Client // nil: the test must not call other methods

	vm      *v1.VirtualMachine
	pod     *corev1.Pod // nil: no pod exists
	disk    *v1.VirtualDisk
	set     *appsv1.StatefulSet
	class   *storagev1.StorageClass
	claims  map[string]*corev1.PersistentVolumeClaim
	classes []string // VolumeSnapshotClasses of the driver
	made    []*unstructured.Unstructured
	fails   map[string]error // by a substring of "verb kind name"
	creates func()           // called when a VolumeSnapshot is created
	shows   time.Duration    // until a VolumeSnapshot has its creation time

	answer status.FreezeAnswer
	err    error
	thawed int // file systems
	acts   []string
}

func newStage() *stage {
	class := "fast"
	s := &stage{
		vm: &v1.VirtualMachine{}, pod: &corev1.Pod{}, disk: &v1.VirtualDisk{}, set: &appsv1.StatefulSet{},
		class: &storagev1.StorageClass{Provisioner: "driver"}, classes: []string{"snaps"}, fails: map[string]error{},
		claims: map[string]*corev1.PersistentVolumeClaim{},
		answer: status.FreezeAnswer{Frozen: true, FileSystems: 2}, thawed: 2, creates: func() {},
	}
	s.class.Name = class
	s.vm.Name, s.vm.Namespace, s.vm.UID, s.vm.Labels = "web", "vms", "vm-1", map[string]string{"team": "green"}
	s.vm.Annotations = map[string]string{
		"note": "x", v1.GroupName + "/x": "x", "kubectl.kubernetes.io/last-applied-configuration": "x",
	}
	s.vm.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: "data"}}
	s.pod.UID, s.pod.Status.Phase = "pod-1", corev1.PodRunning
	s.disk.Name, s.disk.UID, s.disk.Status.Phase = "data", "disk-1", v1.DiskReady
	s.disk.Status.Target = v1.DiskTarget{PersistentVolumeClaimName: "vd-data", UID: "c-vd-data"}
	for _, name := range []string{"vd-data", "runner-data-web-0"} {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("c-" + name), Labels: objects.Labels(s.vm),
		}}
		c.Spec.StorageClassName, c.Status.Phase = &class, corev1.ClaimBound
		s.claims[name] = c
	}
	s.claims["vd-data"].Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	s.claims["vd-data"].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	s.set.UID, s.set.Generation, s.set.Status.ObservedGeneration, s.set.Spec.Replicas = "set-1", 4, 4, new(int32(0))
	return s
}

// attached attaches the disk to the VM.
func attached(s *stage) {
	s.disk.Status.AttachedToVirtualMachines = []v1.AttachedVirtualMachine{{Name: "web"}}
}

// off stops the VM.
func off(s *stage) { s.pod = nil }

func (s *stage) fail(what string) error {
	for part, err := range s.fails {
		if strings.Contains(what, part) {
			return err
		}
	}
	return nil
}

func missing(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, name)
}

func (s *stage) VM(string) (*v1.VirtualMachine, error) { return s.vm, s.fail("know VM") }
func (s *stage) Pod(string) (*corev1.Pod, error)       { return s.pod, s.fail("know Pod") }
func (s *stage) Disk(name string) (*v1.VirtualDisk, error) {
	return s.disk, s.fail("know disk " + name)
}

func (s *stage) Metadata(k objects.Kind, name string) (*objects.Metadata, error) {
	if c := s.claims[name]; c != nil && k == objects.KindClaim {
		return &objects.Metadata{ObjectMeta: c.ObjectMeta}, s.fail("know claim")
	}
	return nil, s.fail("know " + k.String())
}

func (s *stage) Freeze(context.Context, time.Duration) (status.FreezeAnswer, error) {
	s.acts = append(s.acts, "freeze")
	return s.answer, s.err
}

func (s *stage) Thaw(context.Context) (status.FreezeAnswer, error) {
	s.acts = append(s.acts, "thaw")
	return status.FreezeAnswer{FileSystems: s.thawed}, s.fail("thaw")
}

func (s *stage) Create(_ context.Context, o client.Object, opts ...client.CreateOption) error {
	var all client.CreateOptions
	all.ApplyOptions(opts)
	if len(all.DryRun) > 0 {
		return s.fail("try " + o.GetName())
	}
	o.SetUID(types.UID("made-" + o.GetName()))
	o.SetCreationTimestamp(metav1.Now())
	s.made = append(s.made, o.(*unstructured.Unstructured))
	s.creates()
	return s.fail("create " + o.GetName())
}

func (s *stage) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	var all client.DeleteOptions
	all.ApplyOptions(opts)
	s.acts = append(s.acts, fmt.Sprint("delete ", o.GetNamespace(), "/", o.GetName(), " ", *all.Preconditions.UID))
	return s.fail("delete")
}

func (s *stage) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if err := s.fail(fmt.Sprintf("read %T %s", into, key.Name)); err != nil {
		return err
	}
	switch into := into.(type) {
	case *corev1.PersistentVolumeClaim:
		if c := s.claims[key.Name]; c != nil {
			c.DeepCopyInto(into)
			return nil
		}
	case *storagev1.StorageClass:
		s.class.DeepCopyInto(into)
		return nil
	case *v1.VirtualDisk:
		s.disk.DeepCopyInto(into)
		return nil
	case *appsv1.StatefulSet:
		if s.set != nil {
			s.set.DeepCopyInto(into)
			return nil
		}
	case *corev1.Pod:
		if s.pod != nil {
			s.pod.DeepCopyInto(into)
			return nil
		}
	case *unstructured.Unstructured:
		for _, o := range s.made {
			if o.GetName() == key.Name {
				o.DeepCopyInto(into)
				if at := o.GetCreationTimestamp().Add(s.shows); !time.Now().Before(at) {
					into.Object["status"] = map[string]any{"creationTime": at.UTC().Format(time.RFC3339)}
				}
				return nil
			}
		}
	}
	return missing(key.Name)
}

func (s *stage) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for _, name := range s.classes {
		o := unstructured.Unstructured{Object: map[string]any{"driver": "driver"}}
		o.SetName(name)
		list.(*unstructured.UnstructuredList).Items = append(list.(*unstructured.UnstructuredList).Items, o)
	}
	return s.fail("list")
}

func (s *stage) options() Options {
	settings := objects.DefaultSettings()
	return Options{
		Namespace: "vms", VMs: s, Disks: s, Client: s, Live: s, Now: time.Now,
		Settings: func() objects.Settings { return settings },
		Guest:    func(*v1.VirtualMachine, *corev1.Pod) (Guest, error) { return s, s.fail("reach") },
	}
}

// errNoRoute is the error of an unreachable server.
var errNoRoute = errors.New("no route")

// fails lets the matching calls fail.
func fails(what string) func(*stage) { return func(s *stage) { s.fails[what] = errNoRoute } }

// with is a list of changes to a stage.
type with []func(*stage)

// busy is the error of a guest that another client has frozen.
var busy = &control.AnswerError{Code: http.StatusConflict, Message: "frozen already"}

// A disk is captured while nothing writes to it; otherwise the obstacle is reported. A guest is frozen only if the
// VolumeSnapshot can be created, and is always thawed afterward.
func TestAttemptsOfDisks(t *testing.T) {
	t.Parallel()
	const frozen, unfrozen = "freeze thaw", "freeze"
	agentless := func(s *stage) {
		s.answer = status.FreezeAnswer{Message: "not frozen: crash-consistent, because no agent is connected"}
	}
	for what, row := range map[string]struct {
		change   with
		required bool
		reason   string
		message  string // "": consistent
		acts     string
	}{
		"of no VM":   {nil, true, "", "", ""},
		"of a guest": {with{attached}, true, "", "", frozen},
		"slowly": {
			with{attached, func(s *stage) { s.shows = freezeTime - thawMargin - pollTime }}, true, "", "", frozen,
		},
		"too late": {
			with{attached, func(s *stage) { s.shows = freezeTime }},
			true, "",
			"did not create the snapshot while the guest's", frozen,
		},
		"thawed before": {
			with{attached, func(s *stage) { s.thawed = 0 }},
			true, "", "were thawed before the snapshot was created",
			frozen,
		},
		"not thawed": {
			with{attached, fails("thaw")}, true, "", "were thawed before the snapshot was created", frozen,
		},
		"taken meanwhile": {
			with{func(s *stage) { s.creates = func() { attached(s) } }}, true, "", "a VM started to use", "",
		},
		"unknown meanwhile": {with{fails("VirtualDisk")}, true, "", "a VM started to use", ""},
		"no agent": {
			with{attached, agentless},
			false, "",
			"the VM web is running, and its file systems are not frozen: no agent is connected", unfrozen,
		},
		"no agent, wanted": {
			with{attached, agentless},
			true, snapshot.ReasonNotConsistent,
			"no agent is connected; it is asked for a consistent one", unfrozen,
		},
		"frozen already": {
			with{attached, func(s *stage) { s.err = busy }},
			false, snapshot.ReasonBusy, "the VM web: frozen already",
			unfrozen,
		},
		"not to be frozen": {
			with{attached, func(s *stage) { s.err = errNoRoute }}, false, "", "are not frozen: no route", unfrozen,
		},
		"refused, not busy": {
			with{attached, func(s *stage) { s.err = &control.AnswerError{Code: 500, Message: "failed"} }},
			false, "",
			"are not frozen: failed", unfrozen,
		},
		"not to be reached":  {with{attached, fails("reach")}, false, "", "are not frozen: no route", ""},
		"a VM without a pod": {with{attached, off}, false, snapshot.ReasonBusy, "is starting or stopping", ""},
		"a guest that moves": {with{attached, func(s *stage) {
			s.vm.Status.Migration = &v1.Migration{Stage: v1.MigrationMoving}
		}}, false, snapshot.ReasonBusy, "is migrating", ""},
		"a VM that isn't known": {with{attached, fails("know VM")}, false, snapshot.ReasonRefused, "no route", ""},
		"a pod that isn't":      {with{attached, fails("know Pod")}, false, snapshot.ReasonRefused, "no route", ""},
		"a claim that is gone": {
			with{attached, func(s *stage) { delete(s.claims, "vd-data") }},
			false, snapshot.ReasonRefused, "not found",
			"",
		},
		"another claim": {
			with{attached, func(s *stage) { s.claims["vd-data"].UID = "other" }},
			false, snapshot.ReasonDiskNotReady,
			"no storage class", "",
		},
		"no storage class": {
			with{attached, func(s *stage) { s.claims["vd-data"].Spec.StorageClassName = nil }},
			false,
			snapshot.ReasonDiskNotReady, "no storage class", "",
		},
		"an unknown class":    {with{attached, fails("StorageClass")}, false, snapshot.ReasonRefused, "no route", ""},
		"no lists of classes": {with{attached, fails("list")}, false, snapshot.ReasonRefused, "no route", ""},
		"no class": {
			with{attached, func(s *stage) { s.classes = nil }},
			false, snapshot.ReasonUnsupported,
			"there is no VolumeSnapshotClass for the driver driver", "",
		},
		"refused before": {
			with{attached, fails("try")}, false, snapshot.ReasonRefused, "tried again every minute: no route", "",
		},
		"refused then": {
			with{attached, fails("create")},
			false, snapshot.ReasonRefused, "tried again every minute: no route",
			frozen,
		},
		"deleted meanwhile": {
			with{attached, func(s *stage) { s.creates = func() { s.made = nil } }},
			false, "",
			"did not create the snapshot", frozen,
		},
		"unreadable meanwhile": {
			with{attached, fails("Unstructured")}, false, "", "did not create the snapshot", frozen,
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				for _, change := range row.change {
					change(s)
				}
				of := &v1.VirtualDiskSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "vms", UID: "s-1"}}
				of.Spec.RequiredConsistency = row.required
				got := New(s.options()).attemptSnapshot(t.Context(), of, s.disk.DeepCopy())
				require.Equal(t, row.reason, got.Reason)
				require.Contains(t, got.Message, row.message)
				require.Equal(t, row.message == "", got.Consistent)
				require.Equal(t, got.Consistent, got.Message == "")
				require.Equal(t, row.acts, strings.Join(s.acts, " "))
			})
		})
	}
}

// All volumes of a VM are captured at one point in time, while its guest is frozen or the VM is stopped.
func TestAttemptsOfMachines(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		change   func(*stage)
		reason   string
		message  string // "": consistent
		acts     string
		optional bool // consistency is optional
	}{
		"of a guest":             {attached, "", "", "freeze thaw", false},
		"of a VM that is off":    {off, "", "", "", false},
		"of a VM that never ran": {func(s *stage) { off(s); s.set = nil }, "", "", "", false},
		"too late": {
			func(s *stage) { s.shows = freezeTime }, "", "did not create the snapshots", "freeze thaw", false,
		},
		"thawed before": {
			func(s *stage) { s.thawed = 0 }, "", "were thawed before the snapshots", "freeze thaw", false,
		},
		"not to be frozen": {func(s *stage) { s.err = errNoRoute }, "", "no route", "freeze", true},
		"not frozen, but wanted": {
			func(s *stage) { s.err = errNoRoute }, snapshot.ReasonNotConsistent, "no route", "freeze", false,
		},
		"a pod that ends": {
			func(s *stage) { s.pod.DeletionTimestamp = &metav1.Time{} }, snapshot.ReasonBusy, "or stopping", "",
			false,
		},
		"a pod that starts": {
			func(s *stage) { s.pod.Status.Phase = corev1.PodPending }, snapshot.ReasonBusy, "starting or stopping", "",
			false,
		},
		"a pod that isn't known": {fails("know Pod"), snapshot.ReasonRefused, "no route", "", false},
		"a set that isn't known": {fails("StatefulSet"), snapshot.ReasonRefused, "no route", "", false},
		"a pod that isn't read":  {fails("read *v1.Pod"), snapshot.ReasonRefused, "no route", "", false},
		"a VM that is to run": {
			func(s *stage) { off(s); s.set.Spec.Replicas = new(int32(1)) }, snapshot.ReasonBusy, "starting or stopping",
			"", false,
		},
		"a VM of which no one": {func(s *stage) { off(s); s.set.Spec.Replicas = nil }, "", "", "", false},
		"a set that isn't seen": {
			func(s *stage) { off(s); s.set.Status.ObservedGeneration = 3 }, snapshot.ReasonBusy, "starting or stopping",
			"", false,
		},
		"started meanwhile": {func(s *stage) {
			off(s)
			s.creates = func() { s.set.Generation, s.set.Status.ObservedGeneration = 6, 6 }
		}, "", "was started while", "", false},
		"a disk taken meanwhile": {
			func(s *stage) { off(s); s.creates = func() { attached(s) } }, "", "was started while", "", false,
		},
		"unknown meanwhile": {
			func(s *stage) { off(s); s.creates = func() { s.fails["StatefulSet"] = errNoRoute } },
			"", "was started while", "", false,
		},
		"a claim without a class": {
			func(s *stage) { s.claims["vd-data"].Spec.StorageClassName = nil }, snapshot.ReasonDiskNotReady,
			"the claim vd-data: ", "", false,
		},
		"a claim without volume": {
			func(s *stage) { s.claims["vd-data"].Status.Phase = corev1.ClaimPending }, snapshot.ReasonDiskNotReady,
			"the claim vd-data has no volume yet", "", false,
		},
		"another class is wanted": {
			func(s *stage) { s.classes = []string{"other"} }, snapshot.ReasonNoClass,
			"there is no VolumeSnapshotClass snaps (spec.volumeSnapshotClasses)", "", false,
		},
		"refused before": {fails("try vms-s-1"), snapshot.ReasonRefused, "no route", "", false},
		"refused then":   {fails("create vms-s-1"), snapshot.ReasonRefused, "no route", "freeze thaw", false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				row.change(s)
				m := NewMachines(s.options())
				of := ofMachine()
				of.Spec.RequiredConsistency = new(!row.optional)
				p, why, err := m.planOf(of)
				require.NoError(t, err)
				require.Nil(t, why)
				got := m.attemptSnapshot(t.Context(), of, p)
				require.Equal(t, row.reason, got.Reason)
				require.Contains(t, got.Message, row.message)
				require.Equal(t, row.message == "", got.Consistent)
				require.Equal(t, row.acts, strings.Join(s.acts, " "))
				if !got.Made() {
					return
				}
				require.Equal(t, []v1.SnapshotVolume{
					{
						VolumeSnapshotName: "vms-s-0", VolumeSnapshotUID: "made-vms-s-0", Name: "runner-data",
						PersistentVolumeClaimName: "runner-data-web-0", PersistentVolumeClaimUID: "c-runner-data-web-0",
						StorageClassName: "fast", VolumeMode: corev1.PersistentVolumeFilesystem,
						Untrusted: got.Volumes[0].Untrusted,
					},
					{
						VolumeSnapshotName: "vms-s-1", VolumeSnapshotUID: "made-vms-s-1", VirtualDiskName: "data",
						PersistentVolumeClaimName: "vd-data", PersistentVolumeClaimUID: "c-vd-data",
						StorageClassName: "fast", VolumeMode: corev1.PersistentVolumeBlock,
						AccessMode: corev1.ReadWriteMany,
					},
				}, got.Volumes)
				require.Equal(t, s.vm.Labels, got.Definition.Labels)
				require.Equal(t, map[string]string{"note": "x"}, got.Definition.Annotations)
				require.Contains(t, string(got.Definition.Spec.Raw), `"name":"data"`)
				first := s.made[0]
				require.True(t, metav1.IsControlledBy(first, of))
				require.Nil(t, first.GetOwnerReferences()[0].BlockOwnerDeletion)
				require.Equal(t, "s", first.GetLabels()[objects.LabelInstance])
				require.Equal(t, map[string]any{
					"volumeSnapshotClassName": "snaps",
					"source":                  map[string]any{"persistentVolumeClaimName": "runner-data-web-0"},
				}, first.Object["spec"])
			})
		})
	}
}

func ofMachine() *v1.VirtualMachineSnapshot {
	of := &v1.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "vms", UID: "s-1"}}
	of.Spec.VirtualMachineName = "web"
	of.Spec.VolumeSnapshotClasses = []v1.VolumeSnapshotClassOf{
		{StorageClassName: "slow", VolumeSnapshotClassName: "other"},
		{StorageClassName: "fast", VolumeSnapshotClassName: "snaps"},
	}
	return of
}

// A pending snapshot of a VM reports the obstacle.
func TestPlansOfMachines(t *testing.T) {
	t.Parallel()
	for reason, rows := range map[string]map[string]func(*stage){
		snapshot.ReasonMachine: {
			"there is no VM web": func(s *stage) { s.vm = nil },
			"or it is being":     func(s *stage) { s.vm.DeletionTimestamp = &metav1.Time{} },
		},
		snapshot.ReasonBusy: {"gets other volumes": func(s *stage) {
			s.vm.Status.RestartAwaitingChanges = []v1.RestartAwaitingChange{{Path: "claimNameSuffix"}}
		}},
		snapshot.ReasonNoVolume: {
			"does not exist yet":  func(s *stage) { delete(s.claims, "runner-data-web-0") },
			"belongs to the VM x": func(s *stage) { s.claims["runner-data-web-0"].Labels[objects.LabelInstance] = "x" },
		},
		snapshot.ReasonDiskMissing: {
			"there is no VirtualDisk data (spec.blockDeviceRefs[0])": func(s *stage) { s.disk = nil },
		},
		snapshot.ReasonDiskNotReady: {"is Failed: it broke": func(s *stage) {
			s.disk.Status.Phase, s.disk.Status.Message = v1.DiskFailed, "it broke"
		}},
		snapshot.ReasonDiskInUse: {"is attached to the VM db": func(s *stage) {
			s.disk.Status.AttachedToVirtualMachines = []v1.AttachedVirtualMachine{{Name: "db"}}
		}},
	} {
		for message, change := range rows {
			s := newStage()
			change(s)
			_, why, err := NewMachines(s.options()).planOf(ofMachine())
			require.NoError(t, err)
			require.NotNil(t, why, message)
			require.Equal(t, reason, why.Reason, message)
			require.Contains(t, why.Message, message)
		}
	}
	for _, what := range []string{"know VM", "know claim", "know ConfigMap", "know disk data"} {
		s := newStage()
		s.fails[what] = errNoRoute
		_, _, err := NewMachines(s.options()).planOf(ofMachine())
		require.ErrorIs(t, err, errNoRoute, what)
	}
}

// A failed attempt is repeated after a pause, which is shorter if another attempt was in the way. A successful attempt
// isn't repeated.
func TestWhenAnAttemptIsMadeAgain(t *testing.T) {
	t.Parallel()
	for reason, after := range map[string]time.Duration{
		snapshot.ReasonRefused: refusedRetry, snapshot.ReasonBusy: busyRetry, "": 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &attempts{now: time.Now, all: map[types.UID]*attempt{}}
			of, goes, ended := ofMachine(), make(chan struct{}), make(chan struct{})
			runs, came, _ := a.attemptOf(of.UID)
			require.True(t, !runs && came == nil)
			a.beginAttempt(t.Context(), of, func(ctx context.Context) snapshot.Outcome {
				<-goes
				require.NoError(t, ctx.Err())
				return snapshot.Outcome{Reason: reason}
			}, func() { close(ended) })
			runs, _, _ = a.attemptOf(of.UID)
			require.True(t, runs)
			a.forgetEnded("s", func(types.UID) bool { return false })
			require.Len(t, a.all, 1, "it has not ended")
			close(goes)
			<-ended
			_, came, again := a.attemptOf(of.UID)
			require.Equal(t, reason, came.Reason)
			require.Equal(t, after, again)
			a.forgetEnded("other", func(types.UID) bool { return false })
			a.forgetEnded("s", func(uid types.UID) bool { return uid == of.UID })
			time.Sleep(after)
			_, came, _ = a.attemptOf(of.UID)
			require.Equal(t, reason == "", came != nil)
			a.forgetEnded("s", func(types.UID) bool { return false })
			require.Empty(t, a.all)
		})
	}
}

// A VolumeSnapshot counts as gone when its UID no longer exists, only this UID is deleted, and missing rights are
// reported with their remedy.
func TestVolumeSnapshots(t *testing.T) {
	t.Parallel()
	s := newStage()
	m := maker{s.options()}
	gone, err := m.isObjectGone(t.Context(), "vds-s", "u")
	require.NoError(t, err)
	require.True(t, gone)
	o := volumeSnapshot(ofMachine(), v1.KindVMSnapshot, snapshot.AppName, wantedVolume{name: "vds-s"})
	o.SetUID("u")
	s.made = append(s.made, o)
	for uid, want := range map[types.UID]bool{"u": false, "v": true} {
		gone, err = m.isObjectGone(t.Context(), "vds-s", uid)
		require.NoError(t, err)
		require.Equal(t, want, gone)
	}
	s.fails["read"] = errors.New("no route")
	gone, err = m.isObjectGone(t.Context(), "vds-s", "v")
	require.Error(t, err)
	require.False(t, gone)
	require.NoError(t, m.removeSnapshot(t.Context(), "vds-s", "u"))
	require.Equal(t, []string{"delete vms/vds-s u"}, s.acts)
	s.fails["delete"] = missing("vds-s")
	require.NoError(t, m.removeSnapshot(t.Context(), "vds-s", "u"))
	things := schema.GroupResource{Resource: "things"}
	const remedy = "the administrator applies deploy/manager/account.yaml"
	require.Contains(t, outcomeOfError(apierrors.NewForbidden(things, "x", errors.New("no"))).Message, remedy)
	require.NotContains(t, outcomeOfError(apierrors.NewForbidden(things, "x", errors.New("exceeded quota"))).Message,
		remedy)
	require.NotContains(t, outcomeOfError(errors.New("no")).Message, remedy)
}

// A snapshot includes the disks in the VM's definition and the guest's attached disks, but not images, which are
// shared.
func TestDisksOf(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	vm.Spec.VM.Disks = []v1.Disk{{VirtualDisk: &v1.VirtualDiskRef{Name: "system"}}}
	vm.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{
		{Kind: v1.KindVirtualImage, Name: "tools"}, {Kind: v1.KindVirtualDisk, Name: "data"},
	}
	vm.Status.BlockDeviceRefs = []v1.BlockDeviceStatusRef{
		{Kind: v1.KindVirtualDisk, Name: "data", Attached: true},
		{Kind: v1.KindVirtualDisk, Name: "former", Attached: true},
		{Kind: v1.KindVirtualDisk, Name: "more", Attached: true, Hotplugged: true},
		{Kind: v1.KindVirtualDisk, Name: "coming", Hotplugged: true},
	}
	var names []string
	for _, ref := range disksOf(vm) {
		names = append(names, ref.Name)
	}
	require.Equal(t, []string{"system", "data", "more"}, names)
}
