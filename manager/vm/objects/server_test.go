package objects_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/test/cluster"
	"vmop/test/cluster/clustertest"
	"vmop/test/tier"
)

// server is a real API server with the definition of VirtualMachines.
type server struct {
	*clustertest.Kubernetes
	dynamic.Interface
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{Kubernetes: clustertest.New(t, cluster.Options{Nodes: 1})}
	var err error
	s.Interface, err = dynamic.NewForConfig(s.Config)
	require.NoError(t, err)
	return s
}

func (s *server) kubectl(t *testing.T, args ...string) {
	t.Helper()
	_, err := s.Kubectl(t.Context(), args...)
	require.NoError(t, err)
}

// resourceOf returns the client for an object's resource.
func (s *server) resourceOf(object *unstructured.Unstructured) dynamic.ResourceInterface {
	kind := object.GroupVersionKind()
	plural := strings.ToLower(kind.Kind) + "s"
	if kind.Kind == "VirtualMachine" {
		plural = "vms"
	}
	return s.Resource(schema.GroupVersionResource{
		Group: kind.Group, Version: kind.Version,
		Resource: plural,
	}).Namespace(object.GetNamespace())
}

// apply applies an object, which can be a typed configuration, with strict validation.
func (s *server) apply(t *testing.T, configuration any) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(configuration)
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(text, &object.Object))
	is, err := s.resourceOf(object).Patch(t.Context(), object.GetName(), types.ApplyPatchType, text,
		metav1.PatchOptions{FieldManager: objects.ManagerName, Force: new(true), FieldValidation: "Strict"})
	require.NoError(t, err, "%s", text)
	return is
}

func asApplied[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	to := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, to))
	return to
}

// A real API server accepts all objects, and applying them again changes nothing.
func TestServer(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	s := startServer(t)
	t.Run("objects", func(t *testing.T) {
		t.Parallel()
		s.kubectl(t, "create", "namespace", "vmop-demo")
		s.kubectl(t, "create", "priorityclass", "vms", "--value=1")
		files, err := filepath.Glob(filepath.Join("testdata", "*.vm.yaml"))
		require.NoError(t, err)
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				s.objects(t, file)
			})
		}
	})
	t.Run("pod security", func(t *testing.T) {
		t.Parallel()
		s.podSecurity(t)
	})
	t.Run("rights", func(t *testing.T) {
		t.Parallel()
		s.rights(t)
	})
	t.Run("claims", func(t *testing.T) {
		t.Parallel()
		s.claims(t)
	})
}

func (s *server) objects(t *testing.T, file string) {
	want, err := withDefaults(file)
	require.NoError(t, err)
	given := map[string]any{}
	require.NoError(t, readYAML(file, &given))
	created := s.apply(t, given)
	spec, _, err := unstructured.NestedMap(created.Object, "spec")
	require.NoError(t, err)
	wantSpec, err := json.Marshal(want["spec"])
	require.NoError(t, err)
	hasSpec, err := json.Marshal(spec)
	require.NoError(t, err)
	require.JSONEq(t, string(wantSpec), string(hasSpec), "the golden files are made of what an API server returns")

	vm := asApplied[v1.VirtualMachine](t, created)
	for _, object := range all(t, vm, settingsOf(vm.Name)) {
		first := s.apply(t, object)
		again := s.apply(t, object)
		if first.GetKind() == "StatefulSet" { // its controller writes the status in the meantime
			require.Equal(t, first.GetGeneration(), again.GetGeneration())
			continue
		}
		if first.GetKind() != "PersistentVolumeClaim" { // so does the claims' controller
			require.Equal(t, first.GetResourceVersion(), again.GetResourceVersion(), "%s %s", first.GetKind(),
				first.GetName())
		}
		require.Equal(t, first.Object["spec"], again.Object["spec"])
		require.Equal(t, first.GetAnnotations(), again.GetAnnotations())
	}
}

// podSecurity tries every combination of privileged features: exactly the pods without listed privileges must pass the
// strictest level.
func (s *server) podSecurity(t *testing.T) {
	const namespace = "restricted"
	s.kubectl(t, "create", "namespace", namespace)
	s.kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	s.kubectl(t, "-n", namespace, "create", "serviceaccount", "vm-runner")
	for _, accelerator := range []string{"", "auto", "kvm", "tcg", "none"} {
		for kind, network := range networkSpecs() {
			for _, plugin := range []string{"", "devices.kubevirt.io/kvm"} {
				name := strings.Join([]string{"accelerator", accelerator, kind, plugin}, "-")
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					vm := podDefinition(t, filepath.Join("testdata", "sample.vm.yaml"))
					vm.Namespace, vm.Spec.VM.Accelerator = namespace, accelerator
					vm.Spec.VM.Networks = []v1.Network{{User: &v1.UserNetwork{}}, network}
					settings := settings()
					settings.KVMResource = plugin
					privileges := objects.Privileges(vm, settings)
					err := s.createPod(t, vm, settings)
					usesKVM := accelerator == "" || accelerator == "auto" || accelerator == "kvm"
					if kind == "user" && (!usesKVM || plugin != "") {
						require.NoError(t, err)
						for _, p := range privileges { // not covered by security levels
							require.Equal(t, "device "+plugin, p.Name)
						}
						return
					}
					require.True(t, apierrors.IsForbidden(err), "%v", err)
					require.NotEmpty(t, privileges)
					requireListed(t, err.Error(), privileges)
				})
			}
		}
	}
}

