package policy

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"vmop/internal/printable"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/signature"
)

// A Subject describes the VM and the type of a plan to judge.
type Subject struct {
	// Folder is the absolute path of the folder with the type's module, or Stock.
	Folder string
	// DataDir and RuntimeDir are the VM's own directories, absolute.
	DataDir, RuntimeDir string
	// Modules are the texts of the type's own modules, by file name. Proof is the signature of the type, or nil. Both
	// are only needed for a folder with Policy.SignersOf.
	Modules map[string]string
	Proof   *signature.Proof
	// Sample means that the directories belong to a sample VM for trying types. The policy then ignores the places of
	// these directories, and requires no signature.
	Sample bool
	// Reserved are the runner's own files in these directories. No plan may touch them; otherwise a guest could
	// control the monitor of its QEMU.
	Reserved []string
	// Images are the absolute paths of files that the runner creates or grows.
	Images []string
	// Options are the options from vm.options in the configuration.
	Options map[string]any
}

// A Violation is something that a policy does not allow.
type Violation struct {
	// The denied thing: an option, as on the command line, or a description.
	What string
	// Why is the reason.
	Why string
	// Origin is the place in the VM type that created it; it may be empty.
	Origin plan.Origin
	// Rule is the place in the policy that denies it: "file:line".
	Rule string

	// list and word are what the rule would have to contain; word is "" if no word can allow the thing. option is the
	// denied option of QEMU, and helper the denied process, if any.
	list, word string
	option     *plan.Option
	helper     *plan.Process
}

// String returns the violation on several lines.
func (v Violation) String() string {
	text := v.What + ": " + v.Why
	if len(v.Origin) > 0 {
		text += "\n    made at " + v.Origin.String()
	}
	return printable.Text(text + "\n    denied by " + v.Rule)
}

// An Error means that the policy denies a part of a plan.
type Error struct {
	// Type is the name of the VM type; "" if there is no type yet.
	Type string
	// Violations contains at least one violation.
	Violations []Violation
	// Received means that CheckReceived judged the plan.
	Received bool
}

// Error lists all violations.
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

// Check returns an *Error with everything in a plan that the policy denies, or nil. A nil policy allows
// everything.
func (p *Policy) Check(made *plan.Plan, s Subject) error {
	if p == nil {
		return nil
	}
	c := &checker{policy: p, subject: s}
	if c.rule, c.number = p.ruleFor(s.Folder); c.rule == nil {
		c.violations = []Violation{{
			What: "types of " + s.Folder, Why: "no rule applies to them",
			Rule: c.policy.locationOf("rules"),
		}}
		return &Error{Type: made.Type, Violations: c.violations}
	}
	if !s.Sample {
		c.violations = p.checkDirectories(s.DataDir, s.RuntimeDir)
		c.checkSignature(made.Type)
	}
	c.what = "the configuration"
	for _, name := range slices.Sorted(maps.Keys(s.Options)) {
		c.allowWord("options", name, "vm.options."+name)
	}
	c.checkPlan(made)
	if len(c.violations) == 0 {
		return nil
	}
	return &Error{Type: made.Type, Violations: c.violations}
}

// checkSignature requires that the type is signed, if the rule has keys.
func (c *checker) checkSignature(name string) {
	keys := c.policy.SignersOf(c.subject.Folder)
	if keys == nil {
		return
	}
	err := errors.New("it is not signed; take it from its registry with vmrunner vmtype vendor")
	if proof := c.subject.Proof; proof != nil {
		if _, err = proof.Signer(keys); err == nil {
			err = proof.Covers(name, c.subject.Modules)
		}
	}
	if err != nil {
		c.what = "the VM type " + name
		c.denyByList("signedBy", err.Error())
	}
}

// checkPlan judges a plan and the subject's images.
func (c *checker) checkPlan(made *plan.Plan) {
	c.checkQEMU(made)
	for _, h := range made.Helpers {
		c.checkHelper(h)
	}
	for _, f := range made.Files {
		c.at, c.what = &plan.Option{Origin: f.Origin}, "the file "+f.To
		c.checkFile("read", f.From)
		c.checkFile("write", f.To)
	}
	c.checkTaps(made.Taps)
	for _, l := range made.Listeners {
		c.at, c.what = &plan.Option{Origin: l.Origin}, "the socket "+l.Name
		c.checkFile("write", l.Path)
	}
	c.at = nil
	for _, image := range c.subject.Images {
		c.what = "the image " + image
		c.checkFile("write", image)
	}
	for _, s := range made.Sockets {
		c.what = "the socket " + s.Role
		c.checkFile("write", s.Path)
	}
}

// checker judges one plan with one rule.
type checker struct {
	policy     *Policy
	subject    Subject
	rule       *Rule
	number     int          // of the rule
	at         *plan.Option // the option that is being judged; if nil, what describes the thing
	what       string
	helper     *plan.Process // the denied process, if the violation is about a whole process
	violations []Violation
	own        *uses // additionally allowed uses, for CheckReceived; may be nil
}

