package lsp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"vmop/authoring/lint"
	"vmop/authoring/sample"
	"vmop/authoring/vmtypestest"
	"vmop/internal/yamlfile"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// An evaluation is the result of evaluating a folder.
type evaluation struct {
	// diagnostics are the diagnostics by file name, including samples in testdata.
	diagnostics map[string][]diagnostic
	// made are the options that the lines of a file create, by file name.
	made map[string][]made
	// declared are the options that types declare, by type name.
	declared map[string][]vmtypes.Option
	// planned are the names in the plans of types, by type name. programs are the programs of QEMU in the plans. found
	// are the linter's findings in the plans.
	planned  map[string]*planned
	programs map[string]bool
	found    []lint.Finding
	// sampled are the types with samples.
	sampled []string
	// oldest are the oldest versions of QEMU that types need.
	oldest map[string]string

	source vmtypes.Source
	texts  map[string]*text
}

// made contains the options that a line creates for a sample.
type made struct {
	line   int // counted from 1
	sample string
	// own are options that the line itself creates. called are options that the functions called in the line create.
	// Both contain words of the command line.
	own, called []string
}

// evaluateFolder evaluates all modules of a folder, and all its types with their samples, several at a time. Open
// documents replace files. If the context ends, evaluateFolder returns early and its result is useless.
func (o Options) evaluateFolder(ctx context.Context, dir string, open map[string]*text) *evaluation {
	source, err := vmtypes.ReadSource(dir)
	if err != nil {
		source = vmtypes.Source{Dir: dir, Modules: map[string]string{}} // only the open documents are known
	}
	e := newEvaluation(source, open)
	for name, text := range open {
		switch {
		case filepath.Ext(name) != ".star":
		case len(text.content) > vmtypes.MaxModule:
			delete(source.Modules, name)
			e.addDiagnostic(name, 1, 1, diagnostic{
				Severity: severityError,
				Message:  fmt.Sprintf("a module has at most %d bytes", vmtypes.MaxModule),
			})
		default:
			source.Modules[name] = text.content
		}
	}
	samples := e.samplesByType(dir)
	var work []func() *evaluation
	for _, file := range slices.Sorted(maps.Keys(source.Modules)) {
		work = append(work, func() *evaluation {
			of := newEvaluation(source, open)
			of.oldest = e.oldest
			o.evaluateModule(ctx, of, file, samples)
			return of
		})
	}
	vmtypestest.InOrder(work, e.mergeResults)
	e.lintFolder(ctx, o)
	return e
}

func newEvaluation(source vmtypes.Source, open map[string]*text) *evaluation {
	return &evaluation{
		diagnostics: map[string][]diagnostic{}, made: map[string][]made{}, declared: map[string][]vmtypes.Option{},
		planned: map[string]*planned{}, programs: map[string]bool{},
		source: source, texts: open,
	}
}

// mergeResults adds the results of another evaluation of the same source.
func (e *evaluation) mergeResults(other *evaluation) {
	for file, list := range other.diagnostics {
		for _, d := range list {
			e.unlessThere(file, d)
		}
	}
	for file, list := range other.made {
		for _, m := range list {
			if have := slices.ContainsFunc(e.made[file], func(have made) bool { return have.line == m.line }); !have {
				e.made[file] = append(e.made[file], m)
			}
		}
	}
	maps.Copy(e.declared, other.declared)
	maps.Copy(e.planned, other.planned)
	maps.Copy(e.programs, other.programs)
	for _, f := range other.found {
		if !slices.ContainsFunc(e.found, f.Equals) {
			e.found = append(e.found, f)
		}
	}
}

