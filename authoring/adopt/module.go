package adopt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/syntax"

	"vmop/authoring/format"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// qemuModule is the module with a function for each of QEMU's groups of options.
const qemuModule = "@vmtypes//lib/qemu.star"

// A moduleEditor changes the source of a module.
type moduleEditor struct {
	name, text string
	file       *syntax.File
	launch     *syntax.DefStmt
	// loaded are the names in qemuModule that the module can use, or that it will load.
	loaded map[string]string
	add    []string
	cuts   []replacement
}

// A replacement replaces a part of the text.
type replacement struct {
	from, to int
	text     string
}

// editModule returns the source of a module in which launch returns the machine with the edits. If inPlace is set, it
// changes properties where the module itself writes them, and otherwise behind everything else.
func editModule(name, text string, edits []edit, inPlace bool) (string, error) {
	options := syntax.FileOptions{Set: true, GlobalReassign: true, TopLevelControl: true, Recursion: true, While: true}
	file, err := options.Parse(name, text, 0)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	m := &moduleEditor{name: name, text: text, file: file, loaded: map[string]string{}}
	for _, stmt := range file.Stmts {
		if def, ok := stmt.(*syntax.DefStmt); ok && def.Name.Name == "launch" {
			m.launch = def
		}
	}
	if m.launch == nil {
		return "", fmt.Errorf("%s doesn't define launch itself: define it with def launch(vm, host)", name)
	}
	m.findLoaded()
	var left []edit
	for _, e := range edits {
		if !inPlace || !m.editLiteral(e) {
			left = append(left, e)
		}
	}
	if len(left) > 0 {
		if err := m.wrapReturns(left); err != nil {
			return "", err
		}
	}
	m.addLoads()
	return format.Source(name, m.result())
}

// result applies the replacements.
func (m *moduleEditor) result() string {
	slices.SortStableFunc(m.cuts, func(a, b replacement) int { return b.from - a.from })
	text := m.text
	for _, c := range m.cuts {
		text = text[:c.from] + c.text + text[c.to:]
	}
	return text
}

// offset returns the index of a position in the text. Columns count characters.
func (m *moduleEditor) offset(p syntax.Position) int {
	at := 0
	for range p.Line - 1 {
		at += strings.IndexByte(m.text[at:], '\n') + 1
	}
	column := int32(1)
	for i := range m.text[at:] {
		if column == p.Col {
			return at + i
		}
		column++
	}
	return len(m.text)
}

func (m *moduleEditor) sourceOf(n syntax.Node) string {
	from, to := n.Span()
	return m.text[m.offset(from):m.offset(to)]
}

// findLoaded finds the functions of qemuModule that the module loads, and the other names of the module.
func (m *moduleEditor) findLoaded() {
	for _, stmt := range m.file.Stmts {
		switch s := stmt.(type) {
		case *syntax.LoadStmt:
			for i, from := range s.From {
				if s.ModuleName() == qemuModule {
					m.loaded[from.Name] = s.To[i].Name
				} else if m.loaded[s.To[i].Name] == "" {
					m.loaded[s.To[i].Name] = taken
				}
			}
		case *syntax.DefStmt:
			m.loaded[s.Name.Name] = taken
		case *syntax.AssignStmt:
			if id, ok := s.LHS.(*syntax.Ident); ok {
				m.loaded[id.Name] = taken
			}
		}
	}
}

// taken marks a name that the module uses for something else.
const taken = "-"

// function returns the name under which the module can call a function of qemuModule, or "".
func (m *moduleEditor) function(name string) string {
	switch local := m.loaded[name]; local {
	case taken:
		return ""
	case "":
		m.loaded[name] = name
		m.add = append(m.add, name)
		return name
	default:
		return local
	}
}

// addLoads loads the functions that the module needs in addition.
func (m *moduleEditor) addLoads() {
	if len(m.add) == 0 {
		return
	}
	slices.Sort(m.add)
	names := `"` + strings.Join(m.add, `", "`) + `"`
	at := 0
	for i, stmt := range m.file.Stmts {
		if s, ok := stmt.(*syntax.LoadStmt); ok {
			if s.ModuleName() == qemuModule {
				m.extendLoad(s)
				return
			}
			if start, end := s.Span(); s.ModuleName() < qemuModule {
				at = m.nextLine(m.offset(end) - 1)
			} else if at == 0 || i == 0 {
				at = m.offset(start)
			}
			continue
		}
		if _, isDoc := stmt.(*syntax.ExprStmt); isDoc && i == 0 {
			_, end := stmt.Span()
			at = m.nextLine(m.nextLine(m.offset(end) - 1))
		}
	}
	m.cuts = append(m.cuts, replacement{at, at, fmt.Sprintf("load(%q, %s)\n", qemuModule, names)})
}