// locationOf returns the place of a path in the policy's file.
func (p *Policy) locationOf(path string) string {
	return fmt.Sprintf("%s:%d", p.file, p.line(path))
}

// denyByList adds a violation of a list of the rule, or of the rule as a whole, that no word in a list can allow.
func (c *checker) denyByList(list, why string) { c.denyWord(list, "", why) }

// denyWord adds a violation of a list of the rule that the word would allow.
func (c *checker) denyWord(list, word, why string) {
	v := Violation{What: c.what, Why: why, list: list, word: word, helper: c.helper}
	if c.at != nil {
		v.Origin = c.at.Origin
		if c.at.Flag != "" {
			v.option = c.at
			v.What = strings.Join(c.at.Words(func(name string) string { return "<" + name + ">" }), " ")
		}
	}
	at := "rules[" + strconv.Itoa(c.number) + "]"
	if list != "" {
		at += "." + list
	}
	v.Rule = receivedLimits
	if c.own == nil {
		v.Rule = fmt.Sprintf("%s, the rule for %s", c.policy.locationOf(at), strings.Join(c.rule.Types, ", "))
	}
	if len(c.violations) < 100 { // more would not help
		c.violations = append(c.violations, v)
	}
}

// denyAlways adds a violation that an administrator can only allow in the list exact.
func (c *checker) denyAlways(why string) { c.denyByList("", why) }

// allowWord requires that a word is in a list of the rule.
func (c *checker) allowWord(list, word, name string) bool {
	if c.own.usesWord(list, word) {
		return true
	}
	for _, pattern := range c.patternsOf(list) {
		if pattern == word || matchWord(pattern, word) {
			return true
		}
	}
	c.denyWord(list, word, name+" is not in its list "+list)
	return false
}

// patternsOf returns a list of the rule, with "stock" replaced by its meaning.
func (c *checker) patternsOf(list string) []string {
	var all []string
	for _, pattern := range *c.rule.listOf(list) {
		if pattern == Stock {
			all = append(all, stockWords(list)...)
		} else {
			all = append(all, pattern)
		}
	}
	return all
}

// checkFile requires that a file may be read, or read and written.
func (c *checker) checkFile(access, name string) {
	verb := map[string]string{"read": "reading ", "write": "writing "}[access]
	if !path.IsAbs(name) || path.Clean(name) != name {
		c.denyByList(access, verb+strconv.Quote(name)+": a file name must be absolute, without . and ..")
		return
	}
	if slices.ContainsFunc(c.subject.Reserved, func(own string) bool {
		return name == own || isBelow(name, own) || isBelow(own, name)
	}) {
		c.denyByList("", verb+name+": it belongs to the runner, or contains files that do")
		return
	}
	if c.inOwn(name) || c.own.usesWord(access, name) || access == "read" && c.own.usesWord("write", name) {
		return
	}
	patterns := c.patternsOf("write")
	if access == "read" {
		patterns = append(patterns, c.patternsOf("read")...)
	}
	for _, pattern := range patterns {
		if matchesPattern(pattern, name) {
			return
		}
	}
	c.denyWord(access, name, verb+name+" is not allowed")
}

// isBelow reports whether a path is below a folder.
func isBelow(name, folder string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
}

// inOwn reports whether a path is one of the VM's own directories or below. The places of these directories are
// judged separately.
func (c *checker) inOwn(name string) bool {
	for _, dir := range []string{c.subject.DataDir, c.subject.RuntimeDir} {
		if dir != "" && (name == dir || isBelow(name, dir)) {
			return true
		}
	}
	return false
}

// CheckDirectories returns an *Error if a VM may not use these data and runtime directories. Call it before
// creating anything in them.
func (p *Policy) CheckDirectories(dataDir, runtimeDir string) error {
	if p == nil {
		return nil
	}
	if violations := p.checkDirectories(dataDir, runtimeDir); violations != nil {
		return &Error{Violations: violations}
	}
	return nil
}

func (p *Policy) checkDirectories(dataDir, runtimeDir string) (violations []Violation) {
	for i, dir := range []string{dataDir, runtimeDir} {
		if dir == "" || slices.ContainsFunc(p.Directories,
			func(pattern string) bool { return matchesPattern(pattern, dir) }) &&
			path.Clean(dir) == dir {
			continue
		}
		violations = append(violations, Violation{
			What: []string{"dataDir", "runtimeDir"}[i],
			Why:  dir + " is not in the list directories",
			Rule: p.locationOf("directories"),
		})
	}
	return violations
}

// checkListen requires that an address is allowed for listening.
func (c *checker) checkListen(host, port string) {
	if host == "" {
		host = "*"
	}
	where := host + ":" + port
	if c.own.usesWord("listen", where) {
		return
	}
	for _, pattern := range c.patternsOf("listen") {
		everywhere := strings.HasPrefix(pattern, "*:") || strings.HasPrefix(pattern, "**")
		if pattern == where || matchWord(pattern, where) && (host != "*" || everywhere) {
			return
		}
	}
	c.denyWord("listen", where, "listening on "+where+" is not in its list listen")
}
