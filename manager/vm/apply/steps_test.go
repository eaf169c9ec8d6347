package apply

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/operation"
	"vmop/manager/vm/class"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// step is one step of a round in a given situation.
type step struct {
	name  string
	given []func(*trial)
	do    func(context.Context, *trial) string
}

// The following functions set up the situation of a step.

func noPod(t *trial)   { t.snapshot.Pod, t.server.pod = nil, nil }
func stopped(t *trial) { t.snapshot.VM.Spec.VM.State = v1.Stopped }
func wished(t *trial)  { t.snapshot.VM.Generation = 4 }

func going(t *trial) {
	at := metav1.NewTime(noon.Add(-time.Hour))
	t.snapshot.Pod.DeletionTimestamp = &at
}

// ended lets the pod's container fail.
func ended(t *trial) {
	t.snapshot.Pod.Status.ContainerStatuses[0].Ready = false
	t.snapshot.Pod.Status.ContainerStatuses[0].State.Running = nil
	t.snapshot.Pod.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 1, Message: "boom", FinishedAt: metav1.NewTime(noon.Add(-time.Minute)),
	}
}

// unplaced removes the pod from its node.
func unplaced(t *trial) {
	t.snapshot.Pod.Spec.NodeName, t.snapshot.Pod.Status = "", corev1.PodStatus{}
	t.snapshot.Pod.Annotations[objects.AnnotationDefinition] = "{}"
}

// claimed creates the VM's claims, with or without the desired specification.
func claimed(asWanted bool) func(*trial) {
	return func(t *trial) {
		for _, c := range t.claims() {
			m := metav1.ObjectMeta{Name: c.Name, UID: "c-1", ResourceVersion: "30"}
			m.Labels = objects.Labels(t.snapshot.VM)
			m.Annotations = map[string]string{objects.AnnotationStorage: "512Mi"}
			if asWanted {
				m.Annotations = c.Apply.Annotations
			}
			t.snapshot.Claims[c.Name] = m
		}
		t.server.claim = &corev1.PersistentVolumeClaim{ObjectMeta: t.snapshot.Claims["system-disk-web-0"]}
		t.server.claim.Spec.VolumeName = "v"
		t.server.claim.Status.Phase = corev1.ClaimBound
		template := t.snapshot.VM.Spec.VM.Disks[0].VolumeClaimTemplate
		t.server.claim.Spec.Resources.Requests = template.Spec.Resources.Requests
	}
}

func (t *trial) claims() []objects.Claim {
	all, err := objects.Claims(t.snapshot.VM, t.snapshot.Settings, objects.Existing{Claims: t.snapshot.Claims})
	if err != nil {
		panic(err)
	}
	return all
}

// has gives the VM an object of a kind, with the hash of its applied version.
func has(k objects.Kind, hash string) func(*trial) {
	return func(t *trial) {
		m := t.ours(k, "40", hash)
		switch k {
		case objects.KindService:
			t.snapshot.Service = m
		case objects.KindStatefulSet:
			t.snapshot.StatefulSet = m
		case objects.KindDisruptionBudget:
			t.snapshot.DisruptionBudget = m
		case objects.KindConfigMap:
			t.snapshot.ConfigMap = m
		}
	}
}

// The following functions run one step each.

func ends(d decide.Decision) func(context.Context, *trial) string {
	return func(ctx context.Context, t *trial) string { return told(t.GuestEnd(ctx, d)) }
}

func holds(hold bool) func(context.Context, *trial) string {
	return func(ctx context.Context, t *trial) string { return told(t.Hold(ctx, hold)) }
}

func migrates(record *v1.Migration) func(context.Context, *trial) string {
	return func(ctx context.Context, t *trial) string { return told(t.Migration(ctx, record, 1)) }
}

func signals(s operation.Signal) func(context.Context, *trial) string {
	return func(ctx context.Context, t *trial) string { return told(t.w.Signal(ctx, s, t.VM, t.Pod)) }
}

func evicts(e decide.Eviction) func(context.Context, *trial) string {
	return func(ctx context.Context, t *trial) string { return told(t.Eviction(ctx, e)) }
}

func patches(secret string, config uint64, tls string) func(context.Context, *trial) string {
	return func(ctx context.Context, t *trial) string { return told(t.PatchPod(ctx, secret, config, tls, 0)) }
}

