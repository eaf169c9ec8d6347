package clustertest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// Apply applies YAML documents.
func (n *Namespace) Apply(documents ...string) {
	n.t.Helper()
	for _, text := range documents {
		require.NoError(n.t, n.TryApply(text), text)
	}
}

// TryApply applies YAML documents as "kubectl apply --server-side --force-conflicts --validate=strict" does, in a
// hundredth of the time.
func (n *Namespace) TryApply(documents string) error {
	return n.Kubernetes.Apply(n.t.Context(), n.Config, n.Name, documents, metav1.PatchOptions{})
}

// TryApplyAs returns the API server's answer to a user who applies documents. It is a dry run.
func (n *Namespace) TryApplyAs(user, documents string) error {
	config := rest.CopyConfig(n.Config)
	config.Impersonate.UserName = user
	dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	return n.Kubernetes.Apply(n.t.Context(), config, n.Name, documents, dry)
}

// Apply applies documents one after the other, with the credentials in who. Objects without a namespace get namespace,
// unless they are cluster-wide. The API server's errors are returned unchanged.
func (k *Kubernetes) Apply(ctx context.Context, who *rest.Config, namespace, documents string,
	opts metav1.PatchOptions,
) error {
	force := true
	opts.FieldManager, opts.Force, opts.FieldValidation = "test", &force, metav1.FieldValidationStrict
	client, err := dynamic.NewForConfig(who)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	mapper, err := k.restMapper()
	if err != nil {
		return err
	}
	for text := range strings.SplitSeq(documents, "\n---\n") {
		var object unstructured.Unstructured
		if err := yaml.UnmarshalStrict([]byte(text), &object.Object); err != nil {
			return fmt.Errorf("read %q: %w", text, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return fmt.Errorf("find the kind of %q: %w", text, err)
		}
		in := cmp.Or(object.GetNamespace(), namespace)
		if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
			in = ""
		}
		patch, err := json.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("write %q: %w", text, err)
		}
		_, err = client.Resource(mapping.Resource).Namespace(in).Patch(ctx, object.GetName(),
			types.ApplyPatchType, patch, opts)
		if err != nil {
			return err
		}
	}
	return nil
}

// restMapper returns the mapper from kinds to resources.
func (k *Kubernetes) restMapper() (meta.RESTMapper, error) {
	k.once.Do(func() {
		var client *discovery.DiscoveryClient
		if client, k.err = discovery.NewDiscoveryClientForConfig(k.Config); k.err == nil {
			k.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
		}
	})
	return k.mapper, k.err
}
