package lsp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"vmop/authoring/reference"
	"vmop/vmtypes"
)

func (s *server) hover(_ context.Context, params *positionParams) (*hover, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	offset := v.text.offsetOf(params.Position)
	c := cursorAt(v.text.content, offset)
	if c.comment {
		return nil, nil
	}
	if c.str >= 0 {
		return v.hoverString(c), nil
	}
	path, start, end := wordAt(v.text.content, offset)
	text := v.explainArgument(c, path, end)
	if text == "" {
		text = v.explainPath(path)
	}
	if text == "" {
		return nil, nil
	}
	return &hover{Contents: markdownOf(text), Range: new(v.text.spanBetween(start, end))}, nil
}

// hoverString explains the module or the name in a load statement, and names of QEMU and of the plan.
func (v *view) hoverString(c cursor) *hover {
	function, b, ok := c.enclosingCall()
	if !ok {
		return nil
	}
	content, end := stringAt(c)
	if function != "load" {
		if text := v.explainSubject(c, content); text != "" {
			return &hover{Contents: markdownOf(text), Range: new(v.text.spanBetween(c.str, end))}
		}
		return nil
	}
	spec, name := content, ""
	if b.commas > 0 {
		spec, name = firstString(c.content[b.at:]), content
	}
	t := v.loadedTree(spec)
	text := ""
	switch {
	case spec == reference.TestingModule:
		text = v.explainPath(name)
	case t == nil:
		return nil
	case name == "":
		if m, err := reference.ReadModule(t.module, t.text.content); err == nil {
			text = "`" + t.module + "`\n\n" + m.Doc
		}
	default:
		text = explainGlobal(t, name)
	}
	return &hover{Contents: markdownOf(text), Range: new(v.text.spanBetween(c.str, end))}
}

// stringAt returns the string at the cursor, and its end.
func stringAt(c cursor) (content string, end int) {
	end = c.str
	for end < len(c.content) && !strings.ContainsRune("\"'\n\r", rune(c.content[end])) {
		end++
	}
	return c.content[c.str:end], end
}

// firstString returns the first string in a text.
func firstString(content string) string {
	open := strings.IndexAny(content, `"'`)
	if open < 0 {
		return ""
	}
	s, _, _ := strings.Cut(content[open+1:], content[open:open+1])
	return s
}

// explainPath returns the documentation of a path in Markdown, or "".
func (v *view) explainPath(path string) string {
	if o, ok := v.optionAt(path); ok {
		return explainOption(o)
	}
	if key := v.keyAt(path); key != "" {
		keys := reference.VM()
		if i := slices.IndexFunc(keys,
			func(k reference.Key) bool { return k.Path == strings.TrimSuffix(key, "[]") }); i >= 0 {
			return explainKey(keys[i])
		}
		if key == "vm" {
			return "```python\nvm: VM\n```\nThe vm section of the configuration, with its defaults."
		}
	}
	if f, ok := v.functionAt(path); ok {
		return explainFunction(f)
	}
	if of, name, ok := cutLast(path); ok {
		for _, f := range v.objectAt(of).Fields {
			if f.Name == name {
				return fmt.Sprintf("```python\n%s: %s\n```\n%s", path, f.Type, f.Doc)
			}
		}
		return ""
	}
	if o := v.objectAt(path); o.Name != "" {
		return fmt.Sprintf("```python\n%s: %s\n```\n%s", path, o.Name, o.Doc)
	}
	if v.tree == nil {
		return ""
	}
	if from, ok := v.tree.loadedNames()[path]; ok {
		if t := v.loadedTree(from.module); t != nil {
			return explainGlobal(t, from.name)
		}
		return ""
	}
	return explainGlobal(v.tree, path)
}

