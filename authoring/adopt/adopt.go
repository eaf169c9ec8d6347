package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vmop/authoring/sample"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// An Evaluator evaluates types of a source, and stock types.
type Evaluator interface {
	Describe(ctx context.Context, source vmtypes.Source, vmType string) (vmtypes.Description, error)
	Launch(
		ctx context.Context, source vmtypes.Source, vmType string, vm vmspec.Spec, host vmtypes.Host,
	) (*plan.Plan, error)
}

// A Request describes the proposal that the user wants.
type Request struct {
	Command *Command
	// Exact means that the plan must not contain anything that the command line lacks.
	Exact bool
	// Source contains the modules next to the type.
	Source vmtypes.Source
	// Type is the type to change; "" means a new type with the name New, which builds on the nearest of the types
	// Bases, or on the first of several.
	Type, New string
	Bases     []string
	// Section is the vm section of the sample as YAML; "" means a new VM.
	Section string
	// Host describes the sample's computer.
	Host      sample.HostFacts
	Evaluator Evaluator
}

// A Proposal is the result: a changed type and a changed VM. Neither is written.
type Proposal struct {
	// Type is the name of the type, and Base the type that a new type builds on; "" if the type exists.
	Type, Base string
	// Before and After are the sources of the module Type.star. Before is "" for a new type. After is "" if the stock
	// type Base needs no changes.
	Before, After string
	// Section is the new vm section of the sample.
	Section string
	// Fields are the changes of the vm section.
	Fields []Field
	// Host describes the computer of the sample.
	Host sample.HostFacts
	// Plan is the plan of the sample with the proposal.
	Plan *plan.Plan
	// Rest is what the proposal does not contain, in the order of the command line.
	Rest []Rest
}

// Propose computes a proposal. The error means that there is none: the type has no plan for the VM, or it doesn't
// define launch.
func Propose(ctx context.Context, r Request) (*Proposal, error) {
	r.Exact = r.Exact || r.Command.IsPlan
	if r.Type != "" {
		s := &search{Request: r, ctx: ctx, name: r.Type, section: r.Section, host: r.Host}
		if err := s.start(); err != nil {
			return nil, err
		}
		return s.finish(r.Source.Modules[r.Type+".star"])
	}
	var best *search
	var reasons []error
	for _, base := range r.Bases {
		s := &search{Request: r, ctx: ctx, name: base, section: r.Section, host: r.Host}
		if err := s.start(); err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", base, err))
			continue
		}
		if best == nil || s.distance() < best.distance() {
			best = s
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no type has a plan for this VM: %w", errors.Join(reasons...))
	}
	return best.finish("")
}

// search is the state of the search for a proposal that builds on one type.
type search struct {
	Request
	ctx     context.Context
	name    string // the type
	wish    *wish
	section string
	host    sample.HostFacts
	plan    *plan.Plan
	covered map[int]bool
	fields  []Field
	left    []difference
	missing []int
	renamed []plan.Option     // the options of the command line with the names of the plan
	options []vmtypes.Option  // of the type
	refused map[string]string // reasons, by the names of differences
}

// newSection is the vm section of a new VM. Everything else comes from the command line.
const newSection = "network: []\n"

// start computes the plan of the unchanged type, with the fields that bring it closer to the command line.
func (s *search) start() error {
	s.wish = newWish(s.Command, s.Exact)
	s.covered, s.refused = map[int]bool{}, map[string]string{}
	d, err := s.Evaluator.Describe(s.ctx, s.Source, s.name)
	if err != nil {
		return err
	}
	s.options = d.Options
	candidates := append(s.wish.fieldsOfWish(), optionFields(d.Options)...)
	if s.section == "" {
		s.section = newSection
		if err := s.addMandatory(); err != nil {
			return err
		}
		s.chooseHost()
	}
	if s.plan, err = s.evaluateWith(s.section, ""); err != nil {
		// A type for one kind of firmware or kernel has no plan before these fields are set.
		for _, c := range candidates {
			if section, errOfFields := setFields(s.section, c.fields); errOfFields == nil {
				if p, errOfPlan := s.evaluateWith(section, ""); errOfPlan == nil {
					s.plan, s.section, err = p, section, nil
					s.fields = append(s.fields, c.fields...)
					s.cover(c)
					break
				}
			}
		}
	}
	if err != nil {
		return err
	}
	s.compare()
	for _, c := range candidates {
		s.tryFields(c)
	}
	for range 2 { // files of drives that were just added, for example
		for _, c := range s.wish.deviceFields(s.missing) {
			if slices.Contains(s.missing, c.about) {
				s.tryFields(c)
			}
		}
	}
	for _, c := range s.sameValueFields() {
		s.tryFields(c)
	}
	for _, d := range slices.Clone(s.left) {
		if d.have != nil && d.want != nil && len(d.now) == 1 && (s.Exact || strings.HasPrefix(d.now[0], "/")) {
			for _, c := range fileField(s.plan, d.have.ID(), d.key, d.now[0], d.line) {
				s.tryFields(c)
			}
		}
	}
	return s.ctx.Err()
}

