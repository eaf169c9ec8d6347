package lsp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/creachadair/jrpc2"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/vmtypes"
)

// prepareRename returns the place of the name at the cursor, or an error with the reason why it cannot be renamed.
func (s *server) prepareRename(_ context.Context, params *positionParams) (*span, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	found, _, err := v.renamable(params.Position)
	if err != nil || found == nil {
		return nil, err
	}
	return &found.span, nil
}

// renamable returns the symbol at a position, and the modules of the folder. The symbol is nil where there is no name.
func (v *view) renamable(at position) (*symbol, []*tree, error) {
	refuse := func(format string, args ...any) (*symbol, []*tree, error) {
		return nil, nil, jrpc2.Errorf(codeRequestFailed, "cannot rename: "+format, args...)
	}
	if v.tree == nil || v.tree.text != v.text {
		return refuse("%s has a syntax error; correct it first", v.document.module)
	}
	trees, broken := v.folderTrees()
	found := v.symbolAt(trees, at)
	if found == nil {
		return nil, nil, nil
	}
	switch {
	case found.kind == builtinSymbol:
		return refuse("%s is a builtin", found.name)
	case strings.HasPrefix(v.document.module, vmtypes.StockPrefix):
		return refuse("%s is a module of the library", v.document.module)
	case found.kind == globalSymbol && strings.HasPrefix(found.module, vmtypes.StockPrefix):
		return refuse("%s is a name of %s; load it as another name: new_name = %q",
			found.name, found.module, found.name)
	case found.kind == globalSymbol && slices.Contains(fixedNames, found.name):
		return refuse("vmrunner looks for the name %s", found.name)
	case found.kind == globalSymbol && !hasModule(trees, found.module):
		return refuse("%s, which defines %s, cannot be read", found.module, found.name)
	case len(broken) > 0 && found.kind != aliasSymbol:
		return refuse("%s has a syntax error; correct it first", strings.Join(broken, ", "))
	}
	if found.kind == localSymbol {
		def := found.tree.functionWith(found.first)
		if def != nil && (def.Name.Name == "launch" || def.Name.Name == "defaults") &&
			found.tree.topFunction(def.Name.Name) == def {
			return refuse("vmrunner calls %s with the parameter %s", def.Name.Name, found.name)
		}
	}
	if found.kind == optionSymbol {
		if reason := optionObstacle(found.name, trees); reason != "" {
			return refuse("%s", reason)
		}
	}
	return found, trees, nil
}

// fixedNames are the globals of a module that vmrunner looks for.
var fixedNames = []string{
	"launch", "options", "defaults", "minimum_sizes", "suggested_sizes", "setup_drivers", "api_version",
}

func hasModule(trees []*tree, module string) bool {
	return slices.ContainsFunc(trees, func(t *tree) bool { return t.module == module })
}

// optionObstacle returns the reason why an option cannot be renamed, or "".
func optionObstacle(name string, trees []*tree) string {
	declared := ""
	for _, t := range trees {
		for _, o := range t.optionNames() {
			switch {
			case o.name != name || o.entry == nil:
			case declared != "":
				return fmt.Sprintf("%s and %s declare the option %s", declared, t.module, name)
			case attrCall(o.entry) == nil:
				return fmt.Sprintf("the declaration of %s does not call attr, so it can't keep the old name", name)
			default:
				declared = t.module
			}
		}
		if line := t.lineOfWholeOptions(); line > 0 {
			return fmt.Sprintf("%s:%d uses vm.options as a value, so its uses of %s are unknown", t.module, line, name)
		}
	}
	if declared == "" {
		return fmt.Sprintf("no module of the folder declares the option %s", name)
	}
	for _, module := range vmtypes.StockModules() {
		text, err := vmtypes.StockModule(module)
		if err == nil && slices.ContainsFunc(strings.Split(text, ".options."), func(rest string) bool {
			return strings.HasPrefix(rest+" ", name) && (len(rest) == len(name) || !isWordByte(rest[len(name)]))
		}) {
			return fmt.Sprintf("%s reads the option %s", module, name)
		}
	}
	return ""
}

// lineOfWholeOptions returns the first line that uses vm.options other than in vm.options.NAME, or 0.
func (t *tree) lineOfWholeOptions() int {
	named := map[*syntax.DotExpr]bool{}
	line := 0
	syntax.Walk(t.file, func(n syntax.Node) bool {
		dot, ok := n.(*syntax.DotExpr)
		if !ok {
			return true
		}
		if of, ok := dot.X.(*syntax.DotExpr); ok {
			named[of] = true // Walk visits it later
		}
		vm, ok := dot.X.(*syntax.Ident)
		if ok && vm.Name == "vm" && dot.Name.Name == "options" && !named[dot] && line == 0 {
			line = int(dot.Dot.Line)
		}
		return true
	})
	return line
}

