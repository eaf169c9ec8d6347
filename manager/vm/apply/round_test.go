package apply

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/store/publish"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

var update = flag.Bool("update", false, "write testdata/rounds.txt anew")

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// server is an API server that records writes and gives every request the same answer.
type server struct {
	client.Client // nil: the test must not call other methods
	answer        error
	pod           *corev1.Pod // the stored pod; nil: none
	claim         *corev1.PersistentVolumeClaim
	log           []string
}

// secretive matches the random parts of written objects.
var secretive = regexp.MustCompile(`creating:[0-9a-f]{64}`)

func (s *server) note(o client.Object, format string, values ...any) error {
	const longest = 200
	text := secretive.ReplaceAllString(fmt.Sprintf(format, values...), "creating:HASH")
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	s.log = append(s.log, text)
	if s.answer == nil {
		o.SetResourceVersion("100")
		o.SetGeneration(7)
		o.SetUID("made")
	}
	return s.answer
}

func (s *server) Create(_ context.Context, o client.Object, opts ...client.CreateOption) error {
	if e, is := o.(*eventsv1.Event); is { // always accepted
		s.log = append(s.log, fmt.Sprintf("event %s %s by %s%s: %s", e.Type, e.Reason, e.Labels[publish.LabelInitiator],
			e.Annotations[publish.AnnotationUser], e.Note))
		return nil
	}
	var all client.CreateOptions
	all.ApplyOptions(opts)
	token := o.GetAnnotations()["vmoperator.jdrupes.org/token"]
	return s.note(o, "create %T %s as %s %v", o, o.GetName(), all.FieldManager, token)
}

func (s *server) Patch(_ context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	var all client.PatchOptions
	all.ApplyOptions(opts)
	text, err := p.Data(o)
	if err != nil {
		return err
	}
	if c, is := o.(*corev1.PersistentVolumeClaim); is && s.answer == nil && strings.Contains(string(text), "2Gi") {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	}
	return s.note(o, "%s %s %s as %s %t %s", p.Type(), o.GetObjectKind().GroupVersionKind().Kind, o.GetName(),
		all.FieldManager, all.Force != nil, text)
}

func (s *server) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	var all client.DeleteOptions
	all.ApplyOptions(opts)
	text := fmt.Sprintf("delete %T %s %s", o, o.GetName(), *all.Preconditions.UID)
	if all.GracePeriodSeconds != nil {
		text += fmt.Sprint(" in ", *all.GracePeriodSeconds, " s")
	}
	return s.note(o, "%s", text)
}

func (s *server) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.log = append(s.log, "read "+key.String())
	switch into := into.(type) {
	case *corev1.Pod:
		if s.pod != nil {
			s.pod.DeepCopyInto(into)
			return nil
		}
	case *corev1.PersistentVolumeClaim:
		if s.claim != nil {
			s.claim.DeepCopyInto(into)
			return nil
		}
	}
	if s.answer != nil {
		return s.answer
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, key.Name)
}

func (s *server) Status() client.SubResourceWriter { return statusOf{s: s} }

type statusOf struct {
	client.SubResourceWriter
	s *server
}

func (s statusOf) Patch(
	_ context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
) error {
	var all client.SubResourcePatchOptions
	all.ApplyOptions(opts)
	text, err := p.Data(o)
	if err != nil {
		return err
	}
	return s.s.note(o, "status %s %s as %s %t %s", p.Type(), o.GetName(), all.FieldManager, all.Force != nil, text)
}

// trial is one round for a running VM with its own disk.
type trial struct {
	*Round
	snapshot *decide.Snapshot
	known    *Memory
	server   *server
	starts   int
}

