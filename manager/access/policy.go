package access

import (
	"slices"

	v1 "vmop/api/v1"
)

// Mode selects who decides about users who are not administrators.
type Mode string

// The modes; "" means ByPermissions.
const (
	ByPermissions Mode = "permissions" // spec.permissions and the policy's Permissions
	ByRBAC        Mode = "rbac"        // the cluster's RBAC
	ByBoth        Mode = "both"        // allowed if either allows it
)

// Policy contains the settings of the manager's administrator.
type Policy struct {
	Mode Mode
	// Administrators may do everything.
	Administrators Names
	// Permissions apply to every VM, and to creating new VMs.
	Permissions []v1.Permission
	// Conlets lists VM-Operator's widgets by role, and thereby the pages that each role may use; see MayUse.
	Conlets map[string][]string
}

// Names lists users and roles.
type Names struct{ Users, Roles []string }

// Decide reports whether a subject may do something with a VM, by policy and permissions alone. It does not ask
// the cluster.
func Decide(p Policy, s Subject, verb Verb, vm VM) Decision {
	return decideAccess(s, verb, vm, func(v Verb) (Reason, bool) { return p.grantOf(s, v, vm) })
}

func (p Policy) grantOf(s Subject, verb Verb, vm VM) (Reason, bool) {
	if p.isAdministrator(s) {
		return Reason{Key: administrator}, true
	}
	if p.Mode == ByRBAC {
		return Reason{}, false
	}
	if vm.Pool.Name != "" {
		if reason, granted := vm.Pool.grantOf(s, verb, vm.Assignee); granted {
			return reason, true
		}
	}
	for _, permissions := range [][]v1.Permission{vm.Permissions, p.Permissions} {
		for _, permission := range permissions {
			if reason, matches := matchPermission(permission, s); matches && includesVerb(permission.May, verb) {
				return reason, true
			}
		}
	}
	return Reason{}, false
}

// isAdministrator reports whether a subject is an administrator.
func (p Policy) isAdministrator(s Subject) bool {
	return slices.Contains(p.Administrators.Users, s.User) || slices.ContainsFunc(s.Roles, func(role string) bool {
		return role != "" && slices.Contains(p.Administrators.Roles, role)
	})
}

// matchPermission reports whether a permission applies to the subject. A permission with both a user and a role, which
// the API server refuses, applies to no subject.
func matchPermission(p v1.Permission, s Subject) (Reason, bool) {
	switch {
	case p.User != "" && p.Role == "":
		return Reason{Key: byUser, Args: args{"user": p.User}}, p.User == s.User
	case p.Role != "" && p.User == "":
		return Reason{Key: byRole, Args: args{"role": p.Role}}, slices.Contains(s.Roles, p.Role)
	}
	return Reason{}, false
}

// includesVerb reports whether actions include a verb. Every action includes View.
func includesVerb(may []v1.Action, verb Verb) bool {
	if verb == View {
		return len(may) > 0
	}
	return slices.Contains(may, v1.Action(verb)) || slices.Contains(may, all)
}
