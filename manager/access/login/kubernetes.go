package login

import (
	"context"
	"fmt"
	"slices"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"vmop/manager/access"
)

// Kubernetes implements Tokens with an API server's TokenReviews. Its client must be allowed to create them, like
// the cluster role system:auth-delegator.
type Kubernetes struct{ Client client.TokenReviewInterface }

// Review implements Tokens.
func (k Kubernetes) Review(ctx context.Context, token, audience string) (access.Identity, error) {
	review := &authentication.TokenReview{
		Spec: authentication.TokenReviewSpec{Token: token, Audiences: []string{audience}},
	}
	answered, err := k.Client.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return access.Identity{}, fmt.Errorf("have the token reviewed: %w", err)
	}
	status := answered.Status
	if !status.Authenticated || !slices.Contains(status.Audiences, audience) {
		return access.Identity{}, nil // an API server that omits the audience does not support audiences
	}
	extra := make(map[string][]string, len(status.User.Extra))
	for name, values := range status.User.Extra {
		extra[name] = values
	}
	return access.Identity{
		User: status.User.Username, UID: status.User.UID, Groups: status.User.Groups, Extra: extra,
	}, nil
}
