package lsp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.starlark.net/syntax"
	"golang.org/x/tools/txtar"

	"vmop/authoring/lint"
	"vmop/authoring/reference"
	"vmop/authoring/sample"
	"vmop/internal/spelling"
	"vmop/vmtypes"
)

// codeAction returns the corrections of the diagnostics in a range.
func (s *server) codeAction(ctx context.Context, params *codeActionParams) ([]codeAction, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	actions := []codeAction{}
	wants := func(kind string) bool {
		return len(params.Context.Only) == 0 || slices.ContainsFunc(params.Context.Only, func(only string) bool {
			return kind == only || strings.HasPrefix(kind, only+".")
		})
	}
	found := v.currentDiagnostics()
	for _, d := range found {
		if wants(quickFix) && overlaps(d.Range, params.Range) {
			actions = append(actions, v.actionsFor(ctx, d)...)
		}
	}
	if all := v.allRepairs(found); all != nil && wants(fixAll) {
		actions = append(actions, *all)
	}
	return actions, nil
}

// currentDiagnostics returns the diagnostics of the document; nil if the text has changed since the evaluation.
func (v *view) currentDiagnostics() []diagnostic {
	v.server.mu.Lock()
	defer v.server.mu.Unlock()
	result := v.folder.result
	if result == nil || result.texts[v.document.module] != v.text {
		return nil
	}
	return result.diagnostics[v.document.module]
}

// overlaps reports whether two spans share a line. The place of an error is often only the first character.
func overlaps(a, b span) bool { return a.Start.Line <= b.End.Line && b.Start.Line <= a.End.Line }

// actionsFor returns the corrections of a diagnostic.
func (v *view) actionsFor(ctx context.Context, d diagnostic) []codeAction {
	var actions []codeAction
	add := func(title string, edits ...textEdit) {
		actions = append(actions, codeAction{
			Title: title, Kind: quickFix, Diagnostics: []diagnostic{d},
			Edit: v.workspaceEdit(map[string][]textEdit{v.document.module: edits}),
		})
	}
	if d.repair != nil {
		add(d.repair.Title, v.text.editsOf(d.repair)...)
	}
	if edit, word := v.text.meantBy(d); edit != nil {
		add(fmt.Sprintf("Replace %s with %s", word, edit.NewText), *edit)
	}
	if len(actions) == 1 {
		actions[0].IsPreferred = true
	}
	if name, ok := strings.CutPrefix(summaryLine(d), "undefined: "); ok && v.tree != nil && v.tree.text == v.text {
		name, _, _ = strings.Cut(name, " ")
		for _, module := range v.modulesWith(name) {
			add(fmt.Sprintf("Load %s from %s", name, module), v.tree.loadEdit(module, name))
		}
	}
	if d.Code == "untested" {
		if edit, name := v.sampleEdit(ctx); edit != nil {
			actions = append(actions, codeAction{
				Title: "Add the sample " + name, Kind: quickFix, Diagnostics: []diagnostic{d}, Edit: edit,
			})
		}
	}
	return actions
}

// allRepairs returns the action that applies the repairs of all findings, or nil.
func (v *view) allRepairs(found []diagnostic) *codeAction {
	var repairs []*lint.Repair
	for _, d := range found {
		if d.repair != nil {
			repairs = append(repairs, d.repair)
		}
	}
	fixed, n := lint.Apply(v.text.content, repairs)
	if n == 0 {
		return nil
	}
	edit := textEdit{v.text.wholeSpan(), fixed}
	return &codeAction{
		Title: "Correct all findings of lint that have one correction", Kind: fixAll,
		Edit: v.workspaceEdit(map[string][]textEdit{v.document.module: {edit}}),
	}
}

// editsOf converts the edits of a repair.
func (t *text) editsOf(r *lint.Repair) []textEdit {
	var edits []textEdit
	for _, e := range r.Edits {
		edits = append(edits, textEdit{
			span{t.columnPosition(e.Line, e.Column), t.columnPosition(e.EndLine, e.EndColumn)}, e.Text,
		})
	}
	return edits
}

