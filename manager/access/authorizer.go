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
		return a.Reviews.grants(ctx, s, v, vm)
	})
}
