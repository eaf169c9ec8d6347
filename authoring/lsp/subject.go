package lsp

import (
	"slices"
	"strings"

	"vmop/authoring/reference"
	"vmop/vmtypes/qemuopt"
)

// A meaning is the meaning of a string in a call.
type meaning int

const (
	aFlag     meaning = iota + 1 // an option of QEMU
	aValue                       // the first value of an option
	aProperty                    // a property of an option
	anOption                     // the name of an option in the plan
	aThing                       // the name of an option or of another line in the plan
	anID                         // the id of an object in the plan
)

// A subject is a string in a call: what it means, and the option that it belongs to.
type subject struct {
	meaning     meaning
	flag, value string
	// refers is the kind of object of anID.
	refers qemuopt.Kind
	// option is the option of the plan that change changes, if it is known.
	option *plannedOption
}

// subjectAt returns the meaning of the string at the cursor.
func (v *view) subjectAt(c cursor) (subject, bool) {
	if call, ok := v.optionCallAt(c); ok {
		s := subject{flag: call.flag, value: call.value}
		switch {
		case call.key:
			s.meaning = aProperty
		case call.property != "":
			s.meaning, s.refers = anID, qemuopt.References(call.flag, call.value)(call.property)
		case call.argument == 0 && call.first == 1 && call.flag == "":
			s.meaning = aFlag
		case call.argument == call.first:
			s.meaning = aValue
		}
		return s, s.meaning != 0 && (s.meaning != anID || s.refers != "")
	}
	function, b, ok := c.enclosingCall()
	if !ok {
		return subject{}, false
	}
	f, _ := v.functionAt(function)
	p, ok := c.parameterAt(f, b)
	if !ok {
		return subject{}, false
	}
	inner := c.open[len(c.open)-1]
	isKey, key := false, ""
	if inner.kind == '{' {
		isKey, key = c.entryAt(inner)
	}
	switch function + "." + p.Name {
	case "change.option":
		return subject{meaning: anOption}, true
	case "change.props":
		return v.changedSubject(c, b, isKey, key)
	case "replace.remove":
		return subject{meaning: aThing}, true
	case "replace.machine", "part.machine":
		return v.machineSubject(isKey, key)
	case "part.ports":
		return subject{meaning: anID, refers: qemuopt.DeviceID}, !isKey
	}
	if !strings.HasPrefix(function, "hotplug.") {
		return subject{}, false
	}
	switch p.Name {
	case "device", "buses":
		return subject{meaning: anID, refers: qemuopt.DeviceID}, true
	case "netdev":
		return subject{meaning: anID, refers: qemuopt.Netdev}, true
	case "driver", "cd_driver":
		return subject{meaning: aValue, flag: "-device"}, true
	}
	return subject{}, false
}

// changedSubject returns the meaning of a string in the properties of change.
func (v *view) changedSubject(c cursor, b bracket, isKey bool, key string) (subject, bool) {
	arguments := splitArguments(c.content[b.at+1 : c.offset])
	selector := literalAt(arguments, 1)
	for _, argument := range arguments {
		if name, text, ok := strings.Cut(argument, "="); ok && strings.TrimSpace(name) == "option" {
			selector = literalAt([]string{text}, 0)
		}
	}
	for _, names := range v.plannedNames() {
		o := names.optionNamed(selector)
		if o == nil {
			continue
		}
		s := subject{meaning: aProperty, flag: o.Flag, value: o.Structured().Backend(), option: o}
		if !isKey {
			s.meaning, s.refers = anID, qemuopt.References(s.flag, s.value)(key)
		}
		return s, isKey || s.refers != ""
	}
	flag, _, _ := strings.Cut(selector, " ") // no plan has it; the flag may have properties
	return subject{meaning: aProperty, flag: flag}, isKey
}

// machineSubject returns the meaning of a string in the properties of the machine.
func (v *view) machineSubject(isKey bool, key string) (subject, bool) {
	switch {
	case isKey:
		s := subject{meaning: aProperty, flag: "-machine"}
		for _, names := range v.plannedNames() {
			s.value = names.machine
		}
		return s, true
	case key == "type":
		return subject{meaning: aValue, flag: "-machine"}, true
	}
	return subject{}, false
}

