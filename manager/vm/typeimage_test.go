package vm

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
	"vmop/test/wait"
	"vmop/vmtypes/artifact"
)

// A typeRegistry is a registry with VM types.
type typeRegistry struct {
	t      *testing.T
	host   string
	down   atomic.Bool
	closed atomic.Bool // it wants the user me, with the password secret
}

func serveTypes(t *testing.T) *typeRegistry {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r := &typeRegistry{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		switch {
		case r.down.Load():
			w.WriteHeader(http.StatusBadGateway)
		case r.closed.Load() && (user != "me" || password != "secret"):
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			handler.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// push puts a type into the registry whose module is a text, and returns its digest.
func (r *typeRegistry) push(image, text string) string {
	r.t.Helper()
	c := &artifact.Content{Name: "mine", APIVersion: 1, Files: map[string]string{
		"mine.star": text, "mine_test.star": "x = 1\n", "mine.yaml": "\"/Runner\": {}\n",
	}}
	pinned, err := artifact.Registry{}.Push(r.t.Context(), image, c)
	require.NoError(r.t, err)
	_, digest, _ := strings.Cut(pinned, "@")
	return digest
}

func ofImage(image string) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) { vm.Spec.VMType = v1.VMType{Source: "mine", Image: image} }
}

// has waits until a VM has the types of an image, and returns its ConfigMap with them.
func (w *world) has(vm, image, digest string) *corev1.ConfigMap {
	w.t.Helper()
	eventually(w, vm, &v1.VirtualMachine{}, digest, func(vm *v1.VirtualMachine) bool {
		return vm.Status.VMTypeImage != nil && *vm.Status.VMTypeImage == v1.VMTypeImage{Image: image, Digest: digest}
	})
	have, there := get(w, vm+".vmtype", &corev1.ConfigMap{})
	require.True(w.t, there)
	return have
}

// A VM type of a registry is in a ConfigMap before the VM starts. What a tag means is looked up at
// each start, and a registry that doesn't answer keeps no VM from starting that has been there.
func TestTypesOfAnImage(t *testing.T) {
	t.Parallel()
	w, r := begin(t), serveTypes(t)
	image := r.host + "/types/mine:1"
	w.vm("web", ofImage(image))
	vm := w.phase("web", v1.PhaseFailed, decide.ReasonNotTrusted)
	require.Contains(t, vm.Status.Message, "spec.vmType.image: VM types are not taken from "+image)
	require.Len(t, w.events("web", decide.ReasonNotTrusted), 1)

	w.set(func(s *objects.Settings) {
		s.Trust.TypeImages = []objects.ImagePattern{objects.ImagePattern(r.host + "/types/*")}
	})
	vm = w.phase("web", v1.PhaseFailed, decide.ReasonTypeNotFetched)
	require.Contains(t, vm.Status.Message, "spec.vmType.image: VM type "+image+": the registry answers 404")
	require.Equal(t, decide.ReasonTypeNotFetched,
		meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionVMTypeAccepted).Reason)
	require.Len(t, w.events("web", decide.ReasonTypeNotFetched), 1)

	first := r.push(image, "x = 1\n")
	w.advance(time.Minute)
	pod := w.boot("web")
	have := w.has("web", image, first)
	require.Equal(t, map[string]string{"mine.star": "x = 1\n"}, have.Data)
	require.Equal(t, have.Data, w.types.seen("mine"))
	require.True(t, metav1.IsControlledBy(have, vm))
	mounted := false
	for _, v := range pod.Spec.Volumes {
		mounted = mounted || v.ConfigMap != nil && v.ConfigMap.Name == have.Name
	}
	require.True(t, mounted, "%+v", pod.Spec.Volumes)

	second := r.push(image, "x = 2\n")
	w.look()
	require.Equal(t, "x = 1\n", w.has("web", image, first).Data["mine.star"], "it runs")
	require.NoError(t, w.client.Delete(t.Context(), pod))
	require.Equal(t, "x = 2\n", w.has("web", image, second).Data["mine.star"])
	w.gone("web", pod)
	pod = w.boot("web")
	require.Equal(t, r.host+"/types/mine@"+second, w.has("web", image, second).Annotations[objects.AnnotationTypeImage])

	r.push(image, "x = 3\n")
	r.down.Store(true)
	require.NoError(t, w.client.Delete(t.Context(), pod))
	eventually(w, "web", &v1.VirtualMachine{}, "it says so", func(vm *v1.VirtualMachine) bool {
		_, message := reconciled(vm)
		return strings.Contains(message, "answers 502 Bad Gateway; the VM starts with what the image has meant before")
	})
	w.gone("web", pod)
	w.boot("web")
	require.Equal(t, "x = 2\n", w.has("web", image, second).Data["mine.star"])

	w.edit("web", ofImage(r.host+"/types/mine:2"))
	vm = eventually(w, "web", &v1.VirtualMachine{}, "it awaits a restart", func(vm *v1.VirtualMachine) bool {
		return len(vm.Status.RestartAwaitingChanges) > 0
	})
	require.Equal(t, "vmType.image", vm.Status.RestartAwaitingChanges[0].Path)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VMType = v1.VMType{Source: "standard"} })
	eventually(w, "web", &v1.VirtualMachine{}, "it has no image", func(vm *v1.VirtualMachine) bool {
		return vm.Status.VMTypeImage == nil
	})
}

