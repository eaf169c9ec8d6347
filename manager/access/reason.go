package access

import "strings"

// Reason explains a decision: the key of a text, and values for the {name} placeholders in that text.
type Reason struct {
	Key  string
	Args args
}

// args are the arguments of a text by name. They are untrusted: names of users, messages of the cluster.
type args map[string]string

// The keys of reasons.
const (
	// Administrator: the policy names the subject as an administrator.
	administrator = "access.administrator"
	// ByUser, ByRole: a permission for the user or for the role allows it.
	byUser, byRole = "access.byUser", "access.byRole"
	// byCluster: the cluster's RBAC allows it; the message comes from the cluster.
	byCluster = "access.byCluster"

	// Anonymous: the subject is not logged in.
	anonymous = "access.anonymous"
	// UnknownVerb: the verb does not exist.
	unknownVerb = "access.unknownVerb"
	// NotGranted: the subject lacks permission for the verb.
	notGranted = "access.notGranted"
	// ConsoleInUse: another user is using the console; the subject needs takeConsole.
	ConsoleInUse = "access.consoleInUse"
	// LogInPending: the guest is still logging in a user, so the user's name is unknown.
	logInPending = "access.logInPending"
	// DesktopOfAnother: another user is logged in to the guest's desktop; the subject needs takeConsole.
	desktopOfAnother = "access.desktopOfAnother"
	// Unavailable: the API server does not answer.
	Unavailable = "access.unavailable"
)

// Texts returns the English text of each key.
func Texts() map[string]string {
	return map[string]string{
		administrator: "you are an administrator",
		byUser:        "granted to the user {user}",
		byRole:        "granted to the role {role}",
		byCluster:     "granted by the cluster: {message}",
		anonymous:     "log in first",
		unknownVerb:   "{verb} is not a valid action",
		notGranted:    "you do not have the permission {verb}",
		ConsoleInUse:  "{user} is using the console; to take over, you need the permission takeConsole",
		logInPending:  "the guest is still logging in its user",
		desktopOfAnother: "{user} is logged in to the desktop; " +
			"to take over, you need the permission takeConsole",
		Unavailable: "cannot check your permissions in the cluster; try again",
	}
}

// String returns the English text.
func (r Reason) String() string {
	pairs := make([]string, 0, 2*len(r.Args))
	for name, value := range r.Args {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(Texts()[r.Key])
}
