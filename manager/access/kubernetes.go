package access

import (
	"context"
	"fmt"

	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/authorization/v1"

	v1 "vmop/api/v1"
)

// Kubernetes implements Reviewer by sending SubjectAccessReviews to an API server. Its client must be allowed to
// create them, like the cluster role system:auth-delegator.
type Kubernetes struct {
	Client client.SubjectAccessReviewInterface
	// Namespace of the VMs.
	Namespace string
}

// Review implements Reviewer.
func (k Kubernetes) Review(ctx context.Context, who Identity, what Right) (bool, string, error) {
	extra := make(map[string]authorization.ExtraValue, len(who.Extra))
	for name, values := range who.Extra {
		extra[name] = values
	}
	review := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User: who.User, UID: who.UID, Groups: who.Groups, Extra: extra,
		ResourceAttributes: &authorization.ResourceAttributes{
			Namespace: k.Namespace, Verb: what.Verb, Group: v1.GroupName, Version: v1.GroupVersion().Version,
			Resource: what.Resource, Subresource: what.Subresource, Name: what.Name,
		},
	}}
	answered, err := k.Client.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, "", fmt.Errorf("ask the cluster whether %q may %s %s/%s: %w", who.User, what.Verb,
			what.Resource, what.Subresource, err)
	}
	return answered.Status.Allowed, answered.Status.Reason, nil
}
