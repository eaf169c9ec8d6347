package k8s_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	v1 "vmop/api/v1"
)

// bearer returns a client with the token in the service account's folder.
func (p *place) bearer() dynamic.Interface {
	p.t.Helper()
	config := &rest.Config{Host: p.Config.Host, Dial: p.Dial, QPS: -1, BearerToken: p.read(p.account + "/token")}
	config.CAFile = p.account + "/ca.crt"
	client, err := dynamic.NewForConfig(config)
	require.NoError(p.t, err)
	return client
}

// event returns an event about an object.
func event(namespace, kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": map[string]any{
			"generateName": "x-",
			"namespace":    namespace,
		},
		"eventTime": "2026-01-02T03:04:05.000000Z", "reportingInstance": "z",
		"reportingController": "vmoperator.jdrupes.org/vm-runner",
		"action":              "A", "reason": "R", "type": "Normal",
		"regarding": map[string]any{"apiVersion": "v1", "kind": kind, "name": name, "namespace": namespace},
	}}
}

// The token of a VM's pod permits only that VM's status and events about it. Everything else is refused, even with a
// stolen token.
func TestATokenIsHeldToItsVM(t *testing.T) {
	t.Parallel()
	p, elsewhere := newPlace(t), newPlace(t)
	p.Apply(machine("other"), machine("web-0"), pod("other-0"), pod("web"),
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")
	vms, events := v1.GroupVersion().WithResource("vms"), schema.GroupVersionResource{
		Group:   "events.k8s.io",
		Version: "v1", Resource: "events",
	}
	ctx := t.Context()
	client := p.bearer()
	const cpus, spec = `{"status": {"cpus": 3}}`, `{"spec": {"guestShutdownStops": true}}`
	patch := func(c dynamic.Interface, namespace, name, body string, sub ...string) error {
		_, err := c.Resource(vms).Namespace(namespace).Patch(ctx, name, types.MergePatchType, []byte(body),
			metav1.PatchOptions{}, sub...)
		return err
	}
	told := func(namespace, kind, name string) error {
		_, err := client.Resource(events).Namespace(namespace).Create(ctx, event(namespace, kind, name),
			metav1.CreateOptions{})
		return err
	}
	require.NoError(t, patch(client, p.Name, "web", cpus, "status"))
	require.NoError(t, patch(client, p.Name, "web", "{}", "status"))
	require.NoError(t, told(p.Name, "VirtualMachine", "web"))
	for name, try := range map[string]func() error{
		"the status of another VM": func() error {
			return patch(client, p.Name, "other", cpus, "status")
		},
		"the status of a VM called like the pod": func() error {
			return patch(client, p.Name, "web-0", cpus, "status")
		},
		"a patch of nothing, which reads another": func() error {
			return patch(client, p.Name, "other", "{}", "status")
		},
		"the status of a namesake elsewhere": func() error {
			return patch(client, elsewhere.Name, "web", cpus, "status")
		},
		"the definition": func() error { return patch(client, p.Name, "web", spec) },
		"the definition, by way of the status": func() error {
			return patch(client, p.Name, "web", `{"metadata": {"ownerReferences": []}}`)
		},
		"an event about another VM":     func() error { return told(p.Name, "VirtualMachine", "other") },
		"an event about something else": func() error { return told(p.Name, "Pod", "web") },
		"an event elsewhere":            func() error { return told(elsewhere.Name, "VirtualMachine", "web") },
		"an event that a manager seems to have written": func() error {
			e := event(p.Name, "VirtualMachine", "web")
			e.Object["reportingController"] = "vmoperator.jdrupes.org/vm-manager"
			_, err := client.Resource(events).Namespace(p.Name).Create(ctx, e, metav1.CreateOptions{})
			return err
		},
		"reading the VM": func() error {
			_, err := client.Resource(vms).Namespace(p.Name).Get(ctx, "web", metav1.GetOptions{})
			return err
		},
		"listing VMs": func() error {
			_, err := client.Resource(vms).Namespace(p.Name).List(ctx, metav1.ListOptions{})
			return err
		},
		"deleting the VM": func() error {
			return client.Resource(vms).Namespace(p.Name).Delete(ctx, "web", metav1.DeleteOptions{})
		},
		"reading a secret": func() error {
			_, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(
				p.Name).Get(ctx, "s", metav1.GetOptions{})
			return err
		},
		"deleting a pod": func() error {
			return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(
				p.Name).Delete(ctx, "other-0", metav1.DeleteOptions{})
		},
		"a pod that is not one of a StatefulSet's": func() error {
			p.token("web")
			return patch(p.bearer(), p.Name, "web", cpus, "status")
		},
		"a token that is bound to no pod": func() error {
			p.file("token", p.Kubectl("create", "token", "vm-runner"))
			return patch(p.bearer(), p.Name, "web", cpus, "status")
		},
	} {
		err := try()
		require.True(t, apierrors.IsForbidden(err), "%s: %v", name, err)
	}
	p.token("other-0")
	require.NoError(t, patch(p.bearer(), p.Name, "other", cpus, "status"), "to each its own")
}

// runners lists all fields of the status that the runner writes.
var runners = []string{
	"runner", "arriving", "vmType", "vmTypes", "uuid", "runnerVersion", "cpus", "ram", "consoleClient", "loggedInUser",
	"displayPasswordSerial", "osinfo", "interfaces", "addresses",
	"restartAwaitingArguments", "restartAwaitingChanges", "conditions", // the manager writes some of them
}

// A runner can't add, change or remove any other field of the status.
func TestATokenIsHeldToTheRunnersPart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	client := p.bearer().Resource(v1.GroupVersion().WithResource("vms")).Namespace(p.Name)
	patch := func(kind types.PatchType, body string) error {
		_, err := client.Patch(t.Context(), "web", kind, []byte(body), metav1.PatchOptions{
			FieldManager: "vm-runner",
			Force:        force(kind),
		}, "status")
		return err
	}
	refused := func(name string, err error) {
		t.Helper()
		require.True(t, apierrors.IsForbidden(err), "%s: %v", name, err)
	}
	values := map[string]string{
		"observedGeneration": "7", "phase": `"Failed"`, "reason": `"Because"`, "message": `"a message"`,
		"nodeName":                    `"elsewhere"`,
		"podOrdinal":                  "1",
		"migration":                   `{"operation": "o", "operationUID": "u", "stage": "Failed", "source": {"pod": "web-0"}, "target": {"pod": "web-1"}, "startTime": "2026-01-02T03:04:05Z"}`,
		"privileges":                  `[{"name": "root", "reason": "spec.x"}]`,
		"volumes":                     `[{"claim": "runner-data-web-0", "uid": "u", "untrusted": ""}]`,
		"automaticRestart":            `{"podUID": "u", "time": "2026-01-02T03:04:05Z"}`,
		"failures":                    `{"count": 3, "lastTime": "2026-01-02T03:04:05Z"}`,
		"virtualMachineIPAddressName": `"eves"`,
		"virtualMachineClassName":     `"eves"`,
		"vmTypeImage":                 `{"image": "eves.example/a:1", "digest": "sha256:1"}`,
		"architecture":                `"eves"`,
		"typeSizes":                   `{"maximumRam": "64Gi"}`,
		"consoleUser":                 `"eve"`,
		"blockDeviceRefs":             `[{"kind": "VirtualDisk", "name": "eves", "attached": true}]`,
		"assignment":                  `{"pool": "p", "user": "eve", "lastUsed": "2026-01-02T03:04:05Z"}`,
	}
	status := reflect.TypeFor[v1.VirtualMachineStatus]()
	for i := range status.NumField() {
		name, _, _ := strings.Cut(status.Field(i).Tag.Get("json"), ",")
		value, protected := values[name]
		require.NotEqual(t, slices.Contains(runners, name), protected, "%s is either the runner's, or has a value here",
			name)
		if protected {
			refused(name, patch(types.MergePatchType, `{"status": {"`+name+`": `+value+`}}`))
			p.patch("vm-operator", `{"status": {"`+name+`": `+value+`}}`)
			refused(name+" taken away", patch(types.MergePatchType, `{"status": {"`+name+`": null}}`))
		}
	}

	condition := func(name, status string) string {
		return `{"type": "` + name + `", "status": "` + status +
			`", "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}`
	}
	change := func(path, desired string) string {
		return `{"path": "` + path + `", "operation": "replace", "currentValue": "a", "desiredValue": "` + desired + `"}`
	}
	managers := v1.ManagerConditions()
	paths := []string{
		"image.source", "resources.limits.memory", "nodeName", "nodeSelector",
		"vmType.configMap", "vmType.image", "vm.display.secret",
	}
	list := func(key string, entries ...string) string {
		return `{"apiVersion": "` + v1.GroupVersion().String() + `", "kind": "VirtualMachine", "status": {"` + key +
			`": [` + strings.Join(entries, ", ") + `]}}`
	}
	for _, name := range managers {
		refused(name, patch(types.ApplyPatchType, list("conditions", condition(name, "False"))))
	}
	for _, path := range paths {
		refused(path, patch(types.ApplyPatchType, list("restartAwaitingChanges", change(path, "b"))))
	}
	var all []string
	for _, name := range managers {
		all = append(all, condition(name, "False"))
	}
	p.patch("vm-operator", list("conditions", all...))
	p.patch("vm-operator", list("restartAwaitingChanges", change(paths[0], "b"), change(paths[1], "b")))
	for _, name := range managers {
		refused(name, patch(types.ApplyPatchType, list("conditions", condition(name, "True"))))
	}
	refused("a pending change", patch(types.ApplyPatchType, list("restartAwaitingChanges", change(paths[0], "c"))))
	refused("conditions taken away", patch(types.MergePatchType, list("conditions", condition("Running", "True"))))
	refused("pending changes taken away", patch(types.MergePatchType, list("restartAwaitingChanges")))

	require.NoError(t, patch(types.ApplyPatchType, list("conditions", condition("Running", "True"),
		condition("Ready", "False"))))
	require.NoError(t, patch(types.ApplyPatchType, list("conditions", condition("Ready", "True"))),
		"its own, and one of them no more")
	require.NoError(t, patch(types.ApplyPatchType, list("restartAwaitingChanges", change("vm.firmware", "b"),
		change("vm.disks[0]", "b"))))
	require.NoError(t, patch(types.ApplyPatchType, list("restartAwaitingChanges")))
	is := p.vm("web").Status
	require.Len(t, is.Conditions, len(managers), "what it leaves out goes, the manager's stay: %v", is.Conditions)
	require.Len(t, is.RestartAwaitingChanges, 2)
}

// force returns the value that an apply needs and other patches must not have.
func force(kind types.PatchType) *bool {
	if kind == types.ApplyPatchType {
		return new(true)
	}
	return nil
}
