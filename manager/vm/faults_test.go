package vm

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/test/tier"
	"vmop/test/wait"
)

// A line is what a manager's requests go through to a real API server that it can lose, or that
// answers slowly, or that other clients write to at the same time.
type line struct {
	next http.RoundTripper

	mu        sync.Mutex
	gone      bool
	refused   int           // requests while it is gone
	delay     time.Duration // of each answer, and of each part of a watch
	disturbed int           // writes before which another client still changes the object
	conflicts int
	open      map[*answerBody]bool
}

var errGone = errors.New("connection refused")

// through returns a client's configuration of a manager that has only this line.
func (l *line) through(w *world) *rest.Config {
	config := rest.CopyConfig(w.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		l.next = next
		return l
	})
	return config
}

// set changes the line. What is open is closed.
func (l *line) set(gone bool, delay time.Duration) {
	l.mu.Lock()
	l.gone, l.delay = gone, delay
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for body := range open {
		_ = body.ReadCloser.Close()
	}
}

func (l *line) refusals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	delay, disturb := l.delay, r.Method == http.MethodPatch && l.disturbed > 0
	if disturb {
		l.disturbed--
	}
	if l.gone {
		l.refused++
		l.mu.Unlock()
		return nil, errGone
	}
	l.mu.Unlock()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(delay):
	}
	if disturb {
		if err := l.disturb(r); err != nil {
			return nil, err
		}
	}
	response, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body := &answerBody{response.Body, l, delay}
	response.Body = body
	l.mu.Lock()
	defer l.mu.Unlock()
	if response.StatusCode == http.StatusConflict {
		l.conflicts++
	}
	if l.open == nil {
		l.open = map[*answerBody]bool{}
	}
	l.open[body] = true
	return response, nil
}

// disturb changes the object of a request in the name of another client.
func (l *line) disturb(r *http.Request) error {
	other := r.Clone(r.Context())
	other.URL.Path, other.URL.RawQuery = strings.TrimSuffix(r.URL.Path, "/status"), ""
	text := fmt.Sprintf(`{"metadata": {"annotations": {"example.com/changed": "%d"}}}`, time.Now().UnixNano())
	other.Body, other.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	other.Header.Set("Content-Type", string(apitypes.MergePatchType))
	response, err := l.next.RoundTrip(other)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// answerBody is the body of an answer, whose parts arrive late.
type answerBody struct {
	io.ReadCloser
	line  *line
	delay time.Duration
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	<-time.After(b.delay)
	return n, err
}

func (b *answerBody) Close() error {
	b.line.mu.Lock()
	delete(b.line.open, b)
	b.line.mu.Unlock()
	return b.ReadCloser.Close()
}

// uid returns the uid of a VM's pod.
func (w *world) uid(vm string) apitypes.UID {
	w.t.Helper()
	pod, is := get(w, objects.PodName(vm, 0), &corev1.Pod{})
	require.True(w.t, is, vm)
	return pod.UID
}

// While the API server can't be reached a manager loses nothing: what has changed meanwhile is
// followed when it answers again, however slowly, and no other VM notices.
func TestFault35TheAPIServerIsAwayThenSlow(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := newWorld(t)
	w.play()
	l := &line{}
	w.start(l.through(w))
	for _, name := range []string{"keeps", "labeled", "stops"} {
		w.vm(name)
	}
	w.settled()
	before := map[string]apitypes.UID{"keeps": w.uid("keeps"), "labeled": w.uid("labeled")}

	l.set(true, 0)
	w.vm("new")
	w.edit("labeled", func(vm *v1.VirtualMachine) { vm.Labels = map[string]string{"tier": "front"} })
	w.edit("stops", stopped)
	wait.Until(t, func() bool { return l.refusals() > 20 }, "the manager keeps trying")
	vm, _ := get(w, "new", &v1.VirtualMachine{})
	require.Equal(t, "NotSeen", vm.Status.Reason)

	l.set(false, 200*time.Millisecond)
	eventually(w, objects.PodName("labeled", 0), &corev1.Pod{}, "it has the label", func(pod *corev1.Pod) bool {
		return pod.Labels["tier"] == "front"
	})
	w.settled()
	for name, uid := range before {
		require.Equal(t, uid, w.uid(name), name)
	}
}

// Two managers that both believe to lead, one of them with a clock that is an hour fast, make
// what one would make, and then don't undo each other's work.
func TestFault34TwoManagersAndAWrongClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play()
	first, second := newWire(), newWire()
	w.manage(first)
	w.ahead = time.Hour
	w.manage(second)
	var names []string
	for i := range 4 {
		names = append(names, fmt.Sprint("vm", i))
		edit := func(*v1.VirtualMachine) {}
		if i%2 == 0 {
			edit = privileged
		}
		w.vm(names[i], edit)
	}
	w.settled()
	claims := map[string]apitypes.UID{}
	for _, name := range names {
		claim, _ := get(w, "runner-data-"+name+"-0", &corev1.PersistentVolumeClaim{})
		claims[claim.Name] = claim.UID
	}
	for _, edit := range []func(*v1.VirtualMachine){stopped, running} {
		for _, name := range names {
			w.edit(name, edit)
		}
		w.settled()
	}
	for name, uid := range claims {
		claim, _ := get(w, name, &corev1.PersistentVolumeClaim{})
		require.Equal(t, uid, claim.UID, name)
	}
	pods := map[string]apitypes.UID{}
	for _, name := range names {
		pods[name] = w.uid(name)
	}
	written := func() int { return len(first.written()) + len(second.written()) }
	wait.Until(t, func() bool {
		was := written()
		w.look()
		w.look()
		<-time.After(10 * tick)
		return written() == was
	}, "they agree")
	for name, uid := range pods {
		require.Equal(t, uid, w.uid(name), name)
	}
}

// What a user wants last is what comes about, however often it has changed, and though other
// clients change each object in the moment in which the manager writes it.
func TestFault41OthersWriteAtTheSameTime(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := newWorld(t)
	w.play()
	l := &line{disturbed: 100}
	w.start(l.through(w))
	w.vm("web", privileged)
	for i := range 100 {
		w.edit("web", func(vm *v1.VirtualMachine) {
			vm.Labels = map[string]string{"edit": fmt.Sprint(i)}
			vm.Spec.VM.CurrentCPUs = new(int32(1 + i%2))
			vm.Spec.VM.State = []v1.State{v1.Stopped, v1.Running}[i/7%2]
		})
	}
	w.edit("web", running)
	w.settled()
	eventually(w, objects.PodName("web", 0), &corev1.Pod{}, "it has the last label", func(pod *corev1.Pod) bool {
		return pod.Labels["edit"] == "99" && pod.DeletionTimestamp == nil
	})
	eventually(w, "web", &corev1.ConfigMap{}, "it is the last definition", func(c *corev1.ConfigMap) bool {
		return strings.Contains(c.Data[objects.ConfigKey], "currentCpus: 2")
	})
	claim, _ := get(w, "runner-data-web-0", &corev1.PersistentVolumeClaim{})
	w.recorded(claim, "")
	var pods corev1.PodList
	require.NoError(t, w.client.List(t.Context(), &pods, client.InNamespace(w.Name)))
	require.Len(t, pods.Items, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Positive(t, l.conflicts)
}
