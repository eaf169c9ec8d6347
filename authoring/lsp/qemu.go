package lsp

import (
	"strings"

	"vmop/vmtypes"
)

// vocabulary is the module with functions for QEMU's options.
const vocabulary = vmtypes.StockPrefix + "lib/qemu.star"

// An optionCall is a call that creates a QEMU option, as far as the author has written it.
type optionCall struct {
	flag, value string
	// argument is the index of the argument at the cursor; first is the index of the argument with the value.
	argument, first int
	// key means that the cursor is at the name of a property. property is the name if the cursor is at its value.
	key      bool
	property string
}

// optionCallAt returns the call at the cursor.
func (v *view) optionCallAt(c cursor) (call optionCall, ok bool) {
	function, b, ok := c.enclosingCall()
	if !ok {
		return call, false
	}
	arguments := splitArguments(c.content[b.at+1 : c.offset])
	if function == "option" {
		call.flag, call.first = literalAt(arguments, 0), 1
	} else if call.flag, call.first = v.wrapperOf(function); call.flag == "" {
		return call, false
	}
	call.value = literalAt(arguments, call.first)
	call.argument = len(arguments) - 1
	inner := c.open[len(c.open)-1]
	if inner.kind == '{' && inner.at > b.at {
		call.key, call.property = c.entryAt(inner)
		return call, true
	}
	return call, inner.at == b.at
}

// entryAt returns whether the cursor is at the key of an entry in a dict, and otherwise the key if it is a literal.
func (c *cursor) entryAt(dict bracket) (isKey bool, key string) {
	before, _, isValue := strings.Cut(c.content[dict.argument:c.str], ":")
	if !isValue {
		return true, ""
	}
	return false, literalAt([]string{before}, 0)
}

// wrapperOf returns the flag for a function of the vocabulary, and the index of the argument with the value.
func (v *view) wrapperOf(function string) (flag string, first int) {
	if v.tree == nil {
		return "", 0
	}
	from, ok := v.tree.loadedNames()[function]
	if !ok || from.module != vocabulary {
		return "", 0
	}
	switch from.name {
	case "device", "object":
		return "-" + from.name, 0
	case "chardev", "netdev", "blockdev":
		return "-" + from.name, 1
	}
	return "", 0
}

// splitArguments splits the text between a bracket and the cursor at its commas.
func splitArguments(text string) []string {
	var arguments []string
	depth, start := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"', '\'':
			c := cursor{content: text, offset: len(text)}
			next := c.skipString(i)
			if next < 0 {
				return append(arguments, text[start:])
			}
			i = next - 1
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				arguments = append(arguments, text[start:i])
				start = i + 1
			}
		}
	}
	return append(arguments, text[start:])
}

// literalAt returns the string literal in argument n, or "".
func literalAt(arguments []string, n int) string {
	if n >= len(arguments) {
		return ""
	}
	text := strings.TrimSpace(arguments[n])
	if len(text) < 2 || text[0] != '"' || strings.IndexByte(text[1:], '"') != len(text)-2 {
		return ""
	}
	return text[1 : len(text)-1]
}
