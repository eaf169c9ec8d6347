package policy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"vmop/printable"
	"vmop/vmtypes/plan"
)

// A Subject is whose plan is judged.
type Subject struct {
	// Folder is where the type's module is, absolute; or Stock.
	Folder string
	// DataDir and RuntimeDir are the VM's own directories, absolute.
	DataDir, RuntimeDir string
	// Sample says that the directories are those of a VM that types are only tried
	// with: where they are is not judged.
	Sample bool
	// Reserved are files in these directories that are the runner's: no plan may
	// touch them, or a guest could have the monitor of its QEMU.
	Reserved []string
	// Images are files that the runner itself makes or lets grow, absolute.
	Images []string
	// Options are those that the configuration gives in vm.options.
	Options map[string]any
}

// A Violation is something that a policy does not allow.
type Violation struct {
	// What is denied: an option, as on the command line, or a thing in words.
	What string
	// Why it is.
	Why string
	// Origin is where the VM type made it; it may be empty.
	Origin plan.Origin
	// Rule is the place in the policy that denies it: "file:line".
	Rule string
}

// String returns the violation on several lines.
func (v Violation) String() string {
	text := v.What + ": " + v.Why
	if len(v.Origin) > 0 {
		text += "\n    made at " + v.Origin.String()
	}
	return printable.Text(text + "\n    denied by " + v.Rule)
}

// An Error says that a plan does what the policy doesn't allow.
type Error struct {
	// Type is the name of the VM type; "" before there is one.
	Type string
	// Violations are at least one.
	Violations []Violation
	// Received says that the plan was judged by CheckReceived.
	Received bool
}

// Error returns all violations, one after the other.
func (e *Error) Error() string {
	lines := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		lines[i] = strings.ReplaceAll(v.String(), "\n", "\n  ")
	}
	what := "the VM type " + e.Type + " does what the policy does not allow"
	switch {
	case e.Received:
		what = "the VM type " + e.Type + ", which came from another runner, does what this side's own type does not"
	case e.Type == "":
		what = "the configuration wants what the policy does not allow"
	}
	return what + ":\n  " + strings.Join(lines, "\n  ")
}

// Check returns all that the policy doesn't allow of a plan as an *Error, or nil.
// A nil policy allows everything.
func (p *Policy) Check(made *plan.Plan, s Subject) error {
	if p == nil {
		return nil
	}
	c := &checker{policy: p, subject: s}
	if c.rule, c.number = p.ruleFor(s.Folder); c.rule == nil {
		c.violations = []Violation{{
			What: "types of " + s.Folder, Why: "no rule applies to them",
			Rule: c.policy.place("rules"),
		}}
		return &Error{Type: made.Type, Violations: c.violations}
	}
	if !s.Sample {
		c.violations = p.directories(s.DataDir, s.RuntimeDir)
	}
	c.what = "the configuration"
	for _, name := range slices.Sorted(maps.Keys(s.Options)) {
		c.allow("options", name, "vm.options."+name)
	}
	c.plan(made)
	if len(c.violations) == 0 {
		return nil
	}
	return &Error{Type: made.Type, Violations: c.violations}
}

// plan judges a plan, and the images of the subject.
func (c *checker) plan(made *plan.Plan) {
	c.qemu(made)
	for _, h := range made.Helpers {
		c.helper(h)
	}
	for _, f := range made.Files {
		c.at, c.what = &plan.Option{Origin: f.Origin}, "the file "+f.To
		c.file("read", f.From)
		c.file("write", f.To)
	}
	c.network(made.Taps)
	for _, l := range made.Listeners {
		c.at, c.what = &plan.Option{Origin: l.Origin}, "the socket "+l.Name
		c.file("write", l.Path)
	}
	c.at = nil
	for _, image := range c.subject.Images {
		c.what = "the image " + image
		c.file("write", image)
	}
	for _, s := range made.Sockets {
		c.what = "the socket " + s.Role
		c.file("write", s.Path)
	}
}

// checker judges one plan by one rule.
type checker struct {
	policy     *Policy
	subject    Subject
	rule       *Rule
	number     int          // of the rule
	at         *plan.Option // that is being judged; nil: what is
	what       string
	violations []Violation
	own        *uses // of CheckReceived: what is allowed as well; nil: nothing
}

// place returns where something stands in the policy.
func (p *Policy) place(path string) string {
	return fmt.Sprintf("%s:%d", p.file, p.line(path))
}

