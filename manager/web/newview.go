package web

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vmop/manager/web/fleet"
)

// newView is the page for creating a VM.
type newView struct {
	frame
	// Steps are the groups of fields in their order; Advanced contains the others.
	Steps    []groupView
	Advanced []groupView
	// Open reports that a field in Advanced has a value or an error.
	Open    bool
	Start   inputView
	Summary []faultView
	Preview previewView
}

// A groupView is a group of related fields.
type groupView struct {
	words
	ID, Legend, Hint string
	// Step is the number of a step; 0 for other groups. Part reports that the group is in another.
	Step   int
	Part   bool
	Class  string // as in inputView
	Inputs []inputView
	// Rows are rows of fields about the same thing.
	Rows [][]inputView
	// Parts are groups within the group.
	Parts []groupView
	// Button, if not empty, is a button that submits the form to get more fields.
	Button, ButtonDoes string
	// Unscripted reports that the button is for browsers without scripts.
	Unscripted bool
}

// The kinds of an inputView.
const (
	textInput     = "text"
	numberInput   = "number"
	boxInput      = "checkbox"
	choiceInput   = "select"
	areaInput     = "textarea"
	passwordInput = "password"
)

// An inputView is a form field with its errors.
type inputView struct {
	ID, Name, Kind, Label, Hint, Value string
	Placeholder                        string
	Autocomplete                       string
	Checked, Mandatory                 bool
	// Suggested is the suggestion if the user has not changed it; nil for none.
	Suggested *string
	// Known are values that the browser offers.
	Known []string
	// Fixed means that users can't change the value.
	Fixed bool
	// Class, if not empty, determines when the field applies.
	Class string
	// Rows of a textarea.
	Rows    int
	Choices []choiceView
	Faults  []string
}

type choiceView struct {
	Value, Text string
	Chosen      bool
}

// A faultView is an error in the summary, with a link to its field.
type faultView struct{ ID, Label, Text string }

// previewView is the result of a definition: its text, its errors, and the arguments of QEMU.
type previewView struct {
	words
	// Missing is why there is no preview.
	Missing string
	// Leftover describes data of a deleted VM. Data is the choice of what to do with it.
	Leftover            string
	Data                inputView
	Text, Drafted, Link string
	ByHand              bool
	Rows                int
	Faults              []placeView
	Warnings            []string
	Lines               []fleet.Argument
}

// A placeView is an error in a definition, with its position.
type placeView struct {
	Line       int
	Path, Text string
}

func placesOf(faults fleet.Faults) (list []placeView) {
	for _, f := range faults {
		list = append(list, placeView{f.Line, f.Path, f.Message})
	}
	return list
}

func (n *newVM) formView() newView {
	view := newView{frame: n.newFrame(n.T("new.title")), Preview: n.previewOf(), Start: n.checkBox("start", "")}
	view.Steps, view.Advanced = n.stepGroups(), n.advancedGroups()
	for i := range view.Steps {
		view.Steps[i].Step = i + 1
	}
	for i, g := range slices.Concat(view.Steps, view.Advanced) {
		for _, in := range g.allInputs() {
			given := in.Value != "" && in.Kind != boxInput || in.Checked
			view.Open = view.Open || i >= len(view.Steps) && (in.Faults != nil || given)
			for _, text := range in.Faults {
				view.Summary = append(view.Summary, faultView{in.ID, in.Label, text})
			}
		}
	}
	for _, text := range n.faults[dataField] {
		view.Summary = append(view.Summary, faultView{view.Preview.Data.ID, view.Preview.Data.Label, text})
	}
	for _, text := range n.faults[""] {
		view.Summary = append(view.Summary, faultView{"preview", n.T("new.definition"), text})
	}
	return view
}

// stepGroups returns the fields that every VM needs.
func (n *newVM) stepGroups() []groupView {
	start := n.inputGroup("start", n.originInputs()...)
	start.Inputs = append(start.Inputs, n.inputField(fleet.FieldName, textInput))
	size := n.inputGroup("size", n.inputField(fleet.FieldCPUs, numberInput), n.inputField(fleet.FieldRAM, textInput))
	if n.offer.VMClasses != nil {
		start.Inputs = append(start.Inputs, n.vmClassInput())
		size.Inputs = append(size.Inputs, n.shareInput())
	}
	start.Inputs = append(start.Inputs, n.typeInput(), n.mediumInput())
	start.Parts = []groupView{n.driversGroup()}
	size.Parts = []groupView{n.diskGroup()}
	login := n.inputGroup("login", n.networkInput(), n.checkBox(fleet.FieldScreen, fleet.FieldScreen),
		n.inputField(fleet.FieldUser, textInput), n.inputField("password", passwordInput),
		n.checkBox("withpassword", ""), n.inputField("key", areaInput))
	return []groupView{start, size, login}
}

