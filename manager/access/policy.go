package access

import (
	"slices"

	v1 "vmop/api/v1"
)

// Mode says what decides, besides who is an administrator.
type Mode string

// The modes; "" is ByPermissions.
const (
	ByPermissions Mode = "permissions" // spec.permissions, and those of the policy
	ByRBAC        Mode = "rbac"        // the cluster's
	ByBoth        Mode = "both"        // either of them allows
)

// Policy is what the administrator of the manager has decided.
type Policy struct {
	Mode Mode
	// Administrators may do everything.
	Administrators Names
	// Permissions are granted for every VM, and for making new ones.
	Permissions []v1.Permission
	// Conlets are lists of VM-Operator's widgets by role, which say who may use which page; see
	// MayUse.
	Conlets map[string][]string
}

// Names are users and roles.
type Names struct{ Users, Roles []string }

// Decide reports whether a subject may do something with a VM, by policy and permissions alone:
// the cluster is not asked.
func Decide(p Policy, s Subject, verb Verb, vm VM) Decision {
	return decide(s, verb, vm, func(v Verb) (Reason, bool) { return p.grants(s, v, vm) })
}

func (p Policy) grants(s Subject, verb Verb, vm VM) (Reason, bool) {
	if p.administers(s) {
		return Reason{Key: Administrator}, true
	}
	if p.Mode == ByRBAC {
		return Reason{}, false
	}
	if vm.Pool.Name != "" {
		if reason, granted := vm.Pool.grants(s, verb, vm.Assignee); granted {
			return reason, true
		}
	}
	for _, permissions := range [][]v1.Permission{vm.Permissions, p.Permissions} {
		for _, permission := range permissions {
			if reason, matches := match(permission, s); matches && includes(permission.May, verb) {
				return reason, true
			}
		}
	}
	return Reason{}, false
}

// administers reports whether a subject is an administrator.
func (p Policy) administers(s Subject) bool {
	return slices.Contains(p.Administrators.Users, s.User) || slices.ContainsFunc(s.Roles, func(role string) bool {
		return role != "" && slices.Contains(p.Administrators.Roles, role)
	})
}

// match reports whether a permission is the subject's. One of both a user and a role, which
// the API server refuses, is no one's.
func match(p v1.Permission, s Subject) (Reason, bool) {
	switch {
	case p.User != "" && p.Role == "":
		return Reason{Key: ByUser, Args: Args{"user": p.User}}, p.User == s.User
	case p.Role != "" && p.User == "":
		return Reason{Key: ByRole, Args: Args{"role": p.Role}}, slices.Contains(s.Roles, p.Role)
	}
	return Reason{}, false
}

// includes reports whether actions include a verb. View is included in any.
func includes(may []v1.Action, verb Verb) bool {
	if verb == View {
		return len(may) > 0
	}
	return slices.Contains(may, v1.Action(verb)) || slices.Contains(may, all)
}
