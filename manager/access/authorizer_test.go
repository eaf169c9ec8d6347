package access

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
)

// A subject without a name is refused every pool action, even if its roles and its cluster identity would allow it.
func TestDecidePoolRefusesAnonymousSubjects(t *testing.T) {
	t.Parallel()
	rights := &cluster{allowed: map[Right]bool{}}
	for _, verb := range Verbs() {
		what := rightFor(verb)
		what.Resource, what.Name = pools, "desks"
		rights.allowed[what] = true
	}
	pool := Pool{Name: "desks", Permissions: []v1.PoolPermission{{Role: "staff", May: []v1.PoolAction{"*"}}}}
	for _, mode := range []Mode{ByPermissions, ByRBAC, ByBoth} {
		var c clock
		a := Authorizer{Policy{Mode: mode, Administrators: Names{Roles: []string{"admin"}}}, NewReviews(rights, c.now)}
		for _, role := range []string{"staff", "admin"} {
			s := ann()
			s.Roles = []string{role}
			allowed := a.DecidePool(t.Context(), s, Start, pool).Allowed
			require.True(t, allowed, "%v %s: the rights count with a name", mode, role)
			s.User = ""
			for _, verb := range Verbs() {
				require.Equal(t, Decision{Reason: Reason{Key: anonymous}}, a.DecidePool(t.Context(), s, verb, pool),
					"%v %s %s", mode, role, verb)
			}
		}
	}
}
