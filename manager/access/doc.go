// Package access decides who may do what with a VM.
//
// [Decide] is a pure function of a policy, a subject, a verb and a VM. The administrator sets the policy: who
// administers everything, and what other users may do with every VM. A VM's owner grants rights for that VM in
// spec.permissions.
//
// An [Authorizer] decides by these permissions, by the rights that the cluster's RBAC grants the subject, or by
// both, depending on the policy's Mode. It sends SubjectAccessReviews to the API server ([Reviews]), so it needs
// no knowledge of roles and bindings.
//
// Pages, actions, streams and the API all ask the same question. A page shows the [Reason] next to a disabled
// control, in the user's language: a Reason is a key with arguments. The API uses the English text of the key.
//
// This package does not decide whether a verb makes sense in the VM's current state, such as start for a running
// VM.
//
// See docs/decisions/0058-access.md.
package access