// advancedGroups returns the other fields.
func (n *newVM) advancedGroups() []groupView {
	more := n.inputGroup("more", n.checkBox("drive", ""))
	if n.offer.RunPolicies != nil {
		more.Inputs = append([]inputView{n.policyInput()}, more.Inputs...)
	}
	return []groupView{more, n.optionGroup()}
}

// allInputs returns the fields of a group and of the groups in it.
func (g *groupView) allInputs() []inputView {
	all := slices.Concat(append(slices.Clone(g.Rows), g.Inputs)...)
	for i := range g.Parts {
		all = append(all, g.Parts[i].allInputs()...)
	}
	return all
}

// inputGroup returns a group of fields. key determines its heading.
func (n *newVM) inputGroup(key string, inputs ...inputView) groupView {
	return groupView{words: n.words, ID: key, Legend: n.T("new.group." + key), Inputs: inputs}
}

// inputField returns a field with this name.
func (n *newVM) inputField(name, kind string) inputView {
	in := inputView{
		ID: "f-" + name, Name: name, Kind: kind, Label: n.T("new.field." + name), Value: n.values.Get(name),
		Faults: n.faults[name], Autocomplete: "off",
	}
	if hint := "new.hint." + name; n.hasText(hint) {
		in.Hint = n.T(hint)
	}
	if text, is := n.suggestions[name]; is {
		in.Suggested = &text
	}
	switch name {
	case fleet.FieldName, fleet.FieldCPUs, fleet.FieldRAM:
		in.Mandatory = true
	case "key":
		in.Rows = 3
	case "password":
		in.Autocomplete, in.Value = "new-password", ""
	}
	return in
}

// checkBox returns a checkbox.
func (n *newVM) checkBox(name, faults string) inputView {
	in := n.inputField(name, boxInput)
	in.Value, in.Checked, in.Faults = yes, n.values.Get(name) == yes, nil
	if faults != "" {
		in.Faults = n.faults[faults]
	}
	return in
}

func (n *newVM) typeInput() inputView {
	in := n.inputField(fleet.FieldType, choiceInput)
	in.Hint = n.about.Doc
	types := n.offer.Types
	if n.offer.VMClasses != nil { // the class may set the type
		in.Choices = []choiceView{{"", n.T("new.defaultis", cmp.Or(n.vmClass().Type, n.offer.Type)), in.Value == ""}}
	}
	if !slices.Contains(types, in.Value) && (in.Value != "" || in.Choices == nil) {
		types = append([]string{in.Value}, types...)
	}
	for _, name := range types {
		in.Choices = append(in.Choices, choiceView{name, name, name == in.Value})
	}
	return in
}

// policyInput returns the choice of a run policy.
func (n *newVM) policyInput() inputView {
	in := n.inputField(fleet.FieldPolicy, choiceInput)
	in.Choices = []choiceView{{"", n.T("new.policy.none"), in.Value == ""}}
	for _, name := range n.offer.RunPolicies {
		in.Choices = append(in.Choices, choiceView{name, n.T("new.policy." + name), name == in.Value})
	}
	return in
}

// vmClassInput returns the choice of a class, with the sizes that it allows.
func (n *newVM) vmClassInput() inputView {
	in := n.inputField(fleet.FieldClass, choiceInput)
	in.Choices = []choiceView{{"", n.T("new.vmclass.none"), in.Value == ""}}
	there := in.Value == ""
	for _, c := range n.offer.VMClasses {
		if c.Preset {
			in.Choices[0].Text = n.T("new.defaultis", c.Name)
		}
		there = there || c.Name == in.Value
		in.Choices = append(in.Choices, choiceView{c.Name, c.Name, c.Name == in.Value})
	}
	if !there {
		in.Choices = append(in.Choices, choiceView{in.Value, in.Value, true})
	}
	switch c := n.vmClass(); {
	case c.Name == "":
		in.Hint = n.T("new.vmclass.says")
	case c.Sizes == nil:
		in.Hint = n.T("new.vmclass.any")
	default:
		in.Hint = n.T("new.vmclass.sizes", strings.Join(c.Sizes, "; "))
	}
	return in
}