func sets(d decide.Decision, frozen bool) func(context.Context, *trial) string {
	return func(ctx context.Context, t *trial) string {
		next, did := t.StatefulSet(ctx, PodSource{Claims: t.claims(), Secret: "s", Frozen: frozen}, d)
		return told(len(next.Changes), next.Applied, next.Replace, did)
	}
}

func publishes(p decide.Phase) func(context.Context, *trial) string {
	return func(ctx context.Context, t *trial) string {
		findings := decide.Findings{Type: decide.TypeAccepted()}
		return told(t.Status(ctx, decide.Situation{Snapshot: t.Snapshot}, findings, p))
	}
}

func asked(what v1.OperationType, by string) *v1.VirtualMachineOperation {
	o := &v1.VirtualMachineOperation{ObjectMeta: metav1.ObjectMeta{
		Name: "op", Namespace: "vms", UID: "op-1", ResourceVersion: "50",
		Annotations: map[string]string{v1.AnnotationRequestedBy: by},
	}}
	o.Spec.Type, o.Spec.Force = what, what == v1.OperationStop
	o.Status.Phase, o.Status.Reason, o.Status.Message = v1.OperationFailed, "NotFound", "there is none"
	return o
}

func steps() []step {
	of := func(do func(context.Context, *trial) string, given ...func(*trial)) step { return step{"", given, do} }
	patch := []byte(`{"spec": {}}`)
	endTime := metav1.NewTime(noon)
	running := decide.Phase{Phase: v1.PhaseRunning}
	budget := decide.Eviction{Held: true}
	moved := &v1.Migration{
		Operation: "op", OperationUID: "op-1", Stage: v1.MigrationCompleted, EndTime: &endTime,
		Target: v1.MigrationPod{NodeName: "n2"},
	}
	allClaims := func(ctx context.Context, t *trial) string {
		frozen, did := t.Claims(ctx, t.claims())
		return told(frozen, did, t.known.made)
	}
	types := func(ctx context.Context, t *trial) string {
		pin := v1.VMTypeImage{Image: "mine:1", Digest: "sha256:1"}
		written, o, err := t.TypeImage(ctx, pin, objects.FetchedTypes{
			Pinned: "docker.io/mine@sha256:1", Modules: map[string]string{"mine.star": "x"},
		})
		return told(written, o, err)
	}
	final := func(ctx context.Context, t *trial) string { return told(t.FinalStatus(ctx)) }
	service := func(ctx context.Context, t *trial) string { return told(t.Service(ctx)) }
	secret := func(ctx context.Context, t *trial) string { return told(t.DisplaySecret(ctx)) }
	screen := func(t *trial) { t.snapshot.VM.Spec.VM.Display = &v1.Display{Spice: &v1.Spice{Port: 5900}} }
	balanced := func(t *trial) { t.snapshot.Settings.LoadBalancer = &objects.ServiceMetadata{} }
	old := func(t *trial) { t.known.written.setWrite("Pod", written{version: 21}) }
	theirs := func(t *trial) { t.snapshot.Service.OwnerReferences = nil }
	config := func(stays bool) func(context.Context, *trial) string {
		return func(ctx context.Context, t *trial) string { return told(t.ConfigMap(ctx, stays, objects.Given{})) }
	}
	type write = func(ClassWriter, context.Context, *v1.VirtualMachineClass) error
	by := func(do write) func(context.Context, *trial) string {
		return func(ctx context.Context, t *trial) string {
			c := &v1.VirtualMachineClass{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "class-1"}}
			return told(do(ClassWriter{t.server, "vms"}, ctx, c))
		}
	}
	named := map[string]step{
		"the guest has ended for good": of(ends(decide.Decision{Stop: true})),
		"the guest has ended for now":  of(ends(decide.Decision{Replace: "guest"})),
		"the guest has not ended":      of(ends(decide.Decision{Replicas: 1})),
		"the VM is restarted": of(
			func(ctx context.Context, t *trial) string { return told(t.RestartPod(ctx)) },
		),
		"a guest has moved":     of(migrates(moved)),
		"there is no migration": of(migrates(nil)),
		"a guest's claim is marked": of(
			func(ctx context.Context, t *trial) string { return told(t.MarkGuest(ctx)) }, claimed(true),
			func(t *trial) { t.snapshot.VM.Status.Migration = moved },
		),
		"a guest's claim needs no mark": of(
			func(ctx context.Context, t *trial) string { return told(t.MarkGuest(ctx)) },
		),
		"an arrival is forgotten": of(
			func(ctx context.Context, t *trial) string { return told(t.ForgetArrival(ctx)) },
		),
		"a VM is held": of(
			holds(true), func(t *trial) { t.snapshot.VM.Finalizers = []string{"a/b"} },
		),
		"a VM is held already": of(
			holds(true), func(t *trial) { t.snapshot.VM.Finalizers = []string{v1.MigrationFinalizer} },
		),
		"a VM is no longer held": of(
			holds(false), func(t *trial) { t.snapshot.VM.Finalizers = []string{v1.MigrationFinalizer, "a/b"} },
		),
		"an operation changes the VM":  of(signals(operation.Signal{Patch: patch, PatchType: apitypes.MergePatchType})),
		"an operation deletes the pod": of(signals(operation.Signal{DeletePod: "1"})),
		"an operation kills the guest": of(
			signals(operation.Signal{Patch: patch, PatchType: apitypes.MergePatchType, DeletePod: "1", AtOnce: true}),
		),
		"an operation has no signal":   of(signals(operation.Signal{})),
		"an eviction is allowed":       of(evicts(decide.Eviction{Again: noon.Add(time.Minute)})),
		"an eviction is allowed again": of(evicts(decide.Eviction{}), has(objects.KindDisruptionBudget, "x")),
		"an eviction is held":          of(evicts(budget)),
		"an eviction is held for long": of(evicts(decide.Eviction{Held: true, Why: "a disk"})),
		"a guest leaves its node":      of(evicts(decide.Eviction{Held: true, Move: true})),
		"a secret for the screen":      of(secret, screen),
		"a secret that was just made": of(
			secret, screen, func(t *trial) { t.known.written.setWrite("Secret", written{at: noon}) },
		),
		"a secret of the user's": of(
			secret, screen,
			func(t *trial) { t.snapshot.Secrets = []objects.Metadata{{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}} },
		),
		"a service":                    of(service, screen, balanced),
		"a service that has changed":   of(service, screen, balanced, has(objects.KindService, "x")),
		"a service that is not wanted": of(service, has(objects.KindService, "x")),
		"a service of another":         of(service, has(objects.KindService, "x"), theirs),
		"a service in the way":         of(service, screen, balanced, has(objects.KindService, "x"), theirs),
		"no service":                   of(service),
		"a configuration":              of(config(false), wished),
		"a configuration that stays":   of(config(true), wished),
		"a configuration with a mistake": of(
			config(false), func(t *trial) { t.snapshot.VM.Spec.LoggingProperties = ".level=LOUD" },
		),
		"a configuration without RAM": of(
			config(false), func(t *trial) { t.snapshot.VM.Spec.VM.MaximumRAM.Set(1) },
		),
		"a stateful set": of(sets(decide.Decision{Replicas: 1}, false), wished),
		"a stateful set of a new manager": of(
			sets(decide.Decision{Replicas: 1}, false), noPod, has(objects.KindStatefulSet, "x"),
		),
		"a stateful set that stops": of(
			sets(decide.Decision{}, false), stopped, has(objects.KindStatefulSet, "x"),
		),
		"a stateful set of a guest's end": of(sets(decide.Decision{Stop: true}, false)),
		"a stateful set of another": of(
			sets(decide.Decision{}, false), has(objects.KindStatefulSet, ""), foreign,
		),
		"a stateful set for a stuck pod": of(sets(decide.Decision{Replicas: 1}, true), unplaced),
		"a stateful set without claims": of(func(ctx context.Context, t *trial) string {
			next, did := t.StatefulSet(ctx, PodSource{}, decide.Decision{Replicas: 1})
			return told(next, did)
		}),
		"types of an image": of(types),
		"types that are known": of(types, func(t *trial) {
			t.snapshot.Types = t.ours(objects.KindConfigMap, "40", "x")
			t.snapshot.Types.Annotations[objects.AnnotationTypeImage] = "docker.io/mine@sha256:1"
			t.snapshot.VM.Status.VMTypeImage = &v1.VMTypeImage{Image: "mine:1", Digest: "sha256:1"}
		}),
		"types in the way": of(
			types, func(t *trial) { t.snapshot.Types = objects.NewMetadata(objects.KindConfigMap) },
		),
		"no types of an image": of(
			func(ctx context.Context, t *trial) string { return told(t.NoTypeImage(ctx)) },
		),
		"the last word of a machine": of(final, ended),
		"no last word of a machine":  of(final),
		"a last word of another pod": of(final, ended, func(t *trial) {
			t.server.pod = t.server.pod.DeepCopy()
			t.server.pod.UID = "2"
		}),
		"a last word of no pod": of(final, noPod),
		"a status":              of(publishes(running), wished),
		"a first status": of(
			publishes(running), wished, func(t *trial) { t.snapshot.VM.Status.Runner = nil },
		),
		"a start":           of(publishes(running), started),
		"a fleeting status": of(publishes(decide.Phase{Phase: v1.PhaseStarting, Fleeting: true})),
		"a status that was fleeting": of(
			publishes(decide.Phase{Phase: v1.PhaseStarting, Fleeting: true}),
			func(t *trial) { t.known.fleeting = noon.Add(-fleetingTime) },
		),
		"a fleeting status of a deletion": of(
			publishes(decide.Phase{Phase: v1.PhaseStarting, Fleeting: true}),
			func(t *trial) { t.snapshot.VM.DeletionTimestamp = &endTime },
		),
		"claims": of(allClaims, noPod),
		"claims that were just made": of(allClaims, noPod, func(t *trial) {
			for _, c := range t.claims() {
				t.known.written.setWrite(writtenClaim(&c), written{hash: c.Wanted(), at: noon})
			}
		}),
		"claims that are made again": of(allClaims, noPod, func(t *trial) {
			t.snapshot.VM.Status.UUID, t.known.tokens = "u", map[string]string{"system-disk-web-0": "token"}
		}),
		"claims that are lost": of(allClaims, func(t *trial) {
			v := corev1.Volume{Name: "system-disk"}
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "system-disk-web-0"}
			t.server.pod.Spec.Volumes = []corev1.Volume{{Name: "config"}, v}
		}),
		"claims that are as wanted": of(allClaims, claimed(true)),
		"claims that are to grow":   of(allClaims, claimed(false), grows),
		"claims that did not grow": of(allClaims, claimed(false), grows, func(t *trial) {
			for _, c := range t.claims() {
				r := refusal{hash: c.Wanted(), version: "30", problem: "no", at: noon.Add(1 - refusalLasts)}
				t.known.setRefusal(c.Name, r)
			}
		}),
		"claims that may grow by now": of(allClaims, claimed(false), grows, func(t *trial) {
			for _, c := range t.claims() {
				r := refusal{hash: c.Wanted(), version: "30", problem: "no", at: noon.Add(-refusalLasts)}
				t.known.setRefusal(c.Name, r)
			}
		}),
		"claims that are deleted under a guest": of(allClaims, claimed(true), deletedClaims),
		"claims that are deleted":               of(allClaims, claimed(true), deletedClaims, noPod),
		"claims of another": of(allClaims, claimed(true), func(t *trial) {
			m := t.snapshot.Claims["system-disk-web-0"]
			m.Labels = nil
			t.snapshot.Claims["system-disk-web-0"] = m
		}),
		"claims with what isn't trusted": of(allClaims, claimed(true), func(t *trial) {
			t.snapshot.VM.Spec.Image = &v1.Image{Source: "evil.example/x"}
		}),
		"claims of a VM with rights": of(
			allClaims, claimed(true), func(t *trial) { t.snapshot.VM.Spec.VM.Accelerator = "kvm" },
		),
		"claims of a snapshot": of(allClaims, noPod, func(t *trial) {
			t.snapshot.VM.Spec.DataSource = &v1.VirtualMachineDataSource{Kind: v1.KindVMSnapshot, Name: "s"}
		}),
		"claims are announced": of(announces, noPod),
		"claims of a VM with rights are": of(
			announces, noPod, func(t *trial) { t.snapshot.VM.Spec.VM.Accelerator = "kvm" },
		),
		"claims of a guest aren't":    of(announces, func(t *trial) { t.snapshot.VM.Spec.VM.Accelerator = "kvm" }),
		"a pod is as it should be":    of(patches("", 0, "")),
		"a pod gets files":            of(patches("s", 50, "5"), filed),
		"a pod has files":             of(patches("s", 0, ""), filed),
		"a pod that was just changed": of(patches("", 50, ""), old),
		"a pod that ends":             of(patches("", 50, ""), going),
		"a pod that is gone":          of(patches("", 50, ""), noPod),
		"a pod looks again": of(
			patches("", 0, ""), unseen,
			func(t *trial) { t.known.written.setWrite("Pod", written{at: noon.Add(-time.Minute)}) },
		),
		"a pod looks again later": of(
			patches("", 0, ""), unseen, func(t *trial) { t.known.written.setWrite("Pod", written{at: noon}) },
		),
		"a class has a status": of(by(func(w ClassWriter, ctx context.Context, c *v1.VirtualMachineClass) error {
			return w.Status(ctx, c, v1.VirtualMachineClassStatus{Phase: v1.ClassReady})
		})),
		"a class is used": of(by(func(w ClassWriter, ctx context.Context, c *v1.VirtualMachineClass) error {
			return w.Use(ctx, c, class.Use("vms", []string{"web"}))
		})),
		"a class isn't used": of(by(func(w ClassWriter, ctx context.Context, c *v1.VirtualMachineClass) error {
			return w.Use(ctx, c, class.Use("vms", nil))
		})),
		"a class is protected": of(by(func(w ClassWriter, ctx context.Context, c *v1.VirtualMachineClass) error {
			return w.Protect(ctx, c, true)
		})),
		"a class isn't protected": of(by(func(w ClassWriter, ctx context.Context, c *v1.VirtualMachineClass) error {
			return w.Protect(ctx, c, false)
		})),
		"an operation has a status": of(func(ctx context.Context, t *trial) string {
			o := asked(v1.OperationStart, "")
			written, err := t.w.OperationStatus(ctx, o)
			return told(written, err, o.ResourceVersion)
		}),
		"an operation is removed": of(func(ctx context.Context, t *trial) string {
			return told(t.w.RemoveOperation(ctx, asked(v1.OperationStart, "")))
		}),
		"operations have events": of(func(ctx context.Context, t *trial) string {
			both := []*v1.VirtualMachineOperation{asked(v1.OperationStart, "alice"), asked(v1.OperationStop, "")}
			for _, o := range both {
				t.w.OperationRequested(ctx, t.Snapshot, o)
				t.w.OperationFailed(ctx, t.Snapshot, o)
			}
			return told()
		}),
	}
	var all []step
	for _, name := range slices.Sorted(maps.Keys(named)) {
		one := named[name]
		one.name = name
		all = append(all, one)
	}
	return all
}

