// Package access decides who may do what with a VM.
//
// [Decide] is a pure function of a policy, a subject, a verb and a VM. The policy is the
// administrator's: who administers everything, and what others may do with every VM. What they
// may do with one VM, its owner says in spec.permissions.
//
// An [Authorizer] decides by that, by the rights that the cluster's RBAC gives the subject, or by
// both, as the policy's Mode says. It asks the API server by SubjectAccessReviews ([Reviews]),
// and so does not know roles and bindings itself.
//
// Pages, actions, streams and the API ask the same question. A page shows the [Reason] of a
// decision beside what it disables, in the language of the user: a reason is a key and its
// arguments, and its English text is for the API.
//
// Whether a verb makes sense now, such as start for a VM that is running, is not decided here.
//
// See docs/decisions/0058-access.md.
package access
