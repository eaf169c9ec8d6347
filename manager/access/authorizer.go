package access

import "context"

// Authorizer decides by a policy and, if that says so, by the cluster.
type Authorizer struct {
	Policy Policy
	// Reviews ask the cluster. It must not be nil if the policy's mode is ByRBAC or ByBoth.
	Reviews *Reviews
}

// Decide reports whether a subject may do something with a VM. It takes a few seconds at most,
// and no time unless the cluster is asked.
func (a Authorizer) Decide(ctx context.Context, s Subject, verb Verb, vm VM) Decision {
	return decide(s, verb, vm, func(v Verb) (Reason, bool) {
		reason, granted := a.Policy.grants(s, v, vm)
		if granted || a.Policy.Mode != ByRBAC && a.Policy.Mode != ByBoth {
			return reason, granted
		}
		if reason, granted = a.Reviews.grants(ctx, s, v, vms, vm.Name); granted || vm.Pool.Name == "" || !poolVerb(v) {
			return reason, granted
		}
		switch {
		case s.User == vm.Assignee:
			return a.Reviews.grants(ctx, s, v, pools, vm.Pool.Name)
		case v == View || v == TakeConsole:
			return a.Reviews.grants(ctx, s, TakeConsole, pools, vm.Pool.Name)
		}
		return reason, false
	})
}

// DecidePool reports whether a subject may do something with a pool: see it, and whether it has a VM for them (View);
// get a VM of it (Start); see who has which VM, and release those (Edit, which no permission of a pool includes).
func (a Authorizer) DecidePool(ctx context.Context, s Subject, verb Verb, pool Pool) Decision {
	if s.User == "" {
		return Decision{Reason: Reason{Key: Anonymous}}
	}
	if a.Policy.Mode != ByRBAC || a.Policy.administers(s) {
		reason, granted := pool.grants(s, verb, s.User)
		if !granted {
			reason, granted = a.Policy.grants(s, verb, VM{})
		}
		if granted {
			return decision(verb, reason, true)
		}
	}
	if a.Policy.Mode == ByRBAC || a.Policy.Mode == ByBoth {
		reason, granted := a.Reviews.grants(ctx, s, verb, pools, pool.Name)
		return decision(verb, reason, granted)
	}
	return decision(verb, Reason{}, false)
}
