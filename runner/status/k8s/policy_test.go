package k8s_test

import (
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

// bearer returns a client with the token of the service account's folder.
func (p *place) bearer() dynamic.Interface {
	p.t.Helper()
	config := &rest.Config{Host: p.config.Host, Dial: p.Dial, QPS: -1, BearerToken: p.read(p.account + "/token")}
	config.CAFile = p.account + "/ca.crt"
	client, err := dynamic.NewForConfig(config)
	require.NoError(p.t, err)
	return client
}

// event is one about an object.
func event(namespace, kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": map[string]any{"generateName": "x-", "namespace": namespace},
		"eventTime": "2026-01-02T03:04:05.000000Z", "reportingController": "x/y", "reportingInstance": "z", "action": "A", "reason": "R", "type": "Normal",
		"regarding": map[string]any{"apiVersion": "v1", "kind": kind, "name": name, "namespace": namespace},
	}}
}

// The token of a VM's pod is good for the status of that VM, and for events about it.
// For everything else it is refused, whoever has stolen it.
func TestATokenIsHeldToItsVM(t *testing.T) {
	t.Parallel()
	p, elsewhere := newPlace(t), newPlace(t)
	p.apply(machine("other"), machine("web-0"), pod("other-0"), pod("web"), "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")
	vms, events := v1.GroupVersion().WithResource("vms"), schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
	ctx := t.Context()
	client := p.bearer()
	const cpus, phase, spec = `{"status": {"cpus": 3}}`, `{"status": {"phase": "Failed"}}`, `{"spec": {"guestShutdownStops": true}}`
	patch := func(c dynamic.Interface, namespace, name, body string, sub ...string) error {
		_, err := c.Resource(vms).Namespace(namespace).Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, sub...)
		return err
	}
	told := func(namespace, kind, name string) error {
		_, err := client.Resource(events).Namespace(namespace).Create(ctx, event(namespace, kind, name), metav1.CreateOptions{})
		return err
	}
	require.NoError(t, patch(client, p.namespace, "web", cpus, "status"))
	require.NoError(t, patch(client, p.namespace, "web", "{}", "status"))
	require.NoError(t, told(p.namespace, "VirtualMachine", "web"))
	for name, try := range map[string]func() error{
		"the status of another VM":                func() error { return patch(client, p.namespace, "other", cpus, "status") },
		"the status of a VM called like the pod":  func() error { return patch(client, p.namespace, "web-0", cpus, "status") },
		"a patch of nothing, which reads another": func() error { return patch(client, p.namespace, "other", "{}", "status") },
		"the status of a namesake elsewhere":      func() error { return patch(client, elsewhere.namespace, "web", cpus, "status") },
		"the manager's part of the status":        func() error { return patch(client, p.namespace, "web", phase, "status") },
		"the definition":                          func() error { return patch(client, p.namespace, "web", spec) },
		"the definition, by way of the status":    func() error { return patch(client, p.namespace, "web", `{"metadata": {"ownerReferences": []}}`) },
		"an event about another VM":               func() error { return told(p.namespace, "VirtualMachine", "other") },
		"an event about something else":           func() error { return told(p.namespace, "Pod", "web") },
		"an event elsewhere":                      func() error { return told(elsewhere.namespace, "VirtualMachine", "web") },
		"reading the VM": func() error {
			_, err := client.Resource(vms).Namespace(p.namespace).Get(ctx, "web", metav1.GetOptions{})
			return err
		},
		"listing VMs": func() error {
			_, err := client.Resource(vms).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
			return err
		},
		"deleting the VM": func() error {
			return client.Resource(vms).Namespace(p.namespace).Delete(ctx, "web", metav1.DeleteOptions{})
		},
		"reading a secret": func() error {
			_, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(p.namespace).Get(ctx, "s", metav1.GetOptions{})
			return err
		},
		"deleting a pod": func() error {
			return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(p.namespace).Delete(ctx, "other-0", metav1.DeleteOptions{})
		},
		"a pod that is not one of a StatefulSet's": func() error { p.token("web"); return patch(p.bearer(), p.namespace, "web", cpus, "status") },
		"a token that is bound to no pod": func() error {
			p.file("token", p.kubectl("create", "token", "vm-runner"))
			return patch(p.bearer(), p.namespace, "web", cpus, "status")
		},
	} {
		err := try()
		require.True(t, apierrors.IsForbidden(err), "%s: %v", name, err)
	}
	p.token("other-0")
	require.NoError(t, patch(p.bearer(), p.namespace, "other", cpus, "status"), "to each its own")
	require.True(t, strings.HasPrefix(p.namespace, "t"))
}