// evaluateModule evaluates one module: a type with its samples, a file of tests, or a library module.
func (o Options) evaluateModule(ctx context.Context, e *evaluation, file string, samples map[string][]*sample.Sample) {
	name := strings.TrimSuffix(file, ".star")
	switch t := parseTree(file, newText(e.source.Modules[file])); {
	case ctx.Err() != nil:
	case strings.HasSuffix(name, "_test"):
		o.runTests(ctx, e, file)
	case t == nil || !t.isType() || vmtypes.IsStock(name):
		if err := o.Evaluator.Diagnose(ctx, e.source, file); err != nil {
			e.addErrors(err, file, "")
		}
		o.planLoaded(ctx, e, name, samples[name])
	default:
		d, err := o.Evaluator.Describe(ctx, e.source, name)
		if err != nil {
			e.addErrors(err, file, "") // each sample would repeat this error
		} else {
			e.declared[name] = d.Options
			o.trySamples(ctx, e, file, name, samples[name])
		}
		o.planLoaded(ctx, e, name, samples[name])
	}
}

// runTests runs the tests of a file, and adds their failures.
func (o Options) runTests(ctx context.Context, e *evaluation, file string) {
	results, err := o.Evaluator.Test(ctx, e.source, file)
	if err != nil {
		e.addErrors(err, file, "")
		return
	}
	for _, r := range results {
		for _, f := range r.Failures {
			failed := &vmtypes.Error{Message: f.Message, File: f.File, Line: f.Line, Column: f.Column}
			if f.Line == 0 {
				failed.File, failed.Line, failed.Column = file, max(r.Line, 1), 1
			}
			e.addErrorAt(failed, file, f.Diff)
		}
	}
}

// lintFolder adds the linter's findings, except on lines with errors. It checks plans with the QEMU that they use.
func (e *evaluation) lintFolder(ctx context.Context, o Options) {
	folder := lint.Folder{
		Modules: e.source.Modules, Around: lint.Surroundings{Read: vmtypes.StockModule},
		Sampled: e.sampled,
	}
	if ctx.Err() != nil {
		return
	}
	for program := range e.programs {
		if len(e.programs) == 1 { // otherwise, the modules may be for another one
			folder.Around.QEMU = askable(o.QEMU(program))
			folder.Unasked = e.needNewer(folder.Around.QEMU)
		}
	}
	for _, f := range lint.Sort(append(e.found, folder.Findings()...)) {
		wrong := slices.ContainsFunc(e.diagnostics[f.File], func(d diagnostic) bool {
			return d.Severity == severityError && d.Range.Start.Line == f.Line-1
		})
		if !wrong {
			d := diagnostic{
				Severity: severityWarning, Source: serverName, Code: f.Rule, Message: f.Message, repair: f.Repair,
				Range: e.wordSpan(f.File, f.Line, f.Column),
			}
			if t := e.textOf(f.File); t != nil && f.EndLine == f.Line {
				d.Range.End = t.columnPosition(f.EndLine, f.EndColumn)
			}
			e.unlessThere(f.File, d)
		}
	}
}

// needNewer returns the types that need a newer QEMU, which may be nil.
func (e *evaluation) needNewer(qemu lint.QEMU) map[string]bool {
	types := map[string]bool{}
	for name, least := range e.oldest {
		types[name] = needsNewer(qemu, least)
	}
	return types
}

// needsNewer reports whether a version of QEMU is newer than the installed QEMU, which may be nil.
func needsNewer(qemu lint.QEMU, least string) bool {
	return qemu != nil && least != "" && sample.IsOlder(strings.TrimPrefix(qemu.Name(), "QEMU "), least)
}

// samplesByType returns the samples of a folder by type, at most mostTried for each, and adds the errors in samples.
func (e *evaluation) samplesByType(dir string) map[string][]*sample.Sample {
	found := map[string][]*sample.Sample{}
	if dir == "" {
		return found
	}
	paths, err := sample.Find(dir)
	if err != nil {
		return found // the folder doesn't exist yet
	}
	for _, path := range paths {
		s, err := sample.Read(path)
		if err != nil {
			e.addErrors(err, e.relativePath(path), "")
			continue
		}
		if len(found[s.Type]) < mostTried {
			found[s.Type] = append(found[s.Type], s)
		}
		e.sampled = append(e.sampled, s.Type)
	}
	e.oldest = sample.OldestQEMU(slices.Concat(slices.Collect(maps.Values(found))...))
	return found
}