// nextLine returns the index of the line after an index.
func (m *moduleEditor) nextLine(at int) int {
	length := strings.IndexByte(m.text[at:], '\n')
	if length < 0 {
		return len(m.text)
	}
	return at + length + 1
}

// extendLoad adds names to a load statement, sorted.
func (m *moduleEditor) extendLoad(s *syntax.LoadStmt) {
	items := []string{}
	for _, name := range m.add {
		items = append(items, strconv.Quote(name))
	}
	for i, from := range s.From {
		if from.Name == s.To[i].Name {
			items = append(items, strconv.Quote(from.Name))
		} else {
			items = append(items, s.To[i].Name+" = "+strconv.Quote(from.Name))
		}
	}
	slices.Sort(items)
	start, end := s.Span()
	text := fmt.Sprintf("load(%q, %s)", qemuModule, strings.Join(items, ", "))
	m.cuts = append(m.cuts, replacement{m.offset(start), m.offset(end), text})
}

// wrapReturns applies the edits to what launch returns.
func (m *moduleEditor) wrapReturns(edits []edit) error {
	var returns []*syntax.ReturnStmt
	names := map[string]bool{}
	syntax.Walk(m.launch, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			return n == m.launch
		case *syntax.LambdaExpr:
			return false
		case *syntax.ReturnStmt:
			returns = append(returns, n)
		case *syntax.Ident:
			names[n.Name] = true
		}
		return true
	})
	last := m.launch.Body[len(m.launch.Body)-1]
	if len(returns) == 0 {
		return fmt.Errorf("%s: launch returns nothing", m.name)
	}
	if only := returns[0]; len(returns) == 1 && only.Result != nil && last == syntax.Stmt(only) {
		variable := "machine"
		id, isName := only.Result.(*syntax.Ident)
		for !isName && names[variable] || m.loaded[variable] == taken {
			variable += "_"
		}
		first := variable + " = " + m.sourceOf(only.Result) + "\n"
		if isName && id.Name != "vm" && id.Name != "host" {
			variable, first = id.Name, ""
		}
		m.cut(only, first+m.statements(variable, edits))
		return nil
	}
	name := "adopted"
	for m.loaded[name] != "" || names[name] {
		name += "_"
	}
	for _, r := range returns {
		if r.Result != nil {
			start, end := r.Result.Span()
			from, to := m.offset(start), m.offset(end)
			m.cuts = append(m.cuts, replacement{from, to, name + "(" + m.text[from:to] + ")"})
		}
	}
	body := `"""Returns the machine with the changes of a command line."""` + "\n" + m.statements("machine", edits)
	body = indentLines(body, "    ")
	m.cuts = append(m.cuts, replacement{len(m.text), len(m.text), "\ndef " + name + "(machine):\n    " + body + "\n"})
	return nil
}

// cut replaces a statement. The lines of the new text have its indentation.
func (m *moduleEditor) cut(stmt syntax.Node, text string) {
	start, end := stmt.Span()
	m.cuts = append(m.cuts, replacement{
		m.offset(start), m.offset(end), indentLines(text, strings.Repeat(" ", int(start.Col)-1)),
	})
}

// indentLines indents all lines but the first. It is for expressions on several lines: within
// brackets, indentation has no meaning.
func indentLines(text, margin string) string {
	return strings.ReplaceAll(text, "\n", "\n"+margin)
}

