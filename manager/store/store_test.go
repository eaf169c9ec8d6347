package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// changes records the changes that a collection reports.
type changes struct {
	mu  sync.Mutex
	all []string
}

func (c *changes) record(name string, r record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, name+" of "+r.group)
}

// since returns the changes since its last call.
func (c *changes) since() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	slices.Sort(all)
	return all
}

func somePod(name, vm string, version int, nodeName string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "vms", ResourceVersion: fmt.Sprint(version),
		Labels: map[string]string{objects.LabelInstance: vm},
	}}
	pod.Spec.NodeName, pod.Spec.Hostname = nodeName, "not kept"
	return pod
}

func kindOf(o *objects.Metadata) objects.Kind {
	for k := range objects.Kinds {
		if k.String() == o.Kind {
			return k
		}
	}
	return objects.Kinds
}

func newQueue(t *testing.T) Queue {
	t.Helper()
	q := priorityqueue.New[reconcile.Request]("test")
	t.Cleanup(q.ShutDown)
	return q
}

// drain empties a queue.
func drain(q Queue) []string {
	var names []string
	for q.Len() > 0 {
		r, _ := q.Get()
		q.Done(r)
		names = append(names, r.Name)
	}
	return names
}

// Each change is reported for its VM, and only changes are reported.
func TestCollectionReportsChanges(t *testing.T) {
	t.Parallel()
	var seen changes
	pods := newCollection(podEncoding("vms"), newCompressor(), seen.record)
	require.NoError(t, pods.Add(somePod("a-0", "a", 1, "")))
	require.Equal(t, []string{"a-0 of a"}, seen.since(), "it is new")
	require.NoError(t, pods.Update(somePod("a-0", "a", 1, "")))
	require.NoError(t, pods.Update(somePod("a-0", "a", 2, "")))
	require.Empty(t, seen.since(), "nothing that is kept has changed")
	require.NoError(t, pods.Update(somePod("a-0", "a", 3, "n1")))
	require.Equal(t, []string{"a-0 of a"}, seen.since())
	have, err := pods.getObject("a-0")
	require.NoError(t, err)
	require.Equal(t, "3", have.ResourceVersion)

	require.NoError(t, pods.Add(somePod("other", "a", 4, "")))
	require.Equal(t, []string{"other"}, pods.irregularNames("a"))
	seen.since()
	require.NoError(t, pods.Update(somePod("other", "b", 5, "")))
	require.Equal(t, []string{"other of a", "other of b"}, seen.since(), "it has moved from one to another")
	require.Empty(t, pods.irregularNames("a"))
	require.Equal(t, []string{"other"}, pods.irregularNames("b"))

	require.NoError(t, pods.Delete(somePod("a-0", "a", 6, "n1")))
	require.NoError(t, pods.Delete(somePod("a-0", "a", 6, "n1")), "again")
	require.Equal(t, []string{"a-0 of a"}, seen.since())
	gone, err := pods.getObject("a-0")
	require.NoError(t, err)
	require.Nil(t, gone)

	require.NoError(t, pods.Replace([]any{somePod("c-0", "c", 7, "")}, "7"))
	require.Equal(t, []string{"c-0 of c", "other of b"}, seen.since(), "one is new, and one is gone")
	require.Empty(t, pods.irregularNames("b"))
	require.NoError(t, pods.Replace([]any{somePod("c-0", "c", 7, "")}, "8"))
	require.Empty(t, seen.since(), "nothing has changed meanwhile")
	require.Error(t, pods.Add(&corev1.Secret{}))
}

// The store returns the objects unchanged, except for the parts that it doesn't keep.
func TestStoreKeepsWhatIsRead(t *testing.T) {
	t.Parallel()
	m := New("vms", func() string { return "" })
	vm, pod, others := found(t, 7)
	require.NoError(t, m.vms.Add(vm.DeepCopy()))
	require.NoError(t, m.pods.Add(pod.DeepCopy()))
	trimVM(vm)
	vm.Namespace = "vms"
	have, err := m.vms.getObject(vm.Name)
	require.NoError(t, err)
	want, err := json.Marshal(vm)
	require.NoError(t, err)
	is, err := json.Marshal(have)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(is))
	trimPod(pod)
	pod.Namespace = "vms"
	havePod, err := m.pods.getObject(pod.Name)
	require.NoError(t, err)
	require.True(t, pod.Status.ContainerStatuses[0].State.Running.StartedAt.Equal(
		&havePod.Status.ContainerStatuses[0].State.Running.StartedAt))
	require.Equal(t, pod.String(), havePod.String())
	for _, o := range others {
		k := kindOf(o)
		require.NoError(t, m.others[k].Add(o.DeepCopy()))
		m.others[k].trim(o)
		have, err := m.others[k].getObject(o.Name)
		require.NoError(t, err)
		require.Equal(t, k.Version(), have.GroupVersionKind())
		require.Equal(t, "vms", have.Namespace)
		have.Namespace = ""
		require.Equal(t, o.ObjectMeta.String(), have.ObjectMeta.String())
	}
}