func (e *evaluation) relativePath(path string) string {
	if name, err := filepath.Rel(e.source.Dir, path); err == nil {
		return name
	}
	return path
}

// mostTried is the maximum number of samples of a type that an evaluation tries, so that it ends soon. "vmtype test"
// tries all.
const mostTried = 200

// trySamples computes the plans of a type's samples. For a type without samples, it uses a VM with the defaults.
func (o Options) trySamples(ctx context.Context, e *evaluation, file, name string, samples []*sample.Sample) {
	standIn := len(samples) == 0
	if standIn {
		vm, err := sample.ParseVM([]byte("name: vm\n"))
		if err != nil {
			return
		}
		samples = []*sample.Sample{{Path: "a VM with the defaults", Type: name, VM: vm}}
	}
	var plans []*plan.Plan
	for i, s := range samples {
		p, err := o.Evaluator.Launch(ctx, e.source, name, s.VM, s.Host.Host())
		if p != nil {
			plans = append(plans, p)
			e.recordMade(p, s.Name())
		}
		if i == len(samples)-1 || len(plans) == mostPlans {
			o.recordPlans(e, name, plans)
			plans = nil
		}
		var options *vmtypes.FieldsError
		switch {
		case err == nil && s.Text != "" && p.Text() != s.Text:
			e.addDiagnostic(e.relativePath(s.Path), s.TextLine, 1,
				diagnostic{
					Severity: severityWarning,
					Message:  "the plan differs from the golden: vmrunner vmtype test shows how, and -u updates it",
				})
		case err == nil, ctx.Err() != nil:
		case standIn && errors.As(err, &options): // the type has mandatory options
		case standIn:
			e.addErrors(err, file, "(with "+s.Name()+"; add a sample to use a different VM)")
		case errors.As(err, &options):
			e.addErrors(s.Locate(err), e.relativePath(s.Path), "")
		default:
			e.addErrors(err, file, "(with "+s.Name()+")")
		}
	}
}

// mostPlans is the maximum number of plans of a type in memory.
const mostPlans = 16

// recordMade records the lines that created the options of a plan. In each file, it uses the innermost line. The first
// sample that reaches a line determines the recorded options.
func (e *evaluation) recordMade(p *plan.Plan, sample string) {
	for _, option := range p.QEMU.Args {
		words := strings.Join(option.Words(func(name string) string { return "<" + name + ">" }), " ")
		seen, step := map[string]bool{}, plan.Step("")
		for i, frame := range option.Origin {
			if frame.Step != "" {
				clear(seen)
				step = frame.Step
			}
			if seen[frame.File] || step == plan.Replaced || !e.isInFolder(frame) {
				continue
			}
			seen[frame.File] = true
			m := e.madeAt(frame.File, frame.Line, sample)
			switch {
			case m == nil:
			case i == 0 || frame.Step != "":
				m.own = append(m.own, words)
			default:
				m.called = append(m.called, words)
			}
		}
	}
}

// madeAt returns the entry of a line, or nil if the entry belongs to another sample.
func (e *evaluation) madeAt(file string, line int, sample string) *made {
	list := e.made[file]
	i := slices.IndexFunc(list, func(m made) bool { return m.line == line })
	if i < 0 {
		e.made[file] = append(list, made{line: line, sample: sample})
		return &e.made[file][len(list)]
	}
	if list[i].sample != sample {
		return nil
	}
	return &list[i]
}

// addErrors adds the errors in an error at their places. Errors without a place are added at the beginning of file.
func (e *evaluation) addErrors(err error, file, note string) {
	var several vmtypes.Errors
	var one *vmtypes.Error
	var faults *vmtypes.FaultsError
	var wrong yamlfile.Faults
	switch {
	case errors.As(err, &several):
		for _, one := range several {
			e.addErrorAt(one, file, note)
		}
	case errors.As(err, &one):
		e.addErrorAt(one, file, note)
	case errors.As(err, &faults):
		for _, f := range faults.Faults {
			e.addErrorAt(&vmtypes.Error{Message: f.Message, Calls: f.Origin}, file, note)
		}
	case errors.As(err, &wrong):
		for _, f := range wrong {
			message := f.Path + ": " + f.Message
			if f.Hint != "" {
				message += " (" + f.Hint + ")"
			}
			e.addDiagnostic(file, f.Line, f.Column,
				diagnostic{Severity: severityError, Message: strings.TrimPrefix(message, ": ")})
		}
	default:
		e.addDiagnostic(file, 1, 1, diagnostic{Severity: severityError, Message: joinNote(err.Error(), note)})
	}
}

