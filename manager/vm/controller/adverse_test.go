package controller

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
)

// troubled is an API server that fails the first attempt of each write and of each read of an object. Some failed
// writes are carried out, but their answer is lost. Events always arrive, because they are sent only once.
type troubled struct {
	next  http.RoundTripper
	mu    sync.Mutex
	asked map[string]int
	told  []string
}

// RoundTrip implements http.RoundTripper.
func (s *troubled) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && !named(r.URL.Path) || strings.HasSuffix(r.URL.Path, "/events") {
		return s.next.RoundTrip(r)
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	s.mu.Lock()
	what := r.Method + r.URL.Path + string(body)
	s.asked[what]++
	first, trouble := s.asked[what] == 1, len(s.told)%6
	if first {
		s.told = append(s.told, fmt.Sprint(trouble, " ", r.Method, " ", r.URL.Path))
	}
	s.mu.Unlock()
	if !first {
		return s.next.RoundTrip(r)
	}
	switch trouble {
	case 0:
		return answer(r, 500, "InternalError", "etcdserver: leader changed"), nil
	case 1:
		return answer(r, 429, "TooManyRequests", "the server has received too many requests"), nil
	case 2:
		return answer(r, 504, "Timeout", "context deadline exceeded"), nil
	case 3:
		return nil, errCut
	case 4: // an unreachable webhook
		return answer(r, 500, "InternalError", "failed calling webhook"), nil
	}
	if response, err := s.next.RoundTrip(r); err == nil {
		_ = response.Body.Close()
	}
	return nil, errCut
}

func answer(r *http.Request, code int, reason, message string) *http.Response {
	body := fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d, "reason": %q, "message": %q}`, code, reason, message)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

// The manager completes each task exactly once despite any errors from the API server.
func TestFault35TheAPIServerFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := rest.CopyConfig(w.Config)
	server := &troubled{asked: map[string]int{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		server.next = next
		return server
	})
	vms, _ := w.start(config)
	require.NoError(t, vms.store.Await(t.Context()))
	w.vm("web", func(vm *v1.VirtualMachine) { vm.Spec.GuestShutdownStops = true })
	pod := w.boot("web")
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Labels = map[string]string{"tier": "front"} })
	eventually(w, pod.Name, &corev1.Pod{}, "has the label", func(p *corev1.Pod) bool {
		return p.Labels["tier"] == "front"
	})
	w.say("web", pod, stateStopped, &v1.Outcome{Cause: causeGuest})
	eventually(w, "web", &v1.VirtualMachine{}, "is stopped", func(vm *v1.VirtualMachine) bool {
		return vm.Spec.VM.State == v1.Stopped
	})
	w.removeWhenTold(pod)
	w.phase("web", v1.PhaseStopped, decide.ReasonGuestShutdown)
	w.edit("web", running)
	second := w.boot("web")
	w.report(second, w.endedWith(1, `{"cause":"crashed","message":"boom"}`))
	w.phase("web", v1.PhaseFailed, decide.ReasonCrashed)
	w.removeWhenTold(second)
	w.advance(11 * time.Second)
	w.boot("web")
	vm := eventually(w, "web", &v1.VirtualMachine{}, "all is well", func(vm *v1.VirtualMachine) bool {
		status, _ := reconciled(vm)
		return status == metav1.ConditionTrue
	})
	require.Equal(t, int32(1), vm.Status.Failures.Count)
	for _, reason := range []string{"Stopped", decide.ReasonCrashed} {
		require.Len(t, w.events("web", reason), 1)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	t.Log(strings.Join(server.told, "\n"))
	require.Greater(t, len(server.told), 20)
}