// requireListed requires every reason for a level's refusal to be listed as a privilege.
func requireListed(t *testing.T, refusal string, privileges []v1.Privilege) {
	t.Helper()
	var names []string
	for _, p := range privileges {
		require.True(t, strings.HasPrefix(p.Reason, "spec."), p.Reason)
		names = append(names, p.Name)
	}
	listed := strings.Join(names, ", ")
	for said, name := range map[string]string{
		"privileged (": "privileged", "host namespaces": "hostNetwork", "hostPath volumes": "device /dev/net/tun",
		"NET_ADMIN": "capability NET_ADMIN", "runAsUser=0": "root",
	} {
		if strings.Contains(refusal, said) {
			require.Contains(t, listed, name, refusal)
		}
	}
}

// createPod lets the API server validate a VM's pod.
func (s *server) createPod(t *testing.T, vm *v1.VirtualMachine, settings objects.Settings) error {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(podOf(t, vm, settings))
	require.NoError(t, err)
	object := &unstructured.Unstructured{Object: content}
	_, err = s.resourceOf(object).Create(t.Context(), object, metav1.CreateOptions{
		DryRun:          []string{metav1.DryRunAll},
		FieldValidation: "Strict",
	})
	return err
}

// claims creates a claim, binds it, and then requests another size.
func (s *server) claims(t *testing.T) {
	const namespace = "claims"
	s.kubectl(t, "create", "namespace", namespace)
	s.kubectl(t, "apply", "-f", filepath.Join("testdata", "growing.yaml"))
	vm := podDefinition(t, filepath.Join("testdata", "sample.vm.yaml"))
	vm.Namespace = namespace
	spec := &vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec
	spec.StorageClassName, spec.Selector = new("growing"), nil
	existing := map[string]metav1.ObjectMeta{}
	disk := func() objects.Claim {
		claims, err := objects.Claims(vm, settings(), objects.Existing{Claims: existing})
		require.NoError(t, err)
		return claims[1]
	}
	made := s.apply(t, disk().Apply)
	s.kubectl(t, "-n", namespace, "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/"+made.GetName(),
		"--timeout=60s")

	change := func(size string) (objects.Claim, *corev1.PersistentVolumeClaim) {
		spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
		is, err := s.resourceOf(made).Get(t.Context(), made.GetName(), metav1.GetOptions{})
		require.NoError(t, err)
		have := asApplied[corev1.PersistentVolumeClaim](t, is)
		existing[made.GetName()] = have.ObjectMeta
		c := disk()
		require.Nil(t, c.Apply)
		if c.Stale {
			patch, err := c.Change(have)
			require.NoError(t, err)
			is, err = s.resourceOf(made).Patch(t.Context(), made.GetName(), types.MergePatchType, patch,
				metav1.PatchOptions{FieldManager: objects.ManagerName, FieldValidation: "Strict"})
			require.NoError(t, err, "%s", patch)
			have = asApplied[corev1.PersistentVolumeClaim](t, is)
			existing[made.GetName()] = have.ObjectMeta
		}
		return c, have
	}
	size := func(claim *corev1.PersistentVolumeClaim) string {
		requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		return requested.String()
	}
	same, _ := change("40Gi")
	require.False(t, same.Stale)
	grown, have := change("50Gi")
	require.Nil(t, grown.Problem)
	require.Equal(t, "50Gi", size(have))
	require.False(t, disk().Stale)

	shrunk, have := change("10Gi")
	require.Equal(t, "50Gi", size(have))
	require.Contains(t, shrunk.Problem.Message, "stays at 50Gi")
	require.False(t, disk().Stale, "nothing more can be done")
	require.Equal(t, shrunk.Problem, disk().Problem, "known without a read")

	again, have := change("60Gi")
	require.Nil(t, again.Problem)
	require.Equal(t, "60Gi", size(have))
	require.Equal(t, "sample", have.Spec.VolumeName)
}