// statements returns the statements that change a machine and return it.
func (m *moduleEditor) statements(variable string, edits []edit) string {
	var b strings.Builder
	var remove []string
	var replaced, added []string
	var machine []setting
	for _, e := range edits {
		for _, selector := range e.remove {
			remove = append(remove, strconv.Quote(selector))
		}
		if e.replace != nil {
			replaced = append(replaced, m.callText(*e.replace))
		}
		for _, o := range e.add {
			added = append(added, m.callText(o))
		}
		if e.selector == "-machine" {
			machine = append(machine, e.set...)
		}
	}
	arguments := append([]string{variable}, replaced...)
	if len(machine) > 0 {
		arguments = append(arguments, "machine = "+dictOf(machine))
	}
	if len(remove) > 0 {
		arguments = append(arguments, "remove = ["+strings.Join(remove, ", ")+"]")
	}
	switch line := strings.Join(arguments, ", "); {
	case len(arguments) > 2 && len(line) > 80:
		fmt.Fprintf(&b, "%s = replace(\n    %s,\n)\n", variable, strings.Join(arguments, ",\n    "))
	case len(arguments) > 1:
		fmt.Fprintf(&b, "%s = replace(%s)\n", variable, line)
	}
	for _, e := range edits {
		if e.selector != "-machine" && len(e.set) > 0 && e.replace == nil {
			fmt.Fprintf(&b, "%s = change(%s, %q, %s)\n", variable, variable, e.selector, dictOf(e.set))
		}
	}
	if len(added) == 0 {
		return b.String() + "return " + variable
	}
	fmt.Fprintf(&b, "return combine(%s, part(options = [\n    %s,\n]))", variable, strings.Join(added, ",\n    "))
	return b.String()
}

// callText returns the expression that creates an option.
func (m *moduleEditor) callText(o plan.Option) string {
	props := settingsOf(o.Properties)
	if !o.List {
		if o.Value == "" {
			return fmt.Sprintf("option(%q)", o.Flag)
		}
		return fmt.Sprintf("option(%q, %s)", o.Flag, quoted(o.Value))
	}
	name := strings.TrimPrefix(o.Flag, "-")
	takesID := o.Flag == "-object" || o.Flag == "-chardev" || o.Flag == "-netdev"
	id, driver := o.ID(), o.Value
	if o.Flag == "-blockdev" {
		driver, _ = o.Get("driver")
	}
	local := ""
	if o.Flag == "-device" && driver != "" || driver != "" && id != "" && (takesID || o.Flag == "-blockdev") {
		local = m.function(name)
	}
	if local == "" {
		value := "None"
		if o.Value != "" {
			value = quoted(o.Value)
		}
		return fmt.Sprintf("option(%q, %s, %s)", o.Flag, value, dictOf(props))
	}
	arguments := []string{quoted(driver)}
	skip := []string{}
	switch o.Flag {
	case "-object":
		arguments, skip = []string{quoted(driver), quoted(id)}, []string{"id"}
	case "-chardev", "-netdev":
		arguments, skip = []string{quoted(id), quoted(driver)}, []string{"id"}
	case "-blockdev":
		arguments, skip = []string{quoted(id), quoted(driver)}, []string{"node-name", "driver"}
	}
	props = slices.DeleteFunc(props, func(s setting) bool { return slices.Contains(skip, s.key) })
	if len(props) > 0 {
		arguments = append(arguments, dictOf(props))
	}
	return local + "(" + strings.Join(arguments, ", ") + ")"
}

func settingsOf(properties []plan.Property) []setting {
	var list []setting
	for _, p := range properties {
		at := slices.IndexFunc(list, func(s setting) bool { return s.key == p.Key })
		if at < 0 {
			list = append(list, setting{p.Key, []string{p.Value}})
		} else {
			list[at].values = append(list[at].values, p.Value)
		}
	}
	return list
}

// dictOf returns properties as a dict.
func dictOf(list []setting) string {
	items := make([]string, len(list))
	for i, s := range list {
		items[i] = quoted(s.key) + ": " + s.literal()
	}
	return "{" + strings.Join(items, ", ") + "}"
}

// literal returns the value of a property.
func (s setting) literal() string {
	switch len(s.values) {
	case 0:
		return "None"
	case 1:
		return literalOf(s.values[0])
	}
	words := make([]string, len(s.values))
	for i, value := range s.values {
		words[i] = literalOf(value)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// literalOf returns a value as a literal from which option writes the same text.
func literalOf(text string) string {
	switch text {
	case "on":
		return "True"
	case "off":
		return "False"
	}
	if n, known := qemuopt.Number(text); known && strconv.FormatInt(n, 10) == text {
		return text
	}
	return quoted(text)
}

// quoted returns a literal of Starlark.
func quoted(text string) string { return syntax.Quote(text, false) }
