package access

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
)

// actions are the actions of the resource; a test of api/v1 keeps this list complete.
var actions = []v1.Action{
	"start", "stop", "reset", "accessConsole", "takeConsole", "resize", "edit", "create", "delete", "*",
}

// situation is the state of a VM from a user's point of view.
type situation struct {
	console  string // the user of the console
	pending  bool   // a log-in to the guest has been requested
	loggedIn string
}

func situations() (all []situation) {
	for _, console := range []string{"", "ann", "bob"} {
		all = append(all, situation{console: console})
		for _, user := range []string{"", "ann", "bob"} {
			all = append(all, situation{console: console, pending: true, loggedIn: user})
		}
	}
	return all
}

// model is an independent version of the policy: it reports whether ann may use a verb with the granted actions.
func model(granted map[v1.Action]bool, verb Verb, s situation) bool {
	for action := range granted {
		if action == "*" || verb == View || string(action) == string(verb) {
			if action == "*" || verb != AccessConsole {
				return true
			}
		}
	}
	if verb != AccessConsole {
		return false
	}
	othersConsole := s.console == "bob"
	othersDesktop := s.pending && s.loggedIn != "ann"
	return granted["takeConsole"] || granted["accessConsole"] && !othersConsole && !othersDesktop
}

// Decide agrees with the model for every set of actions, kind of subject, verb and situation.
func TestDecideAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	ann := Subject{User: "ann", Roles: []string{"staff", "", "ops"}}
	holders := []struct {
		user, role string
		holds      bool
	}{
		{"ann", "", true},
		{"", "ops", true},
		{"bob", "", false},
		{"", "admin", false},
		{"Ann", "", false},
		{"ops", "", false},
		{"", "ann", false},
		{"", "", false},
		{"ann", "ops", false},
		{"*", "", false},
		{"", "*", false},
	}
	for set := range 1 << len(actions) {
		var may []v1.Action
		granted := map[v1.Action]bool{}
		for i, action := range actions {
			if set&(1<<i) != 0 {
				may = append(may, action)
				granted[action] = true
			}
		}
		for _, h := range holders {
			permissions := []v1.Permission{{User: h.user, Role: h.role, May: may}}
			held := granted
			if !h.holds {
				held = nil
			}
			for _, s := range situations() {
				vm := VM{
					Name: "web", Permissions: permissions,
					ConsoleUser: s.console, LogInRequested: s.pending, LoggedInUser: s.loggedIn,
				}
				for _, verb := range Verbs() {
					got := Decide(Policy{}, ann, verb, vm)
					if want := model(held, verb, s); got.Allowed != want || got.Unknown {
						t.Fatalf("%v may %s with %+v, %+v: got %+v, want %v", h, verb, may, s, got, want)
					}
				}
			}
		}
	}
}

// Permissions for one VM and permissions for all VMs add up.
func TestPermissionsAddUp(t *testing.T) {
	t.Parallel()
	ann := Subject{User: "ann", Roles: []string{"ops"}}
	for _, first := range actions {
		for _, second := range actions {
			granted := map[v1.Action]bool{first: true, second: true}
			mine := v1.Permission{User: "ann", May: []v1.Action{first}}
			ours := v1.Permission{Role: "ops", May: []v1.Action{second}}
			for i, given := range []struct{ own, everywhere []v1.Permission }{
				{[]v1.Permission{mine, ours}, nil},
				{[]v1.Permission{mine}, []v1.Permission{ours}},
				{nil, []v1.Permission{ours, mine}},
			} {
				for _, verb := range Verbs() {
					got := Decide(Policy{Permissions: given.everywhere}, ann, verb, VM{Permissions: given.own})
					require.Equal(t, model(granted, verb, situation{}), got.Allowed, "%d: %s by %s, %s", i, verb, first,
						second)
				}
			}
		}
	}
}

func TestAdministratorsMayDoEverything(t *testing.T) {
	t.Parallel()
	policy := Policy{Administrators: Names{Users: []string{"root", ""}, Roles: []string{"admin", ""}}}
	busy := VM{ConsoleUser: "bob", LogInRequested: true, LoggedInUser: "bob"}
	for subject, want := range map[string]bool{
		"root/": true, "ann/admin": true, "ann/staff,admin": true,
		"ann/": false, "admin/root": false, "Root/Admin": false, "/admin": false, "/": false,
	} {
		user, roles, _ := strings.Cut(subject, "/")
		for _, mode := range []Mode{"", ByPermissions, ByRBAC, ByBoth} {
			policy.Mode = mode
			for _, verb := range Verbs() {
				got := Decide(policy, Subject{User: user, Roles: strings.Split(roles, ",")}, verb, busy)
				require.Equal(t, want, got.Allowed, "%s %s", subject, verb)
			}
			require.False(t, Decide(policy, Subject{User: user, Roles: []string{roles}}, "destroy", busy).Allowed)
		}
	}
}

