package controller

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/attachment"
	"vmop/manager/store/publish"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// withoutDisks is a namespace without disks.
type withoutDisks struct{ namespace }

func (withoutDisks) Disk(string) (*v1.VirtualDisk, error) { return nil, nil }

func (withoutDisks) Mounted(context.Context, string, string) (mounted, settled bool, err error) {
	return false, true, nil
}

// live is the API server's pod and ConfigMap of a VM; nil means that the object doesn't exist.
type live struct {
	client.Reader

	pod    *corev1.Pod
	config *objects.Metadata
	err    error
}

func (l live) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.Pod:
		if l.pod != nil {
			l.pod.DeepCopyInto(into)
			return l.err
		}
	case *objects.Metadata:
		if l.config != nil {
			l.config.DeepCopyInto(into)
			return l.err
		}
	}
	return errors.Join(l.err, apierrors.NewNotFound(schema.GroupResource{}, "web"))
}

// with returns the metadata of a ConfigMap with one drive.
func with(address string) *objects.Metadata {
	config := &objects.Metadata{}
	config.Annotations = map[string]string{
		objects.AnnotationDrives: `{"revision":7,"drives":[{"disk":"data","address":"` + address + `"}]}`,
	}
	return config
}

// A disk is attached or detached only if the pod and the drives are still the same as at the decision.
func TestNothingIsDoneUponAnOutdatedPodOrConfiguration(t *testing.T) {
	t.Parallel()
	pod := func(uid types.UID, vm string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			UID: uid, Labels: map[string]string{objects.LabelInstance: vm},
		}}
	}
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "vm"}}
	for name, c := range map[string]struct {
		pod  *corev1.Pod // the pod in the cache
		live live
		want error
	}{
		"the same":             {pod("1", "web"), live{pod: pod("1", "web"), config: with("10.0.0.7")}, nil},
		"no pod":               {nil, live{config: with("10.0.0.7")}, nil},
		"another's pod":        {nil, live{pod: pod("1", "mail"), config: with("10.0.0.7")}, nil},
		"a pod that is gone":   {pod("1", "web"), live{config: with("10.0.0.7")}, errStale},
		"a pod that is new":    {nil, live{pod: pod("1", "web"), config: with("10.0.0.7")}, errStale},
		"another pod":          {pod("1", "web"), live{pod: pod("2", "web"), config: with("10.0.0.7")}, errStale},
		"another drive":        {pod("1", "web"), live{pod: pod("1", "web"), config: with("10.0.0.8")}, errStale},
		"no ConfigMap":         {pod("1", "web"), live{pod: pod("1", "web")}, errStale},
		"an unknown pod":       {nil, live{pod: pod("1", "mail"), err: errNotListed}, errNotListed},
		"an unknown ConfigMap": {nil, live{config: with("10.0.0.7"), err: errNotListed}, errNotListed},
	} {
		r := round{
			Controller: &Controller{opts: Options{Live: c.live}}, ctx: t.Context(),
			Subject: Subject{Name: "web", VM: vm}, pod: c.pod, drives: objects.DrivesOf(with("10.0.0.7")),
		}
		require.ErrorIs(t, r.checkUnchanged(), c.want, name)
	}
}

// A drive without an attachment is removed from the configuration of a stopped VM.
func TestADriveThatNothingAttachesIsRemoved(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "vm"}}
	n := withoutDisks{}
	c := New(Options{
		Namespace: "vms", Settings: objects.DefaultSettings, VMs: n, Disks: n, Live: live{config: with("10.0.0.7")},
		Now: func() time.Time { return now },
	})
	require.NoError(t, c.book.Listing(nil, nil))
	got, did := c.Attach(t.Context(), Subject{Name: "web", VM: vm, ConfigMap: with("10.0.0.7")})
	require.NoError(t, did.Err)
	require.Empty(t, got.Drives.All)
	require.Greater(t, got.Drives.Revision, int64(7))
}

// patches records the patches that a client sends, and answers each with err.
type patches struct {
	publish.Client

	all []map[string]any
	err error
}

func (p *patches) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	text, err := patch.Data(o)
	if err != nil {
		return err
	}
	what := map[string]any{}
	p.all = append(p.all, what)
	return errors.Join(json.Unmarshal(text, &what), p.err)
}

// A deleted attachment keeps its finalizer until the guest has released the disk. Only this finalizer is then removed,
// and only if the attachment is unchanged since it was read.
func TestADeletedAttachmentIsReleasedWhenItIsDone(t *testing.T) {
	t.Parallel()
	gone := apierrors.NewNotFound(schema.GroupResource{}, "a")
	for name, c := range map[string]struct {
		done bool
		err  error
		want []any
	}{
		"done":             {true, nil, []any{"another"}},
		"done, and gone":   {true, gone, []any{"another"}},
		"done, but failed": {true, errNotListed, []any{"another"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := someAttachment("a", "data", now)
			a.UID, a.ResourceVersion, a.DeletionTimestamp = "uid", "8", &metav1.Time{Time: now}
			a.Finalizers = []string{v1.AttachmentFinalizer, "another"}
			p, n, did := &patches{err: c.err}, withoutDisks{}, decide.Report{}
			r := round{
				Controller: New(Options{
					Namespace: "vms", VMs: n, Disks: n, Client: p, Now: func() time.Time { return now },
				}),
				ctx: t.Context(), did: &did,
			}
			require.NoError(t, r.book.Listing([]*vmbda{a.DeepCopy()}, nil))
			r.concludeAttachment(a, attachment.Situation{}, attachment.Plan{Done: c.done})
			require.Equal(t, []map[string]any{{"metadata": map[string]any{
				"resourceVersion": "8", "uid": "uid", "finalizers": c.want,
			}}}, p.all)
			if c.err == errNotListed {
				require.ErrorIs(t, did.Err, errNotListed)
			} else {
				require.NoError(t, did.Err)
			}
			require.Equal(t, c.err == gone, did.Again.Equal(now.Add(conflictRetry)))
		})
	}
}