// denied notes a violation of a list of the rule, or of the rule.
func (c *checker) denied(list, why string) {
	v := Violation{What: c.what, Why: why}
	if c.at != nil {
		v.Origin = c.at.Origin
		if c.at.Flag != "" {
			v.What = strings.Join(c.at.Words(func(name string) string { return "<" + name + ">" }), " ")
		}
	}
	at := "rules[" + strconv.Itoa(c.number) + "]"
	if list != "" {
		at += "." + list
	}
	v.Rule = receivedLimits
	if c.own == nil {
		v.Rule = fmt.Sprintf("%s, the rule for %s", c.policy.place(at), strings.Join(c.rule.Types, ", "))
	}
	if len(c.violations) < 100 { // more are not worth reading
		c.violations = append(c.violations, v)
	}
}

// deny notes what nothing in a rule could allow but exact.
func (c *checker) deny(why string) { c.denied("", why) }

// allow wants a word to be in a list of the rule.
func (c *checker) allow(list, word, name string) bool {
	if c.own.allows(list, word) {
		return true
	}
	for _, pattern := range c.patterns(list) {
		if pattern == word || matchWord(pattern, word) {
			return true
		}
	}
	c.denied(list, name+" is not in its list "+list)
	return false
}

// patterns returns a list of the rule, with what stock stands for.
func (c *checker) patterns(list string) []string {
	r := c.rule
	own := map[string][]string{
		"flags": r.Flags, "devices": r.Devices, "backends": r.Backends, "read": r.Read, "write": r.Write,
		"programs": r.Programs, "environment": r.Environment, "networks": r.Networks, "listen": r.Listen,
		"options": r.Options,
	}[list]
	var all []string
	for _, pattern := range own {
		if pattern == Stock {
			all = append(all, stockWords(list)...)
		} else {
			all = append(all, pattern)
		}
	}
	return all
}

// file wants a file to be one that may be read, or read and written.
func (c *checker) file(access, name string) {
	verb := map[string]string{"read": "reading ", "write": "writing "}[access]
	if !path.IsAbs(name) || path.Clean(name) != name {
		c.denied(access, verb+strconv.Quote(name)+": a file name must be absolute, without . and ..")
		return
	}
	if slices.ContainsFunc(c.subject.Reserved, func(own string) bool {
		return name == own || within(name, own) || within(own, name)
	}) {
		c.denied("", verb+name+": it belongs to the runner, or contains files that do")
		return
	}
	if c.inOwn(name) || c.own.allows(access, name) || access == "read" && c.own.allows("write", name) {
		return
	}
	patterns := c.patterns("write")
	if access == "read" {
		patterns = append(patterns, c.patterns("read")...)
	}
	for _, pattern := range patterns {
		if match(pattern, name) {
			return
		}
	}
	c.denied(access, verb+name+" is not allowed")
}

// within reports whether a path is below a folder.
func within(name, folder string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
}

// inOwn reports whether a path is one of the VM's own directories or in it; where these
// may be is judged by itself.
func (c *checker) inOwn(name string) bool {
	for _, dir := range []string{c.subject.DataDir, c.subject.RuntimeDir} {
		if dir != "" && (name == dir || within(name, dir)) {
			return true
		}
	}
	return false
}

// CheckDirectories returns an *Error if a VM may not have these data and runtime
// directories, before anything is made in them.
func (p *Policy) CheckDirectories(dataDir, runtimeDir string) error {
	if p == nil {
		return nil
	}
	if violations := p.directories(dataDir, runtimeDir); violations != nil {
		return &Error{Violations: violations}
	}
	return nil
}

func (p *Policy) directories(dataDir, runtimeDir string) (violations []Violation) {
	for i, dir := range []string{dataDir, runtimeDir} {
		if dir == "" || slices.ContainsFunc(p.Directories, func(pattern string) bool { return match(pattern, dir) }) &&
			path.Clean(dir) == dir {
			continue
		}
		violations = append(violations, Violation{
			What: []string{"dataDir", "runtimeDir"}[i],
			Why:  dir + " is not in the list directories",
			Rule: p.place("directories"),
		})
	}
	return violations
}

// listen wants an address to be one on which connections may be taken.
func (c *checker) listen(host, port string) {
	if host == "" {
		host = "*"
	}
	where := host + ":" + port
	if c.own.allows("listen", where) {
		return
	}
	for _, pattern := range c.patterns("listen") {
		everywhere := strings.HasPrefix(pattern, "*:") || strings.HasPrefix(pattern, "**")
		if pattern == where || matchWord(pattern, where) && (host != "*" || everywhere) {
			return
		}
	}
	c.denied("listen", "listening on "+where+" is not in its list listen")
}