func announces(ctx context.Context, t *trial) string {
	announced, err := t.AnnounceClaims(ctx, t.claims())
	return told(announced, err, len(t.known.tokens))
}

// grows requests larger disks for the VM.
func grows(t *trial) {
	requests := t.snapshot.VM.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.Resources.Requests.DeepCopy()
	requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	t.snapshot.VM.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.Resources.Requests = requests
}

func deletedClaims(t *trial) {
	for name, m := range t.snapshot.Claims {
		m.DeletionTimestamp = &metav1.Time{Time: noon}
		t.snapshot.Claims[name] = m
	}
}

// foreign turns the stateful set into one of VM-Operator.
func foreign(t *trial) {
	set := t.snapshot.StatefulSet
	set.OwnerReferences = nil
	set.Labels = map[string]string{
		objects.LabelManagedBy: objects.ManagerName, objects.LabelInstance: "web",
	}
}

// started turns the VM into one with a guest that has just begun to run.
func started(t *trial) {
	t.snapshot.VM.Status.Phase = v1.PhaseStarting
	t.snapshot.VM.Status.Conditions = []metav1.Condition{{
		Type: v1.ConditionRunning, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon),
	}}
}

// filed adds files that were written while the pod already existed.
func filed(t *trial) {
	t.snapshot.ConfigMap = t.ours(objects.KindConfigMap, "41", "x")
	t.snapshot.Types = t.ours(objects.KindConfigMap, "42", "x")
	password, other := *t.ours(objects.KindSecret, "43", "x"), *t.ours(objects.KindSecret, "44", "x")
	password.Name = "s"
	t.snapshot.Secrets = []objects.Metadata{password, other}
	t.snapshot.Data = []*objects.Metadata{
		nil, t.ours(objects.KindSecret, "46", "x"), t.ours(objects.KindSecret, "45", "x"),
	}
	t.snapshot.Pod.Annotations[objects.AnnotationDiskTLSVersion] = "4"
	for _, m := range []*objects.Metadata{
		t.snapshot.ConfigMap, &t.snapshot.Secrets[0], &t.snapshot.Secrets[1], t.snapshot.Data[1],
	} {
		m.CreationTimestamp = metav1.NewTime(noon)
	}
}

// unseen adds a configuration that the runner hasn't compared yet.
func unseen(t *trial) {
	t.snapshot.ConfigMap = t.ours(objects.KindConfigMap, "41", "x")
	t.snapshot.VM.Status.Runner.ComparedGeneration = 2
	t.snapshot.Pod.Annotations[objects.AnnotationConfigVersion] = "41"
}