func newTrial(answer error, changes ...func(*trial)) *trial {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "vms", UID: "vm-1", ResourceVersion: "10", Generation: 3,
	}}
	vm.Spec.VM.State, vm.Spec.VM.MaximumCPUs, vm.Spec.VM.Accelerator = v1.Running, new(int32(1)), "tcg"
	vm.Spec.VM.MaximumRAM = new(resource.MustParse("1Gi"))
	template := &v1.VolumeClaimTemplate{Metadata: v1.ClaimMetadata{Name: "system"}}
	template.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	vm.Spec.VM.Disks = []v1.Disk{{VolumeClaimTemplate: template}}
	vm.Status.Phase, vm.Status.ObservedGeneration = v1.PhaseRunning, 3
	vm.Status.Runner = &v1.RunnerStatus{PodName: "web-0", PodUID: "1", State: "Booted"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web-0", Namespace: "vms", UID: "1", ResourceVersion: "20",
		CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Annotations: map[string]string{},
	}}
	pod.Spec.NodeName = "n1"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: objects.ContainerName, Ready: true, State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-time.Hour))},
		},
	}}
	settings := objects.DefaultSettings()
	settings.Image, settings.Version = "runner:1", "test"
	t := &trial{server: &server{answer: answer, pod: pod}, known: &Memory{}, snapshot: &decide.Snapshot{
		VM: vm, Pod: pod, Now: noon, Settings: settings, Claims: map[string]metav1.ObjectMeta{},
	}}
	for _, change := range changes {
		change(t)
	}
	w := NewWriter(t.server, t.server, "test", Rate{time.Minute, 1}, func(decide.Start) { t.starts++ })
	w.random = strings.NewReader(strings.Repeat("x", 64))
	t.Round = w.Begin(t.snapshot, t.known, 1)
	return t
}

// ours returns the metadata of an object of the VM.
func (t *trial) ours(k objects.Kind, version, hash string) *objects.Metadata {
	m := objects.NewMetadata(k)
	m.Name, m.UID, m.ResourceVersion, m.Generation = "web", "o-1", version, 5
	m.Annotations = map[string]string{objects.AnnotationApplied: hash}
	controller := metav1.NewControllerRef(t.snapshot.VM, v1.GroupVersion().WithKind("VirtualMachine"))
	m.OwnerReferences = []metav1.OwnerReference{*controller}
	return m
}

// answers returns the possible answers of an API server.
func answers() map[string]error {
	things := schema.GroupResource{Resource: "things"}
	return map[string]error{
		"1 accepted": nil, "2 not found": apierrors.NewNotFound(things, "x"),
		"3 conflict": apierrors.NewConflict(things, "x", fmt.Errorf("changed")),
		"4 exists":   apierrors.NewAlreadyExists(things, "x"),
		"5 refused":  apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "x", nil),
		"6 broken":   apierrors.NewInternalError(fmt.Errorf("no leader")),
	}
}

// told formats the results of a step.
func told(values ...any) string {
	var all []string
	for _, v := range values {
		if r, is := v.(decide.Report); is {
			again := after(r.Again)
			v = fmt.Sprintf("obstacle %+v, problems %v, again %s, error %v", r.Obstacle, r.Problems, again, r.Err)
		}
		all = append(all, fmt.Sprintf("%+v", v))
	}
	return strings.Join(all, ", ")
}

func after(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.Sub(noon).String()
}

// Each step writes exactly the requests in testdata/rounds.txt and reports the recorded outcome for every answer of the
// API server.
func TestRounds(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, step := range steps() {
		fmt.Fprintf(&text, "\n# %s\n", step.name)
		var asked string
		names := map[string]string{} // of the answers, by their outcome
		for _, answer := range slices.Sorted(maps.Keys(answers())) {
			r := newTrial(answers()[answer], step.given...)
			result := step.do(t.Context(), r)
			m, requests := r.known, strings.Join(r.server.log, "\n\t")
			outcome := fmt.Sprintf("%s; again %s, status %d, set %d, written %+v, starts %d", result, after(r.again),
				m.status, m.statefulSet, m.written, r.starts)
			if asked == "" {
				asked = requests
				outcome += "\n\t" + requests
			} else if requests != asked {
				outcome += "\n\t" + requests
			}
			names[outcome] = strings.TrimPrefix(names[outcome]+", "+answer[2:], ", ")
		}
		lines := slices.Sorted(maps.Keys(names))
		for _, outcome := range lines {
			fmt.Fprintf(&text, "%s: %s\n", names[outcome], outcome)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/rounds.txt", []byte(text.String()), 0o644))
	}
	want, err := os.ReadFile("testdata/rounds.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), text.String(), "go test ./manager/vm/apply -update writes what is done now")
}
