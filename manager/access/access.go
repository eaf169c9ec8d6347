package access

import (
	"slices"

	v1 "vmop/api/v1"
)

// Verb is an action on a VM. All verbs but View are actions of spec.permissions.
type Verb string

// The verbs. Stop covers pausing and moving to another node, Start covers resuming, and Edit covers changing the
// medium of a CD drive.
const (
	// View allows seeing that the VM exists and what state it is in.
	View Verb = "view"

	Start Verb = "start"
	Stop  Verb = "stop"
	Reset Verb = "reset"
	// AccessConsole allows viewing and using the VM's screen and console while no other user does.
	AccessConsole Verb = "accessConsole"
	// TakeConsole allows the same even if another user is using the console.
	TakeConsole Verb = "takeConsole"
	// Resize allows changing CPUs and RAM within the VM's maximum.
	Resize Verb = "resize"
	// Edit allows reading and changing the whole definition.
	Edit Verb = "edit"
	// Create allows creating a VM from the definition of the VM in question, or any VM if that is the zero VM.
	Create Verb = "create"
	Delete Verb = "delete"
)

// all is the action that includes every verb.
const all v1.Action = "*"

// Verbs returns all verbs.
func Verbs() []Verb {
	return []Verb{View, Start, Stop, Reset, AccessConsole, TakeConsole, Resize, Edit, Create, Delete}
}

// Subject is a logged-in user, or a program with a token.
type Subject struct {
	// User is the user's name in permissions. A subject with an empty name has no permissions.
	User string
	// Roles are the user's roles in permissions.
	Roles []string
	// Cluster is the user's identity for the cluster's RBAC. An empty name has no rights there.
	Cluster Identity
}

// Identity is a user of the cluster, with the fields of SubjectAccessReviews and TokenReviews.
type Identity struct {
	User, UID string
	Groups    []string
	Extra     map[string][]string
}

// VM contains the facts about a VM that a decision depends on.
type VM struct {
	// Name of the VM; "" if the question concerns no particular VM.
	Name string
	// Permissions are the VM's spec.permissions.
	Permissions []v1.Permission
	// Pool is the pool from which Assignee got the VM. Its name is "" if the VM is not assigned.
	Pool Pool
	// Assignee is the user who got the VM from Pool.
	Assignee string
	// ConsoleUser is the user currently using the screen or console; "" if there is no such user.
	ConsoleUser string
	// LogInRequested reports whether the guest's desktop logs a user in automatically. LoggedInUser is that user,
	// or "" until the log-in has succeeded.
	LogInRequested bool
	LoggedInUser   string
}

// Pool contains the facts that a decision depends on about a pool, or about a VM assigned from it.
type Pool struct {
	Name        string
	Permissions []v1.PoolPermission
}

// grantOf reports whether the pool's permissions allow a subject a verb for a VM assigned to assignee. For a VM of
// another assignee, they allow only taking over the console, and View for that purpose.
func (p Pool) grantOf(s Subject, verb Verb, assignee string) (Reason, bool) {
	for _, of := range p.Permissions {
		permission := v1.Permission{User: of.User, Role: of.Role}
		for _, action := range of.May {
			permission.May = append(permission.May, v1.Action(action))
		}
		reason, matches := matchPermission(permission, s)
		if !matches {
			continue
		}
		if s.User != assignee {
			takes := includesVerb(permission.May, TakeConsole)
			if takes && (verb == View || verb == TakeConsole) {
				return reason, true
			}
			continue
		}
		if poolVerb(verb) && includesVerb(permission.May, verb) {
			return reason, true
		}
	}
	return Reason{}, false
}

// poolVerb reports whether a pool's permissions can allow a verb. The remaining verbs change a VM of a pool,
// which only administrators may do.
func poolVerb(verb Verb) bool {
	return slices.Contains([]Verb{View, Start, Stop, Reset, AccessConsole, TakeConsole}, verb)
}

// Decision states whether a subject may do something.
type Decision struct {
	Allowed bool
	// Unknown reports that access is refused only because the cluster could not be asked. An operation that was allowed
	// earlier and is still running, such as a stream, may continue.
	Unknown bool
	// Reason explains the decision.
	Reason Reason
}

// grants reports whether a subject has been granted a verb, and by what. If the answer is unknown, it returns
// false and a reason with a key.
type grants func(Verb) (Reason, bool)

// decideAccess combines the granted verbs: takeConsole includes accessConsole, and accessConsole depends on who is
// using the VM.
func decideAccess(s Subject, verb Verb, vm VM, granted grants) Decision {
	if s.User == "" {
		return Decision{Reason: Reason{Key: anonymous}}
	}
	if !slices.Contains(Verbs(), verb) {
		return Decision{Reason: Reason{Key: unknownVerb, Args: args{"verb": string(verb)}}}
	}
	reason, allowed := granted(verb)
	if verb != AccessConsole {
		return newDecision(verb, reason, allowed)
	}
	busy := consoleObstacle(s, vm)
	if allowed && busy == nil {
		return newDecision(verb, reason, true)
	}
	take, mayTake := granted(TakeConsole)
	switch {
	case mayTake:
		return newDecision(verb, take, true)
	case allowed:
		return Decision{Unknown: take.Key != "", Reason: *busy}
	case reason.Key == "":
		reason = take
	}
	return newDecision(verb, reason, false)
}

// newDecision returns an allowed Decision, or a refusal because the grant is missing or unknown.
func newDecision(verb Verb, reason Reason, allowed bool) Decision {
	if !allowed && reason.Key == "" {
		return Decision{Reason: Reason{Key: notGranted, Args: args{"verb": string(verb)}}}
	}
	return Decision{Allowed: allowed, Unknown: !allowed, Reason: reason}
}

// consoleObstacle returns why a subject with accessConsole can't use the console now, or nil.
func consoleObstacle(s Subject, vm VM) *Reason {
	switch {
	case vm.ConsoleUser != "" && vm.ConsoleUser != s.User:
		return &Reason{Key: ConsoleInUse, Args: args{"user": vm.ConsoleUser}}
	case vm.LogInRequested && vm.LoggedInUser == "":
		return &Reason{Key: logInPending}
	case vm.LogInRequested && vm.LoggedInUser != s.User:
		return &Reason{Key: desktopOfAnother, Args: args{"user": vm.LoggedInUser}}
	}
	return nil
}