// addMandatory sets the mandatory options of the type.
func (s *search) addMandatory() error {
	for i := range s.options {
		if o := &s.options[i]; o.Mandatory {
			f := Field{Path: "vm.options." + o.Name, Value: o.Example()}
			var err error
			if s.section, err = setFields(s.section, []Field{f}); err != nil {
				return err
			}
			s.fields = append(s.fields, f)
		}
	}
	return nil
}

// chooseHost describes a computer that can run the command.
func (s *search) chooseHost() {
	if strings.HasSuffix(s.Command.Program, "aarch64") || s.name == "arm64" {
		s.host.Arch, s.host.Files = "aarch64", []string{"debian-12-arm64"}
	}
	s.host.KVM = slices.ContainsFunc(s.wish.wants, func(w Want) bool { return w.Flag == "-accel" && w.Value == "kvm" })
}

// evaluateWith returns the plan for a vm section. text is another source of the type; "" means the existing one.
func (s *search) evaluateWith(section, text string) (*plan.Plan, error) {
	vm, err := sample.ParseVM([]byte(section))
	if err != nil {
		return nil, err
	}
	source, name := s.Source, s.name
	if text != "" {
		name = cmp.Or(s.Type, s.New)
		source.Modules = map[string]string{name + ".star": text}
		for other, module := range s.Source.Modules {
			if other != name+".star" {
				source.Modules[other] = module
			}
		}
	}
	return s.Evaluator.Launch(s.ctx, source, name, vm, s.host.Host())
}

// compare updates the differences.
func (s *search) compare() {
	s.left, s.missing, s.renamed = s.wish.differences(s.plan, s.covered)
}

// distance returns a number that is smaller for types that need fewer changes.
func (s *search) distance() int {
	const each = 1000
	n := 0
	for i := range s.left {
		switch d := &s.left[i]; {
		case d.have != nil && d.have.Flag == "-machine" && (d.key == "" || d.key == "type"):
			n += 20 * each
		case d.have == nil || d.want == nil:
			n += 5 * each
		case d.kept != "":
			n += each / 10
		default:
			n += each
		}
	}
	if s.Command.Program != "" && strings.HasSuffix(s.Command.Program, "aarch64") !=
		strings.HasSuffix(s.plan.QEMU.Executable, "aarch64") {
		n += 100 * each
	}
	if s.wish.machine() < 0 && slices.Contains([]string{"microvm", "isapc"}, s.plan.MachineType()) {
		n += 20 * each // a command line without -machine means a PC
	}
	return n
}

func setFields(section string, fields []Field) (string, error) {
	var err error
	for _, f := range fields {
		if section, err = setField(section, f); err != nil {
			return "", err
		}
	}
	return section, nil
}

// tryFields keeps fields if the plan comes closer to the command line.
func (s *search) tryFields(c candidate) {
	section, err := setFields(s.section, c.fields)
	if err != nil || section == s.section {
		return
	}
	p, err := s.evaluateWith(section, "")
	if err != nil {
		s.refuseFields(c, err)
		return
	}
	before := *s
	s.plan, s.section, s.covered = p, section, maps.Clone(s.covered)
	s.cover(c)
	s.compare()
	now, then := s.distance(), before.distance()
	if now >= then && (!c.always || now > then || s.plan.Text() == before.plan.Text()) {
		*s = before
		return
	}
	s.fields = append(s.fields, c.fields...)
}

// refuseFields records why the configuration does not accept a value.
func (s *search) refuseFields(c candidate, err error) {
	for i := range s.left {
		if d := &s.left[i]; d.from >= 0 && (d.from == c.about || slices.Contains(c.covers, d.from)) {
			first, _, _ := strings.Cut(err.Error(), "\n")
			s.refused[d.name()] = fmt.Sprintf("%s: %s can't be set: %s", cmp.Or(d.kept, "not changed"),
				c.fields[0].Path, first)
		}
	}
}

// cover marks options for which nothing remains to be done. In a printed plan, the plan itself must agree.
func (s *search) cover(c candidate) {
	for _, i := range c.covers {
		if flag := s.wish.wants[i].Flag; !s.Exact && flag != "-machine" && flag != "-cpu" && flag != "-rtc" &&
			flag != "-boot" {
			s.covered[i] = true
		}
	}
}

