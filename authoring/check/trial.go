package check

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A trial is the test of one plan. It can take several attempts, because some things are only replaced or omitted
// after QEMU has refused them.
type trial struct {
	dir  folder
	plan *plan.Plan
	kvm  bool // the plan uses KVM, and KVM is available
	// withoutKVM means that the plan uses KVM, and KVM is unavailable.
	withoutKVM bool
	// without contains the indexes of the omitted options of QEMU.
	without map[int]bool
	// unreserved means that the guest's memory is not reserved on the host, because it is too large.
	unreserved bool
	// absent contains the names of helpers that are not installed. answered contains their sockets, by path in the
	// plan; see answerVhostUser.
	absent, answered map[string]bool
}

// findHelper returns the program of a helper.
func findHelper(h plan.Process) (string, error) {
	path, err := exec.LookPath(h.Executable)
	if err != nil {
		path, err = exec.LookPath(filepath.Base(h.Executable))
	}
	return path, err
}

// omitAbsentHelpers omits the helpers that are not installed. A vhost-user device of such a helper remains, because the
// check can answer on its socket. All other options that need the helper are omitted.
func (t *trial) omitAbsentHelpers(r *Result) {
	options := make([]plan.Option, len(t.plan.QEMU.Args))
	for i, o := range t.plan.QEMU.Args {
		options[i] = o.Structured()
	}
	for _, h := range t.plan.Helpers {
		if h.Role == plan.RoleNetwork {
			continue // a hub replaces the network
		}
		if _, err := findHelper(h); err == nil {
			continue
		}
		t.absent[h.Name] = true
		reason := "the program " + filepath.Base(h.Executable) + " is not installed"
		before := maps.Clone(t.without)
		for i := range options {
			if !t.isServed(options[i], h) {
				continue
			}
			if path, ok := options[i].Get("path"); ok {
				t.answered[path] = true
			}
			for _, user := range usersOf(options, qemuopt.Chardev, options[i].ID()) {
				if !strings.HasPrefix(options[user].Value, "vhost-user-") {
					t.omitWithUsers(options, user)
				}
			}
		}
		if len(t.without) == len(before) {
			r.Without = append(r.Without, "the process "+h.Name+": "+reason)
			continue
		}
		r.Missing = true
		for i := range options {
			if t.without[i] && !before[i] {
				r.Without = append(r.Without, optionText(t.plan.QEMU.Args[i])+": "+reason)
			}
		}
	}
}

// isServed reports whether an option is a connection to a socket of a helper.
func (t *trial) isServed(o plan.Option, h plan.Process) bool {
	path, hasPath := o.Get("path")
	if server, _ := o.Get("server"); o.Flag != "-chardev" || o.Value != "socket" || !hasPath || server == "on" {
		return false
	}
	ownsListener := slices.ContainsFunc(t.plan.Listeners, func(l plan.Listener) bool {
		return l.Path == path && slices.Contains(h.Descriptors(), l.Name)
	})
	return ownsListener || h.Ready == path ||
		slices.ContainsFunc(h.Argv(), func(word string) bool { return strings.Contains(word, path) })
}

// usersOf returns the indexes of the options that refer to an object, such as a netdev, by its kind and id.
func usersOf(options []plan.Option, kind qemuopt.Kind, id string) []int {
	var users []int
	for i, o := range options {
		kindOf := qemuopt.References(o.Flag, o.Backend())
		if slices.ContainsFunc(o.Properties, func(p plan.Property) bool {
			return id != "" && p.Value == id && kindOf(p.Key) == kind
		}) {
			users = append(users, i)
		}
	}
	return users
}

// omitWithUsers omits an option, and the options that refer to the object that it defines.
func (t *trial) omitWithUsers(options []plan.Option, i int) {
	if t.without[i] {
		return
	}
	t.without[i] = true
	known := qemuopt.Flag(options[i].Flag)
	if known == nil || known.Makes == "" || standIn(options[i]).Flag != "" {
		return
	}
	for _, user := range usersOf(options, known.Makes, options[i].ID()) {
		t.omitWithUsers(options, user)
	}
}