// shareInput returns the field for the guaranteed CPU fraction, with the fractions that the class allows for this
// number of CPUs.
func (n *newVM) shareInput() inputView {
	in := n.inputField(fleet.FieldShare, textInput)
	for _, f := range n.vmClass().Fractions {
		if n.draft.CPUs < f.Least || n.draft.CPUs > f.Most {
			continue
		}
		if f.Allowed != nil {
			in.Hint = n.T("new.share.allowed", strings.Join(f.Allowed, ", "))
		}
		if f.Preset != "" {
			in.Hint += ". " + n.T("new.defaultis", f.Preset)
		}
	}
	return in
}

// dataInput returns the choice of what to do with the data of a deleted VM.
func (n *newVM) dataInput() inputView {
	in := n.inputField(dataField, choiceInput)
	for _, d := range []fleet.Data{"", fleet.KeepData, fleet.FreshData} {
		text := n.T("new.data." + cmp.Or(string(d), "none"))
		in.Choices = append(in.Choices, choiceView{string(d), text, string(d) == in.Value})
	}
	return in
}

func (n *newVM) networkInput() inputView {
	in := n.inputField(fleet.FieldNetwork, choiceInput)
	if n.offer.VMClasses != nil { // the class may set it
		preset := cmp.Or(n.vmClass().Network, n.offer.Networks[0])
		in.Choices = []choiceView{{"", n.T("new.defaultis", n.T("new.network."+preset)), in.Value == ""}}
	}
	for _, name := range n.offer.Networks {
		in.Choices = append(in.Choices, choiceView{name, n.T("new.network." + name), name == in.Value})
	}
	return in
}

// optionGroup returns the fields for the options of the VM type.
func (n *newVM) optionGroup() groupView {
	g := n.inputGroup("options")
	g.Legend = n.T("new.group.options", n.about.Name)
	g.Button, g.ButtonDoes, g.Unscripted = n.T("new.showoptions"), "check", true
	if len(n.about.Options) == 0 {
		g.Hint = n.T("new.nooptions")
	}
	for _, o := range n.about.Options {
		if o.Name == n.about.Drivers {
			continue // it has its place
		}
		in := n.optionInput(o)
		at := slices.IndexFunc(g.Parts, func(part groupView) bool { return part.Legend == o.Group })
		switch {
		case o.Group == "":
			g.Inputs = append(g.Inputs, in)
		case at < 0:
			g.Parts = append(g.Parts, groupView{words: n.words, Part: true, Legend: o.Group, Inputs: []inputView{in}})
		default:
			g.Parts[at].Inputs = append(g.Parts[at].Inputs, in)
		}
	}
	return g
}

// mediumInput returns the field for the CD.
func (n *newVM) mediumInput() inputView {
	in := n.inputField(fleet.FieldCD, textInput)
	in.Class, in.Known, in.Placeholder = "wide forcd", n.offer.CDs, n.T("new.example.cd")
	return in
}

// driversGroup returns the field for a CD with drivers, if the setup of the type's guests lacks drivers.
func (n *newVM) driversGroup() groupView {
	g := groupView{words: n.words, ID: "drivers", Part: true, Class: "forcd"}
	for _, o := range n.about.Options {
		if o.Name == n.about.Drivers {
			in := n.optionInput(o)
			in.Label, in.Hint = n.T("new.field.drivers"), n.T("new.hint.drivers", n.about.Without)
			in.Known = n.offer.CDs
			in.Class = "wide"
			g.Inputs = append(g.Inputs, in)
		}
	}
	return g
}