// finish computes the edits of the type. before is the source of the type; "" means a new type.
func (s *search) finish(before string) (*Proposal, error) {
	base, text := s.name, before
	if before == "" {
		text = newModule(s.New, base, len(s.options) > 0)
	}
	edits := append(s.wish.editsFor(s.plan, s.left), s.lineEdits()...)
	after, err := s.apply(text, edits)
	if err != nil {
		return nil, err
	}
	p := &Proposal{
		Type: cmp.Or(s.Type, s.New), Before: before, After: after, Section: s.section, Fields: s.fields, Host: s.host,
		Plan: s.plan,
	}
	if s.Type == "" {
		p.Base = base
	}
	if after == text && before == "" { // the stock type itself
		p.Type, p.After = base, ""
	}
	if s.Section == "" {
		p.Section = sortSection(p.Section)
	}
	p.Rest = s.restOf()
	return p, nil
}

// apply returns the source with as many of the edits as possible.
func (s *search) apply(text string, edits []edit) (string, error) {
	if len(edits) == 0 {
		return text, nil
	}
	name := cmp.Or(s.Type, s.New) + ".star"
	for _, inPlace := range []bool{true, false} {
		after, err := editModule(name, text, edits, inPlace)
		if err != nil {
			return "", err
		}
		if s.accept(after, edits) == "" && !slices.ContainsFunc(s.left,
			func(d difference) bool { return d.kept == "" }) {
			return after, nil
		}
	}
	return s.applyEach(name, text, edits)
}

// applyEach tries the edits one after the other.
func (s *search) applyEach(name, text string, edits []edit) (string, error) {
	start := s.plan
	if p, err := s.evaluateWith(s.section, ""); err == nil {
		start = p
	}
	s.plan = start
	s.compare()
	kept, result := []edit{}, text
	try := func(e edit) string {
		after, err := editModule(name, text, append(slices.Clone(kept), e), false)
		if err != nil {
			return err.Error()
		}
		reason := s.accept(after, append(slices.Clone(kept), e))
		if reason == "" {
			kept, result = append(kept, e), after
		}
		return reason
	}
	waiting := edits
	for len(waiting) > 0 { // an edit can need another
		var again []edit
		for _, e := range waiting {
			reason := try(e)
			if reason != "" {
				if free, changed := withoutAddresses(e); changed {
					if try(free) == "" {
						reason = ""
					}
				}
			}
			if reason == "" {
				continue
			}
			again = append(again, e)
			for _, cause := range e.causes {
				s.refused[cause] = reason
			}
		}
		if len(again) == len(waiting) {
			break
		}
		waiting = again
	}
	return result, s.ctx.Err()
}

// withoutAddresses removes the addresses of an edit's new devices, in case another device has them.
func withoutAddresses(e edit) (edit, bool) {
	changed := false
	e.add = slices.Clone(e.add)
	for i := range e.add {
		n := len(e.add[i].Properties)
		e.add[i].Properties = slices.DeleteFunc(slices.Clone(e.add[i].Properties), func(p plan.Property) bool {
			return e.add[i].Flag == "-device" && p.Key == "addr"
		})
		changed = changed || len(e.add[i].Properties) < n
	}
	return e, changed
}

// accept evaluates a source of the type. If the result is closer to the command line, it becomes the current plan.
// Otherwise accept returns the reason.
func (s *search) accept(text string, edits []edit) string {
	p, err := s.evaluateWith(s.section, text)
	if err != nil {
		return explain(err)
	}
	before := *s
	s.plan = p
	s.compare()
	n, m := countOpen(s.left), countOpen(before.left)
	lines := slices.ContainsFunc(edits, func(e edit) bool { return len(e.causes) == 0 })
	if n < m || n == m && lines {
		return ""
	}
	*s = before
	return "the change has no effect on the plan, or an opposite one"
}

func countOpen(list []difference) (n int) {
	for i := range list {
		if list[i].kept == "" {
			n++
		}
	}
	return n
}

// explain returns the message of an error on one line.
func explain(err error) string {
	var faults *vmtypes.FaultsError
	if errors.As(err, &faults) {
		return "the plan would be invalid: " + faults.Faults[0].Message
	}
	var placed *vmtypes.Error
	if errors.As(err, &placed) {
		return placed.Message
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// newModule returns a type that builds on another type and changes nothing.
func newModule(name, base string, hasOptions bool) string {
	module, local := base+".star", "base"
	if vmtypes.IsStock(base) {
		module, local = vmtypes.StockPrefix+module, base
	}
	loaded, options := local+` = "launch"`, ""
	if hasOptions {
		loaded += ", " + local + `_options = "options"`
		options = "options = " + local + "_options\n\n"
	}
	return fmt.Sprintf(`"""%s: the type %s, with the devices of a command line."""

load(%q, %s)

api_version = %d

%sdef launch(vm, host):
    """Returns the machine of the type %s with the changes of a command line."""
    return %s(vm, host)
`, name, base, module, loaded, vmtypes.APIVersion, options, base, local)
}