// explainGlobal explains a global name of a module.
func explainGlobal(t *tree, name string) string {
	if f, ok := t.documentedFunction(name); ok {
		return explainFunction(f) + "\n\n*" + t.module + "*"
	}
	id := t.globalName(name)
	if id == nil {
		return ""
	}
	line := strings.TrimSpace(t.text.lineText(int(id.NamePos.Line) - 1))
	return fmt.Sprintf("```python\n%s\n```\n*%s*", line, t.module)
}

func explainFunction(f reference.Function) string {
	var b strings.Builder
	result := f.Result
	if result != "" {
		result = " -> " + result
	}
	fmt.Fprintf(&b, "```python\n%s%s\n```\n%s", f.Signature(), result, f.Doc)
	for i, p := range f.Parameters {
		if p.Doc == "" {
			continue
		}
		if i == 0 || !strings.Contains(b.String(), "\n\n- ") {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "\n- `%s`", p.Name)
		if p.Type != "" {
			fmt.Fprintf(&b, " (`%s`)", p.Type)
		}
		b.WriteString(": " + p.Doc)
	}
	if f.Example != "" {
		b.WriteString("\n\n```python\n" + f.Example + "```")
	}
	return b.String()
}

func explainKey(k reference.Key) string {
	text := fmt.Sprintf("```python\n%s: %s\n```\n%s", k.Path, k.Type, reference.Plain(k.Doc))
	if k.Unit != "" {
		text += "\n\nUnit: " + k.Unit + "."
	}
	if k.Choices != nil {
		text += "\n\nIt can be `" + strings.Join(k.Choices, "`, `") + "`."
	}
	switch {
	case k.Default != "":
		text += "\n\nDefault: `" + k.Default + "`."
	case k.Note != "":
		text += "\n\nDefault: " + k.Note + "."
	}
	return text
}

func explainOption(o vmtypes.Option) string {
	text := fmt.Sprintf("```python\nvm.options.%s: %s\n```\n%s\n\n%s", o.Name, reference.OptionType(&o.Attr), o.Doc,
		reference.OptionForm(&o.Attr))
	text += ". Default: " + reference.OptionDefault(&o.Attr) + "."
	for _, note := range o.Notes() {
		text += "\n\n- " + note
	}
	return text
}

// explainArgument explains the keyword that ends at end. It returns "" if the word is not a keyword of an argument.
func (v *view) explainArgument(c cursor, word string, end int) string {
	rest := strings.TrimLeft(v.text.content[end:], " \t")
	if !strings.HasPrefix(rest, "=") || strings.HasPrefix(rest, "==") {
		return ""
	}
	path, _, ok := c.enclosingCall()
	f, known := v.functionAt(path)
	if !ok || !known {
		return ""
	}
	if p, ok := f.Parameter(word); ok {
		return fmt.Sprintf("```python\n%s: %s\n```\n%s", p.String(), p.Type, p.Doc)
	}
	if path == "plan_of" || path == "draw" {
		return v.explainPath("vm." + word)
	}
	return ""
}

func (s *server) signatureHelp(_ context.Context, params *positionParams) (*signatureHelp, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	c := cursorAt(v.text.content, v.text.offsetOf(params.Position))
	path, b, ok := c.enclosingCall()
	f, known := v.functionAt(path)
	if !ok || !known || c.comment {
		return nil, nil
	}
	help := signature{
		Label: f.Signature(), Documentation: markdownOf(reference.Summary(f.Doc)),
		Parameters: []parameter{},
	}
	active := b.commas
	for i, p := range f.Parameters {
		help.Parameters = append(help.Parameters, parameter{Label: p.String(), Documentation: markdownOf(p.Doc)})
		if p.Rest() && !strings.HasPrefix(p.Name, "**") && active > i {
			active = i // it accepts all following arguments
		}
	}
	if name := c.keywordBefore(b); name != "" {
		active = slices.IndexFunc(f.Parameters, func(p reference.Parameter) bool { return p.Name == name })
	}
	return &signatureHelp{Signatures: []signature{help}, ActiveParameter: max(active, 0)}, nil
}