// parameterAt returns the parameter of a function that receives the argument at the cursor.
func (c *cursor) parameterAt(f reference.Function, b bracket) (reference.Parameter, bool) {
	if name := c.keywordBefore(b); name != "" {
		return f.Parameter(name)
	}
	if b.commas >= len(f.Parameters) || f.Parameters[b.commas].Rest() || f.Parameters[b.commas].Keyword {
		return reference.Parameter{}, false
	}
	return f.Parameters[b.commas], true
}

// plannedNames returns the names in the plans of this module's type or, in a module that defines no type, of all types
// of the folder.
func (v *view) plannedNames() []*planned {
	if own := v.planned[strings.TrimSuffix(v.document.module, ".star")]; own != nil {
		return []*planned{own}
	}
	var all []*planned
	for _, names := range v.planned {
		all = append(all, names)
	}
	return all
}

// completeSubject completes names of QEMU and names in the plan.
func (v *view) completeSubject(c cursor) []completionItem {
	s, ok := v.subjectAt(c)
	if !ok {
		return nil
	}
	switch s.meaning {
	case anOption, aThing, anID:
		return v.namesInPlan(s)
	}
	qemu := v.server.options.QEMU(v.program)
	if qemu == nil {
		return nil
	}
	var items []completionItem
	add := func(word string, kind int, help string) {
		item := completionItem{Label: word, Kind: kind, Detail: qemu.Name()}
		if help != "" {
			item.Documentation = markdownOf(help)
		}
		items = append(items, item)
	}
	switch s.meaning {
	case aFlag:
		for _, word := range qemu.Flags() {
			add(word, kindValue, qemu.Help(word, "", ""))
		}
	case aValue:
		for _, word := range qemu.Values(s.flag) {
			add(word, kindValue, qemu.Help(s.flag, word, ""))
		}
	case aProperty:
		for _, word := range qemu.Properties(s.flag, s.value) {
			add(word, kindProperty, qemu.Help(s.flag, s.value, word))
			if s.option == nil {
				continue
			}
			if value, set := s.option.Get(word); set { // first the properties that the plan sets
				last := &items[len(items)-1]
				last.Detail, last.SortText = word+"="+value, "!"+word
			}
		}
	}
	return items
}

// namesInPlan returns the options, the other things, or the ids in the plans.
func (v *view) namesInPlan(s subject) []completionItem {
	found := map[string]completionItem{}
	for _, names := range v.plannedNames() {
		for _, o := range names.options {
			switch {
			case s.meaning == anID && o.defines() == s.refers && o.ID() != "":
				found[o.ID()] = completionItem{Label: o.ID(), Kind: kindValue, Detail: o.words()}
			case s.meaning == aThing || s.meaning == anOption && o.List:
				found[o.selector] = completionItem{Label: o.selector, Kind: kindValue, Detail: o.words()}
			}
		}
		if s.meaning == aThing {
			for _, name := range names.things {
				found[name] = completionItem{Label: name, Kind: kindValue}
			}
		}
	}
	var items []completionItem
	for _, item := range found {
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b completionItem) int { return strings.Compare(a.Label, b.Label) })
	return items
}

// explainSubject returns the documentation of the string at the cursor in Markdown, or "".
func (v *view) explainSubject(c cursor, word string) string {
	s, ok := v.subjectAt(c)
	if !ok {
		return ""
	}
	qemu := v.server.options.QEMU(v.program)
	help := func(flag, value, property string) string {
		if qemu == nil {
			return ""
		}
		return qemu.Help(flag, value, property)
	}
	switch s.meaning {
	case aFlag:
		return help(word, "", "")
	case aValue:
		return help(s.flag, word, "")
	case aProperty:
		text := help(s.flag, s.value, word)
		if s.option != nil {
			text += "\n\nIn the plan of a sample: `" + s.option.words() + "`"
		}
		return strings.TrimSpace(text)
	}
	for _, names := range v.plannedNames() {
		for _, o := range names.options {
			if s.meaning != anID && o.selector == word ||
				s.meaning == anID && o.defines() == s.refers && o.ID() == word {
				text := "In the plan of a sample: `" + o.words() + "`"
				return strings.TrimSpace(text + "\n\n" + help(o.Flag, o.Structured().Backend(), ""))
			}
		}
	}
	return ""
}