func joinNote(message, note string) string { return strings.TrimSpace(message + "\n" + note) }

// addErrorAt adds an error at its place in the folder. For an error in the library, this is the line that called the
// library.
func (e *evaluation) addErrorAt(err *vmtypes.Error, file, note string) {
	d := diagnostic{Severity: severityError, Message: err.Message}
	calls, line, column := err.Calls, err.Line, err.Column
	if _, here := e.source.Modules[err.File]; here && line > 0 {
		file = err.File
	} else if i := slices.IndexFunc(calls, e.isInFolder); i >= 0 {
		if line > 0 {
			d.Message += fmt.Sprintf("\nat %s:%d", err.File, line)
		}
		file, line, column, calls = calls[i].File, calls[i].Line, 0, calls[i+1:]
	} else {
		line, column = max(line, 1), max(column, 1)
		if err.File != "" {
			d.Message += fmt.Sprintf("\nat %s:%d", err.File, line)
			line, column = 1, 1
		}
	}
	d.Message = joinNote(d.Message, note)
	for _, f := range calls {
		if e.isInFolder(f) {
			at := e.wordSpan(f.File, f.Line, 0)
			d.Related = append(d.Related,
				related{location{uriOf(filepath.Join(e.source.Dir, f.File)), at}, "called from " + f.Function})
		}
	}
	e.addDiagnostic(file, line, column, d)
}

func (e *evaluation) isInFolder(f plan.Frame) bool {
	_, ok := e.source.Modules[f.File]
	return ok
}

// serverName is the origin of diagnostics that editors show.
const serverName = "vmrunner"

// addDiagnostic adds a diagnostic at a line and a column.
func (e *evaluation) addDiagnostic(file string, line, column int, d diagnostic) {
	d.Source = serverName
	d.Range = e.wordSpan(file, line, column)
	e.unlessThere(file, d)
}

// unlessThere adds a diagnostic unless another sample has already reported the same mistake.
func (e *evaluation) unlessThere(file string, d diagnostic) {
	for _, have := range e.diagnostics[file] {
		if have.Range == d.Range && summaryLine(have) == summaryLine(d) {
			return
		}
	}
	e.diagnostics[file] = append(e.diagnostics[file], d)
}

func summaryLine(d diagnostic) string {
	first, _, _ := strings.Cut(d.Message, "\n")
	return first
}

// textOf returns the text of a module, or nil.
func (e *evaluation) textOf(file string) *text {
	if t := e.texts[file]; t != nil {
		return t
	}
	if content, ok := e.source.Modules[file]; ok {
		return newText(content)
	}
	return nil
}

// wordSpan returns the span of the word at a column of a line. Column 0 means the whole line without its indentation.
func (e *evaluation) wordSpan(file string, line, column int) span {
	t := e.textOf(file)
	if t == nil { // in a sample, only the line and column are known
		at := position{max(line-1, 0), max(column-1, 0)}
		return span{at, at}
	}
	content := t.lineText(line - 1)
	if column <= 0 {
		indented := len(content) - len(strings.TrimLeft(content, " \t"))
		return span{position{line - 1, indented}, position{line - 1, unitsIn(content)}}
	}
	start := t.offsetOf(t.columnPosition(line, column))
	end := start
	for end < len(t.content) && isWordByte(t.content[end]) {
		end++
	}
	if end == start && end < len(t.content) && t.content[end] != '\n' {
		end++
	}
	return t.spanBetween(start, end)
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