// attrCall returns the call of attr in a declaration, or nil.
func attrCall(entry *syntax.DictEntry) *syntax.CallExpr {
	call, ok := entry.Value.(*syntax.CallExpr)
	if !ok {
		return nil
	}
	dot, ok := call.Fn.(*syntax.DotExpr)
	if !ok {
		return nil
	}
	if of, ok := dot.X.(*syntax.Ident); !ok || of.Name != "attr" {
		return nil
	}
	return call
}

// rename returns the edits that rename the symbol at a position in all modules of the folder.
func (s *server) rename(_ context.Context, params *renameParams) (*workspaceEdit, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	found, trees, err := v.renamable(params.Position)
	if err != nil || found == nil || found.name == params.NewName {
		return nil, err
	}
	edits := map[string][]textEdit{}
	occurrences := occurrencesOf(found, trees)
	if reason := newNameObstacle(found, params.NewName, occurrences); reason != "" {
		return nil, jrpc2.Errorf(codeRequestFailed, "cannot rename %s to %s: %s", found.name, params.NewName, reason)
	}
	for _, o := range occurrences {
		if !o.alias {
			edits[o.tree.module] = append(edits[o.tree.module], textEdit{o.span, params.NewName})
		}
	}
	if found.kind == optionSymbol {
		for _, t := range trees {
			for _, o := range t.optionNames() {
				if o.name == found.name && o.entry != nil {
					edits[t.module] = append(edits[t.module], t.keepOldName(attrCall(o.entry), found.name))
				}
			}
		}
	}
	return v.workspaceEdit(edits), nil
}

// keepOldName returns the edit that adds the old name of an option to its aliases, so that configurations stay valid.
func (t *tree) keepOldName(call *syntax.CallExpr, old string) textEdit {
	quoted := fmt.Sprintf("%q", old)
	for _, argument := range call.Args {
		b, ok := argument.(*syntax.BinaryExpr)
		if !ok || b.Op != syntax.EQ {
			continue
		}
		id, isName := b.X.(*syntax.Ident)
		list, isList := b.Y.(*syntax.ListExpr)
		if isName && isList && id.Name == "aliases" {
			at := t.positionAt(list.Lbrack)
			at.Character++
			if len(list.List) > 0 {
				quoted += ", "
			}
			return textEdit{span{at, at}, quoted}
		}
	}
	if len(call.Args) == 0 {
		at := t.positionAt(call.Rparen)
		return textEdit{span{at, at}, "aliases = [" + quoted + "]"}
	}
	_, end := call.Args[len(call.Args)-1].Span()
	at := t.positionAt(end)
	return textEdit{span{at, at}, ", aliases = [" + quoted + "]"}
}

// newNameObstacle returns the reason why a symbol cannot get a name, or "".
func newNameObstacle(s *symbol, name string, occurrences []occurrence) string {
	if e, err := new(syntax.FileOptions).ParseExpr("", name, 0); err != nil {
		return "Starlark does not allow this name"
	} else if id, ok := e.(*syntax.Ident); !ok || id.Name != name {
		return "Starlark does not allow this name"
	}
	predeclared := vmtypes.Predeclared()
	if s.kind != optionSymbol && (predeclared.Has(name) || starlark.Universe.Has(name)) {
		return "this is a builtin"
	}
	var modules []*tree
	for _, o := range occurrences {
		if !slices.Contains(modules, o.tree) {
			modules = append(modules, o.tree)
		}
		isOther := s.kind == globalSymbol && o.tree.module != s.module
		switch {
		case isOther && strings.HasPrefix(name, "_"):
			return fmt.Sprintf("%s loads it, and a name with _ is private to its module", o.tree.module)
		case s.kind == globalSymbol && strings.HasPrefix(s.name, "test_") != strings.HasPrefix(name, "test_") &&
			strings.HasSuffix(s.module, "_test.star"):
			return "the names of tests begin with test_"
		}
	}
	for _, t := range modules {
		used := false
		if s.kind == optionSymbol {
			used = slices.ContainsFunc(t.optionNames(), func(o optionName) bool { return o.name == name })
		} else {
			syntax.Walk(t.file, func(n syntax.Node) bool {
				id, ok := n.(*syntax.Ident)
				used = used || ok && id.Name == name && id.Binding != nil
				return true
			})
		}
		if used {
			return fmt.Sprintf("%s already uses this name", t.module)
		}
	}
	return ""
}
