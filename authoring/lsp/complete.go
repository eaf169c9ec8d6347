package lsp

import (
	"context"
	"maps"
	"slices"
	"strings"

	"vmop/authoring/reference"
	"vmop/vmtypes"
)

func (s *server) complete(_ context.Context, params *positionParams) (*completionList, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	c := cursorAt(v.text.content, v.text.offsetOf(params.Position))
	var items []completionItem
	start := c.offset
	switch {
	case c.comment:
	case c.str >= 0:
		start = c.str
		items = v.completeString(c)
	default:
		var path string
		path, start = pathBefore(c.content, c.offset)
		if of, _, member := cutLast(path); member {
			items = v.membersOf(of)
		} else {
			items = v.namesAt(c)
		}
	}
	typed := strings.ToLower(c.content[start:c.offset])
	list := &completionList{Items: []completionItem{}}
	for _, item := range items {
		if strings.HasPrefix(strings.ToLower(item.Label), typed) {
			item.TextEdit = &textEdit{Range: v.text.spanBetween(start, c.offset), NewText: item.Label}
			list.Items = append(list.Items, item)
		}
	}
	return list, nil
}

// completeString completes the module and the names of a load statement, and the values that a field is compared with.
func (v *view) completeString(c cursor) []completionItem {
	if function, b, ok := c.enclosingCall(); ok && function == "load" {
		if b.commas == 0 {
			return v.loadableModules()
		}
		return v.loadableNames(firstString(c.content[b.at:]))
	}
	if items := v.completeSubject(c); items != nil {
		return items
	}
	before := strings.TrimRight(strings.TrimRight(c.content[:c.str], `"'`), " ")
	for _, operator := range []string{"==", "!=", "in [", ","} {
		rest, ok := strings.CutSuffix(before, operator)
		if !ok {
			continue
		}
		rest = strings.TrimRight(rest, " ")
		if operator == "," { // another value in a list
			if i := strings.LastIndex(rest, " in ["); i >= 0 && !strings.Contains(rest[i:], "\n") {
				rest = rest[:i]
			}
		}
		path, _ := pathBefore(rest, len(rest))
		return v.fieldValues(path)
	}
	return nil
}

// fieldValues returns the possible values of a field.
func (v *view) fieldValues(path string) []completionItem {
	var words []string
	if o, ok := v.optionAt(path); ok {
		for _, value := range o.Values {
			if word, ok := value.(string); ok {
				words = append(words, word)
			}
		}
	} else if key := v.keyAt(path); key != "" {
		for _, k := range reference.VM() {
			if k.Path == key {
				words = k.Choices
			}
		}
	}
	var items []completionItem
	for _, word := range words {
		items = append(items, completionItem{Label: word, Kind: kindValue, Detail: path})
	}
	return items
}

// loadableModules returns the modules that the document can load.
func (v *view) loadableModules() []completionItem {
	var items []completionItem
	for _, name := range vmtypes.StockModules() {
		items = append(items, completionItem{Label: name, Kind: kindModule})
	}
	if strings.HasSuffix(v.document.module, "_test.star") {
		items = append(items, completionItem{Label: reference.TestingModule, Kind: kindModule})
	}
	files := map[string]bool{}
	if source, err := vmtypes.ReadSource(v.folder.dir); err == nil {
		for name := range source.Modules {
			files[name] = true
		}
	}
	for name := range v.open {
		files[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != v.document.module && strings.HasSuffix(name, ".star") && !strings.HasSuffix(name, "_test.star") {
			items = append(items, completionItem{Label: name, Kind: kindFile})
		}
	}
	return items
}

// loadableNames returns the names that can be loaded from a module.
func (v *view) loadableNames(spec string) []completionItem {
	if spec == reference.TestingModule {
		return []completionItem{
			{Label: "assert", Kind: kindModule},
			{Label: "draw", Kind: kindFunction},
			{Label: "plan_of", Kind: kindFunction},
		}
	}
	t := v.loadedTree(spec)
	if t == nil {
		return nil
	}
	m, err := reference.ReadModule(t.module, t.text.content)
	if err != nil {
		return nil
	}
	var items []completionItem
	for _, f := range m.Functions {
		if !strings.HasPrefix(f.Name, "_") {
			items = append(items, functionItem(f.Name, f))
		}
	}
	for _, name := range m.Constants {
		items = append(items, completionItem{
			Label: name, Kind: kindVariable,
			Documentation: markdownOf(explainGlobal(t, name)),
		})
	}
	return items
}

func functionItem(label string, f reference.Function) completionItem {
	return completionItem{
		Label: label, Kind: kindFunction, Detail: f.Signature(),
		Documentation: markdownOf(explainFunction(f)),
	}
}

// membersOf returns the names that can follow a path and a dot.
func (v *view) membersOf(of string) []completionItem {
	var items []completionItem
	key := v.keyAt(of)
	if key == "vm.options" {
		for _, o := range v.typeOptions() {
			items = append(items, completionItem{
				Label: o.Name, Kind: kindField, Detail: reference.OptionForm(&o.Attr),
				Documentation: markdownOf(explainOption(o)),
			})
		}
		return items
	}
	if key != "" {
		for _, k := range reference.Below(key, reference.VM()) {
			items = append(items, completionItem{
				Label: k.Name(), Kind: kindField, Detail: k.Type,
				Documentation: markdownOf(explainKey(k)),
			})
		}
		return items
	}
	o := v.objectAt(of)
	for _, f := range o.Fields {
		items = append(items, completionItem{
			Label: f.Name, Kind: kindField, Detail: f.Type,
			Documentation: markdownOf(f.Doc),
		})
	}
	for _, m := range o.Methods {
		items = append(items, functionItem(m.Name, m))
	}
	for _, f := range slices.Concat(reference.Builtins(), v.testingFunctions()) {
		if module, name, ok := strings.Cut(f.Name, "."); ok && module == of {
			items = append(items, functionItem(name, f))
		}
	}
	return items
}

// namesAt returns the names that are valid at the cursor: parameters of the enclosing call, names that the module
// defines or loads, builtins, and Starlark's functions.
func (v *view) namesAt(c cursor) []completionItem {
	var items []completionItem
	if path, b, ok := c.enclosingCall(); ok && c.keywordBefore(b) == "" {
		f, _ := v.functionAt(path)
		for _, p := range f.Parameters {
			if !p.Rest() {
				items = append(items, completionItem{
					Label: p.Name + " = ", Kind: kindProperty, Detail: p.Type,
					Documentation: markdownOf(p.Doc),
				})
			}
		}
	}
	seen := map[string]bool{}
	add := func(item completionItem) {
		if !seen[item.Label] {
			seen[item.Label] = true
			items = append(items, item)
		}
	}
	if v.tree != nil {
		for _, name := range v.tree.namesInScope(v.text.positionOf(c.offset).Line) {
			if f, ok := v.functionAt(name); ok {
				add(functionItem(name, f))
				continue
			}
			add(completionItem{Label: name, Kind: kindVariable})
		}
	}
	for _, f := range slices.Concat(reference.Builtins(), reference.Language()) {
		if module, _, member := strings.Cut(f.Name, "."); member {
			add(completionItem{Label: module, Kind: kindModule})
			continue
		}
		add(functionItem(f.Name, f))
	}
	for _, word := range []string{"None", "True", "False"} {
		add(completionItem{Label: word, Kind: kindValue})
	}
	return items
}