// The next list reveals all changes during a lost watch.
func TestCollectionAfterLostWatch(t *testing.T) {
	t.Parallel()
	var seen changes
	pods := newCollection(podEncoding("vms"), newCompressor(), seen.record)
	lists := []*corev1.PodList{
		{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{
			*somePod("a-0", "a", 1, ""),
			*somePod("b-0", "b", 2, ""), *somePod("c-0", "c", 3, ""),
		}},
		{ListMeta: metav1.ListMeta{ResourceVersion: "20"}, Items: []corev1.Pod{
			*somePod("a-0", "a", 1, ""),
			*somePod("b-0", "b", 12, "n1"), *somePod("d-0", "d", 13, ""),
		}},
	}
	watches := make(chan *watch.FakeWatcher, 2)
	var listed, watched int
	from := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			listed++
			return lists[min(listed, len(lists))-1], nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				// an old API server
				return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil)
			}
			watched++
			w := watch.NewFakeWithChanSize(1, false)
			watches <- w
			return w, nil
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		cache.NewReflectorWithOptions(from, &corev1.Pod{}, pods, cache.ReflectorOptions{}).RunWithContext(ctx)
	})
	defer following.Wait()
	defer cancel()
	first := <-watches
	<-pods.listed
	require.Equal(t, []string{"a-0 of a", "b-0 of b", "c-0 of c"}, seen.since())
	status := apierrors.NewResourceExpired("too old").Status()
	first.Error(&status)
	<-watches
	require.Equal(t, []string{"b-0 of b", "c-0 of c", "d-0 of d"}, seen.since())
	names := pods.objectNames()
	slices.Sort(names)
	require.Equal(t, []string{"a-0", "b-0", "d-0"}, names)
}

// Existing VMs are enqueued, but only while the manager leads.
func TestEnqueuedVMs(t *testing.T) {
	t.Parallel()
	m := New("vms", func() string { return "types" })
	q := newQueue(t)
	vm, pod, others := found(t, 1)
	require.NoError(t, m.vms.Add(vm.DeepCopy()))
	require.Zero(t, q.Len())
	m.enqueuer.addLast(vm.Name) // settings changed before this manager leads
	require.NoError(t, m.Start(t.Context(), q))
	require.Equal(t, []string{vm.Name}, drain(q), "that there is")
	require.NoError(t, m.pods.Add(pod))
	require.Equal(t, []string{vm.Name}, drain(q))
	require.NoError(t, m.pods.Add(somePod("x-0", "x", 1, "")))
	require.Empty(t, drain(q), "there is no such VM")
	for _, o := range others {
		what := o.Kind
		require.NoError(t, m.others[kindOf(o)].Add(o))
		require.Equal(t, []string{vm.Name}, drain(q), what)
	}
	types := objects.NewMetadata(objects.KindConfigMap)
	types.Name, types.ResourceVersion = "types", "1"
	require.NoError(t, m.others[objects.KindConfigMap].Add(types))
	require.Equal(t, []string{vm.Name}, drain(q), "it uses them")
	vm.Spec.VMType.ConfigMap, vm.ResourceVersion = "own", "4712"
	require.NoError(t, m.vms.Update(vm.DeepCopy()))
	drain(q)
	types = types.DeepCopy()
	types.Name, types.ResourceVersion = "types", "2"
	require.NoError(t, m.others[objects.KindConfigMap].Update(types))
	require.Empty(t, drain(q), "it has its own")
	types = objects.NewMetadata(objects.KindConfigMap)
	types.Name, types.ResourceVersion = "own", "1"
	require.NoError(t, m.others[objects.KindConfigMap].Add(types))
	require.Equal(t, []string{vm.Name}, drain(q))
	require.NoError(t, m.vms.Delete(vm))
	require.Equal(t, []string{vm.Name}, drain(q), "what was remembered of it is forgotten")
}

// Any data can be compressed and decompressed again, and equal data gives equal results.
func FuzzCompress(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte(typical))
	f.Add([]byte(strings.Repeat("x", 1<<16)))
	noise := make([]byte, 1<<12)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	f.Add(noise)
	by := newCompressor()
	f.Fuzz(func(t *testing.T, text []byte) {
		short, err := by.compressText(text)
		require.NoError(t, err)
		again, err := by.compressText(text)
		require.NoError(t, err)
		require.Equal(t, short, again, "what is equal stays equal")
		back, err := by.decompressText(short)
		require.NoError(t, err)
		require.Equal(t, string(text), string(back))
	})
}

// The store keeps only the allowed servers of an import's Secret and drops its other annotations.
func TestTheServersOfASecretAreKept(t *testing.T) {
	t.Parallel()
	m := objects.NewMetadata(objects.KindSecret)
	m.Annotations = map[string]string{v1.AnnotationHosts: "images.example.org", "other": "x"}
	e := dataEncoding("here")
	e.trim(m)
	text, err := e.encode(m)
	require.NoError(t, err)
	kept, err := e.decode(text)
	require.NoError(t, err)
	require.Equal(t, map[string]string{v1.AnnotationHosts: "images.example.org"}, kept.Annotations)
}
