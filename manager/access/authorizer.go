package access

import "context"

// Authorizer decides by a policy and, depending on the policy's mode, by the cluster's RBAC.
type Authorizer struct {
	Policy Policy
	// Reviews asks the cluster. It must not be nil if the policy's mode is ByRBAC or ByBoth.
	Reviews *Reviews
}

// Decide reports whether a subject may do something with a VM. It takes at most a few seconds, and returns
// immediately if it need not ask the cluster.
func (a Authorizer) Decide(ctx context.Context, s Subject, verb Verb, vm VM) Decision {
	return decideAccess(s, verb, vm, func(v Verb) (Reason, bool) {
		reason, granted := a.Policy.grantOf(s, v, vm)
		if granted || a.Policy.Mode != ByRBAC && a.Policy.Mode != ByBoth {
			return reason, granted
		}
		if reason, granted = a.Reviews.reviewGrant(ctx, s, v, vms, vm.Name); granted || vm.Pool.Name == "" ||
			!poolVerb(v) {
			return reason, granted
		}
		switch {
		case s.User == vm.Assignee:
			return a.Reviews.reviewGrant(ctx, s, v, pools, vm.Pool.Name)
		case v == View || v == TakeConsole:
			return a.Reviews.reviewGrant(ctx, s, TakeConsole, pools, vm.Pool.Name)
		}
		return reason, false
	})
}

// DecidePool reports whether a subject may use a pool in the way that verb stands for:
//
//   - View: see the pool, and whether it has a VM for the subject
//   - Start: get a VM from it
//   - Edit: see which user has which VM, and release those VMs; no permission of a pool includes it
func (a Authorizer) DecidePool(ctx context.Context, s Subject, verb Verb, pool Pool) Decision {
	if s.User == "" {
		return Decision{Reason: Reason{Key: anonymous}}
	}
	if a.Policy.Mode != ByRBAC || a.Policy.isAdministrator(s) {
		reason, granted := pool.grantOf(s, verb, s.User)
		if !granted {
			reason, granted = a.Policy.grantOf(s, verb, VM{})
		}
		if granted {
			return newDecision(verb, reason, true)
		}
	}
	if a.Policy.Mode == ByRBAC || a.Policy.Mode == ByBoth {
		reason, granted := a.Reviews.reviewGrant(ctx, s, verb, pools, pool.Name)
		return newDecision(verb, reason, granted)
	}
	return newDecision(verb, Reason{}, false)
}
