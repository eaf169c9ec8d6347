package access

import "strings"

// Reason explains a decision: the key of a text, and values for the {name} placeholders in that text.
type Reason struct {
	Key  string
	Args Args
}

// Args are the arguments of a text by name. They are untrusted: names of users, messages of the cluster.
type Args map[string]string

// The keys of reasons.
const (
	// Administrator: the policy names the subject as an administrator.
	Administrator = "access.administrator"
	// ByUser, ByRole: a permission for the user or for the role allows it.
	ByUser, ByRole = "access.byUser", "access.byRole"
	// ByCluster: the cluster's RBAC allows it; the message comes from the cluster.
	ByCluster = "access.byCluster"

	// Anonymous: the subject is not logged in.
	Anonymous = "access.anonymous"
	// UnknownVerb: the verb does not exist.
	UnknownVerb = "access.unknownVerb"
	// NotGranted: the subject lacks permission for the verb.
	NotGranted = "access.notGranted"
	// ConsoleInUse: another user is using the console; the subject needs takeConsole.
	ConsoleInUse = "access.consoleInUse"
	// LogInPending: the guest is still logging in a user, so the user's name is unknown.
	LogInPending = "access.logInPending"
	// DesktopOfAnother: another user is logged in to the guest's desktop; the subject needs takeConsole.
	DesktopOfAnother = "access.desktopOfAnother"
	// Unavailable: the API server does not answer.
	Unavailable = "access.unavailable"
)

// Texts returns the English text of each key.
func Texts() map[string]string {
	return map[string]string{
		Administrator: "you are an administrator",
		ByUser:        "granted to the user {user}",
		ByRole:        "granted to the role {role}",
		ByCluster:     "granted by the cluster: {message}",
		Anonymous:     "log in first",
		UnknownVerb:   "{verb} is not a valid action",
		NotGranted:    "you do not have the permission {verb}",
		ConsoleInUse:  "{user} is using the console; to take over, you need the permission takeConsole",
		LogInPending:  "the guest is still logging in its user",
		DesktopOfAnother: "{user} is logged in to the desktop; " +
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
