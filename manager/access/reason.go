package access

import "strings"

// Reason says what decided, as the key of a text and what is to be inserted there for {name}.
type Reason struct {
	Key  string
	Args Args
}

// Args are the arguments of a text by their names. They are untrusted: names of users,
// messages of the cluster.
type Args map[string]string

// The keys of reasons.
const (
	// Administrator: the policy says so.
	Administrator = "access.administrator"
	// ByUser, ByRole: a permission of the user, or of the role.
	ByUser, ByRole = "access.byUser", "access.byRole"
	// ByCluster: the cluster's RBAC; the message is its own.
	ByCluster = "access.byCluster"

	// Anonymous: there is no user.
	Anonymous = "access.anonymous"
	// UnknownVerb: the question makes no sense.
	UnknownVerb = "access.unknownVerb"
	// NotGranted: nothing allows the verb.
	NotGranted = "access.notGranted"
	// ConsoleInUse: another user uses the console; needs takeConsole.
	ConsoleInUse = "access.consoleInUse"
	// LogInPending: the guest is logging a user in, who is not known yet.
	LogInPending = "access.logInPending"
	// DesktopOfAnother: the guest has logged another user in; needs takeConsole.
	DesktopOfAnother = "access.desktopOfAnother"
	// Unavailable: the API server doesn't answer.
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
		UnknownVerb:   "{verb} is no action",
		NotGranted:    "you do not have the permission {verb}",
		ConsoleInUse:  "{user} is using the console; to take it over needs the permission takeConsole",
		LogInPending:  "the guest is still logging its user in",
		DesktopOfAnother: "the desktop is that of {user}; " +
			"to take it over needs the permission takeConsole",
		Unavailable: "the cluster cannot be asked whether you may, try again",
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
