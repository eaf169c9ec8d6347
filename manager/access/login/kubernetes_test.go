package login_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	v1 "vmop/api/v1"
	"vmop/manager/access"
	"vmop/manager/access/login"
	"vmop/test/cluster"
	"vmop/test/cluster/clustertest"
	"vmop/test/tier"
	"vmop/test/wait"
)

const namespace = "vmop-login"

// A real API server reviews tokens and rights, and stores the Secret that managers share.
func TestKubernetes(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	k := clustertest.New(t, cluster.Options{})
	client, err := kubernetes.NewForConfig(k.Config)
	require.NoError(t, err)
	_, err = client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Run("tokens", func(t *testing.T) { t.Parallel(); reviewTokens(t, client) })
	t.Run("rights", func(t *testing.T) { t.Parallel(); reviewRights(t, client) })
	t.Run("secret", func(t *testing.T) { t.Parallel(); shareSecret(t, client) })
}

// reviewTokens proves that a token is valid only for its own audience.
func reviewTokens(t *testing.T, client kubernetes.Interface) {
	accounts := client.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	tokens := login.Kubernetes{Client: client.AuthenticationV1().TokenReviews()}
	for audience, want := range map[string]string{
		"vmop": "system:serviceaccount:" + namespace + ":robot", "https://kubernetes.default.svc": "", "other": "",
	} {
		request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{Audiences: []string{audience}}}
		made, err := accounts.CreateToken(t.Context(), "robot", request, metav1.CreateOptions{})
		require.NoError(t, err)
		who, err := tokens.Review(t.Context(), made.Status.Token, "vmop")
		require.NoError(t, err)
		require.Equal(t, want, who.User)
		if want != "" {
			require.Contains(t, who.Groups, "system:serviceaccounts:"+namespace)
			require.NotEmpty(t, who.UID)
		}
	}
	who, err := tokens.Review(t.Context(), "nonsense", "vmop")
	require.NoError(t, err)
	require.Empty(t, who.User)
}

// reviewRights proves that RBAC roles for subresources of VMs decide access to one VM or to all VMs.
func reviewRights(t *testing.T, client kubernetes.Interface) {
	bind := func(name, user string, rule rbac.PolicyRule) {
		rule.APIGroups = []string{v1.GroupName}
		role := &rbac.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbac.PolicyRule{rule}}
		_, err := client.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{})
		require.NoError(t, err)
		binding := &rbac.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects:   []rbac.Subject{{Kind: "User", APIGroup: rbac.GroupName, Name: user}},
			RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: name},
		}
		_, err = client.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	bind("one", "oidc:ann", rbac.PolicyRule{
		Verbs: []string{"create"}, Resources: []string{"vms/console", "vms/start"}, ResourceNames: []string{"web"},
	})
	bind("all", "oidc:ann", rbac.PolicyRule{Verbs: []string{"get", "update"}, Resources: []string{"vms/view", "vms"}})
	ann := access.Subject{User: "ann", Cluster: access.Identity{User: "oidc:ann"}}
	bob := access.Subject{User: "bob", Cluster: access.Identity{User: "oidc:bob"}}
	decide := func(s access.Subject, verb access.Verb, vm access.VM) access.Decision {
		reviewer := access.Kubernetes{
			Client: client.AuthorizationV1().SubjectAccessReviews(), Namespace: namespace,
		}
		authorizer := access.Authorizer{
			Policy: access.Policy{Mode: access.ByRBAC}, Reviews: access.NewReviews(reviewer, time.Now),
		}
		return authorizer.Decide(t.Context(), s, verb, vm)
	}
	web, db := access.VM{Name: "web"}, access.VM{Name: "db"}
	wait.Until(t, func() bool {
		return decide(ann, access.Start, web).Allowed && decide(ann, access.View, web).Allowed
	}, "the authorizer sees the bindings")
	for _, verb := range access.Verbs() {
		onAll := verb == access.View || verb == access.Edit
		require.Equal(t, onAll, decide(ann, verb, db).Allowed, "%s db", verb)
		require.Equal(t, onAll || verb == access.Start || verb == access.AccessConsole, decide(ann, verb, web).Allowed,
			"%s web", verb)
		require.False(t, decide(bob, verb, web).Allowed)
	}
	busy := access.VM{Name: "web", ConsoleUser: "bob"}
	require.Equal(t, access.ConsoleInUse, decide(ann, access.AccessConsole, busy).Reason.Key)
	require.Contains(t, decide(ann, access.Start, web).Reason.String(), `RoleBinding "one/`)
}

// shareSecret proves that managers agree on a key, learn of each other's log-outs, and log out every user when the
// Secret is deleted.
func shareSecret(t *testing.T, client kubernetes.Interface) {
	secrets := client.CoreV1().Secrets(namespace)
	now := time.Now().Truncate(time.Second)
	shared := login.Secret{
		Client: secrets, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }, Sleep: login.Sleep,
	}
	key, err := shared.Key(t.Context())
	require.NoError(t, err)
	require.Len(t, key, login.KeySize)
	again, err := shared.Key(t.Context())
	require.NoError(t, err)
	require.Equal(t, key, again)

	type news struct {
		key     string
		revoked map[string]time.Time
	}
	heard := make(chan news, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- shared.Follow(ctx, func(key []byte, revoked map[string]time.Time) {
			heard <- news{string(key), revoked}
		})
	}()
	require.Equal(t, news{string(key), map[string]time.Time{}}, <-heard)
	soon, late := now.Add(time.Minute), now.Add(time.Hour)
	require.NoError(t, shared.Revoke(t.Context(), "one", soon))
	require.Equal(t, map[string]time.Time{"one": soon}, (<-heard).revoked)
	now = soon
	require.NoError(t, shared.Revoke(t.Context(), "two", late))
	require.Equal(t, map[string]time.Time{"two": late}, (<-heard).revoked, "what has expired is removed")

	require.NoError(t, secrets.Delete(t.Context(), login.SecretName, metav1.DeleteOptions{}))
	other := <-heard
	require.NotEqual(t, string(key), other.key)
	require.Len(t, other.key, login.KeySize)
	require.Empty(t, other.revoked)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)

	_, err = secrets.Patch(t.Context(), login.SecretName, types.MergePatchType, []byte(`{"data":{"key":"eA=="}}`),
		metav1.PatchOptions{})
	require.NoError(t, err)
	_, err = shared.Key(t.Context())
	require.ErrorContains(t, err, "delete the Secret")
}
