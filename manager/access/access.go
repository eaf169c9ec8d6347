package access

import (
	"slices"

	v1 "vmop/api/v1"
)

// A Verb is what a subject wants to do with a VM. All but View are actions of spec.permissions.
type Verb string

// The verbs. To pause is to stop, and so is to move to another node; to resume is to start, to change the medium of a
// CD drive is to edit.
const (
	// View is to see that the VM exists, and its state.
	View Verb = "view"

	Start Verb = "start"
	Stop  Verb = "stop"
	Reset Verb = "reset"
	// AccessConsole is to see and use the VM's screen and console while no other user does.
	AccessConsole Verb = "accessConsole"
	// TakeConsole is to do so even if another user does.
	TakeConsole Verb = "takeConsole"
	// Resize is to change CPUs and RAM within the VM's maximum.
	Resize Verb = "resize"
	// Edit is to read and to change the whole definition.
	Edit Verb = "edit"
	// Create is to make a VM: from the definition of the VM in question, or, if that is the zero
	// VM, any.
	Create Verb = "create"
	Delete Verb = "delete"
)

// all is the action that stands for every verb.
const all v1.Action = "*"

// Verbs returns all verbs.
func Verbs() []Verb {
	return []Verb{View, Start, Stop, Reset, AccessConsole, TakeConsole, Resize, Edit, Create, Delete}
}

// Subject is a user who has logged in, or a program with a token.
type Subject struct {
	// User is the name of the user in permissions; "" may do nothing.
	User string
	// Roles are those of the user in permissions.
	Roles []string
	// Cluster is the user as the cluster's RBAC knows it; without a name it has no rights there.
	Cluster Identity
}

// Identity is a user of the cluster, as SubjectAccessReviews and TokenReviews have it.
type Identity struct {
	User, UID string
	Groups    []string
	Extra     map[string][]string
}

// VM is what a decision depends on.
type VM struct {
	// Name of the VM; "" in a question about none in particular.
	Name string
	// Permissions are those of the VM.
	Permissions []v1.Permission
	// Pool is the one from which a user has the VM; without a name none has it.
	Pool Pool
	// Assignee is that user.
	Assignee string
	// ConsoleUser is the user who uses its screen or console now; "" if there is none.
	ConsoleUser string
	// LogInRequested reports that a user is logged in to the guest's desktop automatically,
	// and LoggedInUser who has been, "" until then.
	LogInRequested bool
	LoggedInUser   string
}

// Pool is what a decision about a pool depends on, or about a VM that a user has from it.
type Pool struct {
	Name        string
	Permissions []v1.PoolPermission
}

// grants reports whether the permissions of the pool allow a subject something with a VM that is an assignee's. Of the
// VMs of others they allow to take over consoles, and to see them for that.
func (p Pool) grants(s Subject, verb Verb, assignee string) (Reason, bool) {
	for _, of := range p.Permissions {
		permission := v1.Permission{User: of.User, Role: of.Role}
		for _, action := range of.May {
			permission.May = append(permission.May, v1.Action(action))
		}
		reason, matches := match(permission, s)
		if !matches {
			continue
		}
		if s.User != assignee {
			takes := includes(permission.May, TakeConsole)
			if takes && (verb == View || verb == TakeConsole) {
				return reason, true
			}
			continue
		}
		if poolVerb(verb) && includes(permission.May, verb) {
			return reason, true
		}
	}
	return Reason{}, false
}

// poolVerb reports whether permissions of pools can allow a verb: a VM of a pool is changed by its administrators.
func poolVerb(verb Verb) bool {
	return slices.Contains([]Verb{View, Start, Stop, Reset, AccessConsole, TakeConsole}, verb)
}

// Decision is the answer to whether a subject may do something.
type Decision struct {
	Allowed bool
	// Unknown reports that the answer is no only because the cluster couldn't be asked. What
	// has been allowed before and is under way, such as a stream, may continue.
	Unknown bool
	// Reason is what decided it.
	Reason Reason
}

// A grants function reports whether a subject has been granted a verb, and by what. If not, a
// reason with a key says why that is not known.
type grants func(Verb) (Reason, bool)

// decide combines what is granted: takeConsole includes accessConsole, and accessConsole
// depends on who uses the VM.
func decide(s Subject, verb Verb, vm VM, granted grants) Decision {
	if s.User == "" {
		return Decision{Reason: Reason{Key: Anonymous}}
	}
	if !slices.Contains(Verbs(), verb) {
		return Decision{Reason: Reason{Key: UnknownVerb, Args: Args{"verb": string(verb)}}}
	}
	reason, allowed := granted(verb)
	if verb != AccessConsole {
		return decision(verb, reason, allowed)
	}
	busy := obstacle(s, vm)
	if allowed && busy == nil {
		return decision(verb, reason, true)
	}
	take, mayTake := granted(TakeConsole)
	switch {
	case mayTake:
		return decision(verb, take, true)
	case allowed:
		return Decision{Unknown: take.Key != "", Reason: *busy}
	case reason.Key == "":
		reason = take
	}
	return decision(verb, reason, false)
}

// decision is allowed for a reason; refused for want of a grant, or because it is not known
// whether there is one.
func decision(verb Verb, reason Reason, allowed bool) Decision {
	if !allowed && reason.Key == "" {
		return Decision{Reason: Reason{Key: NotGranted, Args: Args{"verb": string(verb)}}}
	}
	return Decision{Allowed: allowed, Unknown: !allowed, Reason: reason}
}

// obstacle returns why a subject that has accessConsole can't use the console now.
func obstacle(s Subject, vm VM) *Reason {
	switch {
	case vm.ConsoleUser != "" && vm.ConsoleUser != s.User:
		return &Reason{Key: ConsoleInUse, Args: Args{"user": vm.ConsoleUser}}
	case vm.LogInRequested && vm.LoggedInUser == "":
		return &Reason{Key: LogInPending}
	case vm.LogInRequested && vm.LoggedInUser != s.User:
		return &Reason{Key: DesktopOfAnother, Args: Args{"user": vm.LoggedInUser}}
	}
	return nil
}