// meantBy returns the edit that applies the suggestion in the message of an error, and the misspelled word; nil if
// there is no suggestion, or if the word isn't found. The interpreter has suggestions only in its messages.
func (t *text) meantBy(d diagnostic) (edit *textEdit, word string) {
	before, meant, ok := strings.Cut(summaryLine(d), "(did you mean ")
	if !ok || d.Code != "" {
		return nil, ""
	}
	meant, _, _ = strings.Cut(meant, "?")
	start := t.offsetOf(d.Range.Start)
	meant = strings.TrimPrefix(meant, ".")
	if start < len(t.content) && t.content[start] == '.' {
		start++
	}
	end := start
	for end < len(t.content) && isWordByte(t.content[end]) {
		end++
	}
	if word := t.content[start:end]; word != "" && strings.Contains(before, word) &&
		spelling.Nearest(word, []string{meant}) == meant {
		return &textEdit{t.spanBetween(start, end), meant}, word
	}
	line := t.starts[d.Range.Start.Line] // the statement can continue on other lines
	for i, quoted := range strings.Split(before, `"`) {
		if i%2 == 0 || quoted == "" {
			continue
		}
		for _, form := range []string{`"` + quoted + `"`, quoted + " =", quoted + "="} {
			if at := strings.Index(t.content[line:min(line+4096, len(t.content))], form); at >= 0 {
				at += line + strings.Index(form, quoted)
				return &textEdit{t.spanBetween(at, at+len(quoted)), meant}, quoted
			}
		}
	}
	return nil, ""
}

// modulesWith returns the modules that define a name, as spelled in load statements: parts of the library, modules of
// the folder and, in a test, the testing module.
func (v *view) modulesWith(name string) []string {
	var modules []string
	for _, item := range v.loadableModules() {
		module := item.Label
		if strings.HasPrefix(module, vmtypes.StockPrefix) && !strings.HasPrefix(module, vmtypes.StockPrefix+"lib/") &&
			module != reference.TestingModule {
			continue // types all define launch and options
		}
		if slices.ContainsFunc(v.loadableNames(module), func(i completionItem) bool { return i.Label == name }) {
			modules = append(modules, module)
		}
	}
	return modules
}

// loadEdit returns the edit that loads a name from a module.
func (t *tree) loadEdit(module, name string) textEdit {
	insert := func(at position, text string) textEdit { return textEdit{span{at, at}, text} }
	var last *syntax.LoadStmt
	for i, stmt := range t.file.Stmts {
		load, ok := stmt.(*syntax.LoadStmt)
		if !ok && i > 0 {
			break
		}
		if ok && load.ModuleName() == module {
			_, end := load.From[len(load.From)-1].Span()
			end.Col++ // the quote
			start, _ := load.To[len(load.To)-1].Span()
			separator := ", "
			if start.Line > load.Load.Line {
				separator = ",\n    "
			}
			return insert(t.positionAt(end), fmt.Sprintf("%s%q", separator, name))
		}
		if ok && (last == nil || !strings.HasPrefix(module, "@") || strings.HasPrefix(load.ModuleName(), "@")) {
			last = load
		}
	}
	statement := fmt.Sprintf("load(%q, %q)\n", module, name)
	if last != nil {
		return insert(position{int(last.Rparen.Line), 0}, statement)
	}
	if len(t.file.Stmts) == 0 {
		return insert(position{}, statement)
	}
	if doc, ok := t.file.Stmts[0].(*syntax.ExprStmt); ok {
		if literal, ok := doc.X.(*syntax.Literal); ok && literal.Token == syntax.STRING {
			_, end := doc.Span()
			return insert(position{int(end.Line), 0}, "\n"+statement)
		}
	}
	return insert(position{}, statement+"\n")
}

// sampleEdit returns the edit that creates a sample with its plan for the type of the document, and the name of the
// file; nil if there is no plan for a minimal VM.
func (v *view) sampleEdit(ctx context.Context) (*workspaceEdit, string) {
	vmType := strings.TrimSuffix(v.document.module, ".star")
	file := vmType + sample.Suffix
	path := filepath.Join(v.folder.dir, file)
	if _, err := os.Stat(path); err == nil || !v.editor.createsFiles || v.folder.dir == "" {
		return nil, ""
	}
	source, err := vmtypes.ReadSource(v.folder.dir)
	if err != nil {
		return nil, ""
	}
	for name, t := range v.open {
		source.Modules[name] = t.content
	}
	for _, section := range sample.MinimalSections(v.declared[vmType]) {
		vm, err := sample.ParseVM([]byte(section))
		if err != nil {
			continue
		}
		p, err := v.server.options.Evaluator.Launch(ctx, source, vmType, vm, sample.HostFacts{}.Host())
		if err != nil || p == nil {
			continue
		}
		content := string(txtar.Format(&txtar.Archive{
			Comment: []byte("The smallest VM.\n"),
			Files: []txtar.File{
				{Name: "type", Data: []byte(vmType + "\n")},
				{Name: "vm.yaml", Data: []byte(section)},
				{Name: "plan.txt", Data: []byte(p.Text())},
			},
		}))
		return &workspaceEdit{DocumentChanges: []any{
			createFile{"create", uriOf(path)},
			documentEdit{versionedID{URI: uriOf(path)}, []textEdit{{span{}, content}}},
		}}, file
	}
	return nil, ""
}