// In mode RBAC, permissions of a VM grant nothing.
func TestPermissionsDoNotCountByRBAC(t *testing.T) {
	t.Parallel()
	all := []v1.Permission{{User: "ann", May: []v1.Action{"*"}}}
	for _, verb := range Verbs() {
		vm := VM{Permissions: all}
		require.False(t, Decide(Policy{Mode: ByRBAC, Permissions: all}, Subject{User: "ann"}, verb, vm).Allowed)
		require.True(t, Decide(Policy{Mode: ByBoth}, Subject{User: "ann"}, verb, vm).Allowed)
	}
}

// A reason shows what the user can do next.
func TestReasons(t *testing.T) {
	t.Parallel()
	ann := Subject{User: "ann", Roles: []string{"ops"}}
	may := func(actions ...v1.Action) []v1.Permission { return []v1.Permission{{Role: "ops", May: actions}} }
	for _, tt := range []struct {
		subject Subject
		verb    Verb
		vm      VM
		want    string
	}{
		{Subject{}, View, VM{Permissions: may("*")}, "log in first"},
		{ann, "destroy", VM{}, "destroy is not a valid action"},
		{ann, Start, VM{}, "you do not have the permission start"},
		{ann, Start, VM{Permissions: may("start")}, "granted to the role ops"},
		{ann, Start, VM{Permissions: []v1.Permission{{User: "ann", May: actions}}}, "granted to the user ann"},
		{ann, AccessConsole, VM{}, "you do not have the permission accessConsole"},
		{
			ann, AccessConsole,
			VM{Permissions: may("accessConsole"), ConsoleUser: "{verb}"},
			"{verb} is using the console; to take over, you need the permission takeConsole",
		},
		{
			ann, AccessConsole,
			VM{Permissions: may("accessConsole"), LogInRequested: true},
			"the guest is still logging in its user",
		},
		{
			ann, AccessConsole,
			VM{Permissions: may("accessConsole"), LogInRequested: true, LoggedInUser: "bob"},
			"bob is logged in to the desktop; to take over, you need the permission takeConsole",
		},
	} {
		require.Equal(t, tt.want, Decide(Policy{}, tt.subject, tt.verb, tt.vm).Reason.String())
	}
	admins := Policy{Administrators: Names{Users: []string{"ann"}}}
	require.Equal(t, "you are an administrator", Decide(admins, ann, Delete, VM{}).Reason.String())
}

// Every reason has a text, and its arguments fill all placeholders of the text.
func TestEveryReasonHasItsText(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	check := func(d Decision) {
		seen[d.Reason.Key] = true
		text := d.Reason.String()
		require.NotEmpty(t, text, "%+v", d)
		require.NotContains(t, text, "{", "%+v", d)
	}
	for _, user := range []string{"", "ann", "root"} {
		for _, s := range situations() {
			for _, action := range actions {
				for _, p := range []v1.Permission{{User: "ann"}, {Role: "ops"}} {
					p.May = []v1.Action{action}
					vm := VM{
						Permissions: []v1.Permission{p},
						ConsoleUser: s.console, LogInRequested: s.pending, LoggedInUser: s.loggedIn,
					}
					policy := Policy{Administrators: Names{Users: []string{"root"}}}
					for _, verb := range slices.Concat(Verbs(), []Verb{"*", "", "destroy"}) {
						check(Decide(policy, Subject{User: user, Roles: []string{"ops"}}, verb, vm))
					}
				}
			}
		}
	}
	for key := range Texts() {
		if key != byCluster && key != Unavailable { // TestRBAC… covers these two
			require.True(t, seen[key], "%s is never given", key)
		}
	}
}

// "*" is valid in permissions, but isn't a verb.
func TestTheWildcardIsNoVerb(t *testing.T) {
	t.Parallel()
	vm := VM{Permissions: []v1.Permission{{User: "ann", May: []v1.Action{"*"}}}}
	require.False(t, Decide(Policy{}, Subject{User: "ann"}, Verb("*"), vm).Allowed)
	require.NotContains(t, fmt.Sprint(Verbs()), "*")
}