func (n *newVM) optionInput(o fleet.Option) inputView {
	name := optionField + o.Name
	in := inputView{
		ID: "f-" + name, Name: name, Kind: textInput, Label: cmp.Or(o.Label, optionLabel(o.Name)), Hint: o.Doc,
		Value: n.values.Get(name), Placeholder: cmp.Or(o.Default, o.Example), Mandatory: o.Mandatory,
		Faults: n.faults[name], Autocomplete: "off",
	}
	usual := n.T("new.default")
	if text := cmp.Or(n.optionText(o.Default), o.DefaultRule); text != "" {
		usual = n.T("new.defaultis", text)
	}
	if o.DefaultRule != "" {
		in.Hint = strings.TrimSpace(in.Hint + " " + usual + ".")
	}
	if o.Deprecated != "" {
		in.Hint = strings.TrimSpace(n.T("new.deprecated", o.Deprecated) + " " + in.Hint)
	}
	if c := n.vmClass(); slices.Contains(c.Locked, o.Name) {
		in.Value, in.Placeholder = "", ""
		in.Fixed, in.Mandatory, in.Hint = true, false, strings.TrimSpace(n.T("new.locked", c.Name)+" "+in.Hint)
	}
	values := o.Values
	switch {
	case o.Kind == "bool":
		values = []string{"true", "false"}
	case o.Kind == "int" && values == nil:
		in.Kind = numberInput
	case !slices.Contains([]string{"string", "file", "int", "size", "duration", "percent", "rate"}, o.Kind):
		in.Kind, in.Rows = areaInput, 2
		in.Hint = strings.TrimSpace(in.Hint + " " + n.T("new.asyaml"))
	}
	if values != nil {
		in.Kind = choiceInput
		in.Choices = []choiceView{{"", usual, false}}
		for _, value := range values {
			in.Choices = append(in.Choices, choiceView{value, n.optionText(value), value == in.Value})
		}
		return in
	}
	in.Hint = strings.TrimSpace(in.Hint + " " + n.optionBounds(o))
	if o.Rules != "" {
		in.Hint = strings.TrimSpace(in.Hint + " (" + o.Rules + ")")
	}
	return in
}

// optionLabel returns the name of an option for people: "Secure boot" for secureBoot.
func optionLabel(name string) string {
	words := strings.Fields(regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "$1 $2"))
	for i, word := range words {
		switch lower := strings.ToLower(word); lower {
		case "cpu", "ide", "nic", "numa", "pci", "ram", "scsi", "smbios", "smt", "tpm", "uefi", "usb", "vga":
			words[i] = strings.ToUpper(word)
		case "cpus", "nics":
			words[i] = strings.ToUpper(lower[:len(lower)-1]) + "s"
		default:
			words[i] = lower
			if i == 0 {
				words[i] = strings.ToUpper(lower[:1]) + lower[1:]
			}
		}
	}
	return strings.Join(words, " ")
}

// optionBounds describes the range of an int or a size; "" without a range.
func (n *newVM) optionBounds(o fleet.Option) string {
	bound := func(b *int64) string {
		switch {
		case b == nil:
			return ""
		case o.Kind == "size":
			return n.formatBytes(*b)
		}
		return strconv.FormatInt(*b, 10)
	}
	switch least, most := bound(o.Minimum), bound(o.Maximum); {
	case least != "" && most != "":
		return n.T("new.between", least, most)
	case least != "":
		return n.T("new.atleast", least)
	case most != "":
		return n.T("new.atmost", most)
	}
	return ""
}

// optionText returns the value of an option for people.
func (w words) optionText(value string) string {
	switch value {
	case "true":
		return w.T("new.on")
	case "false":
		return w.T("new.off")
	}
	return value
}

// previewOf returns the preview for the fields.
func (n *newVM) previewOf() previewView {
	p := previewView{
		words: n.words, Text: n.text, Drafted: n.drafted, ByHand: n.hand, Faults: placesOf(n.placed),
		Link: n.formLink(),
		Rows: rowsOf(n.text),
	}
	switch {
	case n.check != nil:
		p.Warnings, p.Lines = n.check.Warnings, n.check.Plan
		p.Leftover, p.Data = string(n.check.Leftover), n.dataInput()
	case n.text != "":
	case n.draft.Name == "":
		p.Missing = n.T("new.preview.name")
	default:
		p.Missing = n.T("new.preview.faults")
	}
	return p
}

// rowsOf returns the height of a definition's text field in rows.
func rowsOf(text string) int { return min(max(strings.Count(text, "\n")+2, 8), 32) }

// formLink returns the address of the filled-in form.
func (n *newVM) formLink() string {
	values := url.Values{}
	for name, list := range n.values {
		for _, value := range list {
			if value != "" && !slices.Contains(n.diskFields(), name) {
				values.Add(name, value)
			}
		}
	}
	for _, row := range n.diskRows {
		for _, field := range n.diskFields() {
			values.Add(field, n.inRow(field, row))
		}
	}
	for _, name := range []string{"screen", "start"} {
		if n.values.Get(name) == "" {
			values.Set(name, "no")
		}
	}
	if n.diskRows == nil {
		values.Set("disk", "")
	}
	return "/new?" + values.Encode()
}