// A VM that keeps its type keeps what the tag has meant.
func TestATypeOfAnImageThatIsKept(t *testing.T) {
	t.Parallel()
	w, r := begin(t), serveTypes(t)
	image := r.host + "/types/mine:1"
	w.set(func(s *objects.Settings) { s.Trust.TypeImages = []objects.ImagePattern{"*"} })
	first := r.push(image, "x = 1\n")
	w.vm("web", ofImage(image), func(vm *v1.VirtualMachine) { vm.Spec.VMType.Update = new(false) })
	pod := w.boot("web")
	w.has("web", image, first)
	r.push(image, "x = 2\n")
	require.NoError(t, w.client.Delete(t.Context(), pod))
	w.gone("web", pod)
	w.boot("web")
	require.Equal(t, "x = 1\n", w.has("web", image, first).Data["mine.star"])
}

// Credentials are in a Secret of the type that is meant for them. What a manager that was ended has
// left is found by the next one, and a ConfigMap that is gone is made again by the digest.
func TestACredentialForTypes(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), serveTypes(t)
	image := r.host + "/types/mine:1"
	digest := r.push(image, "x = 1\n")
	r.closed.Store(true)
	settings := *w.settings.Load()
	settings.Trust.TypeImages = []objects.ImagePattern{"*"}
	w.settings.Store(&settings)
	secret := func(name string, kind corev1.SecretType) {
		w.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Name}, Type: kind,
			StringData: map[string]string{
				corev1.DockerConfigJsonKey: `{"auths": {"` + r.host + `": {"username": "me", "password": "secret"}}}`,
			},
		})
	}
	secret("other", corev1.SecretTypeOpaque)
	secret("keys", corev1.SecretTypeDockerConfigJson)
	end := w.manage(nil)
	w.vm("web", ofImage(image))
	vm := w.phase("web", v1.PhaseFailed, decide.ReasonTypeNotFetched)
	require.Contains(t, vm.Status.Message, "401 Unauthorized")
	for name, text := range map[string]string{
		"other": "imagePullSecret other: want a Secret of the type kubernetes.io/dockerconfigjson",
		"none":  "imagePullSecret none: read the Secret:",
	} {
		w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VMType.ImagePullSecret = &v1.LocalSecretRef{Name: name} })
		eventually(w, "web", &v1.VirtualMachine{}, text, func(vm *v1.VirtualMachine) bool {
			return strings.Contains(vm.Status.Message, text)
		})
	}
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VMType.ImagePullSecret = &v1.LocalSecretRef{Name: "keys"} })
	w.boot("web")
	have := w.has("web", image, digest)
	require.NotContains(t, w.log.String(), "secret\"")

	end()
	require.NoError(t, w.client.Delete(t.Context(), have))
	w.manage(nil)
	wait.Until(t, func() bool {
		again, there := get(w, have.Name, &corev1.ConfigMap{})
		return there && again.Data["mine.star"] == "x = 1\n"
	})
}
