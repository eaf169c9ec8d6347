package yamlfile

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A Scalar is a type that is written as one value and parses it itself, such as a size. Its String returns a text
// that ParseScalar parses as the same value.
type Scalar interface {
	fmt.Stringer
	// ParseScalar sets the value from a text or number as written in the file. message describes the error, or is ""
	// after a success. hint may describe the correct value.
	ParseScalar(text string) (message, hint string)
	// Wanted describes the expected value, such as "a size", and how to write it.
	Wanted() (what, hint string)
}

// A Switch is a Scalar that is also written as true or false.
type Switch interface {
	Scalar
	// SetSwitch sets the value from true or false.
	SetSwitch(on bool)
}

// A Limited integer type has a largest sensible value, and a hint for larger or missing values.
type Limited interface {
	Largest() (number int64, hint string)
}

// setScalar sets a text, a switch, a number, or a Scalar. If the node has another type, message describes the error,
// and hint may describe the correct value.
func setScalar(to reflect.Value, n *yaml.Node) (message, hint string) {
	own, isOwn := to.Addr().Interface().(Scalar)
	switch {
	case isOwn:
		return readOwn(own, n)
	case to.Kind() == reflect.String:
		text, message, hint := readText(n)
		to.SetString(text)
		return message, hint
	case to.Kind() == reflect.Bool:
		on, message, hint := readSwitch(n)
		to.SetBool(on)
		return message, hint
	case to.CanFloat():
		number, message, hint := readNumber(n)
		to.SetFloat(number)
		return message, hint
	case to.CanInt():
		number, message, hint := readWhole(n)
		if limited, ok := to.Interface().(Limited); ok {
			most, wanted := limited.Largest()
			switch {
			case message != "":
				hint = wanted
			case number > most:
				return "can't be " + n.Value, wanted
			}
		}
		to.SetInt(number)
		return message, hint
	}
	panic("no way to read a " + to.Type().String())
}

// readOwn lets the type parse the value, with or without quotes.
func readOwn(to Scalar, n *yaml.Node) (message, hint string) {
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float":
		return to.ParseScalar(n.Value)
	case "!!bool":
		if either, is := to.(Switch); is {
			on, message, hint := readSwitch(n)
			either.SetSwitch(on)
			return message, hint
		}
	}
	what, hint := to.Wanted()
	return "must be " + what + ", not " + describeNode(n), hint
}

// readText accepts a text as written, including texts that YAML treats as a number or a date: the name 1.10 stays
// 1.10.
func readText(n *yaml.Node) (text, message, hint string) {
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", "must be text, not " + describeNode(n), ""
	case n.ShortTag() == "!!bool":
		return "", "must be text, not " + describeNode(n), "put it in quotes if it is text"
	}
	return n.Value, "", ""
}

// readSwitch accepts true and false, and also yes, no, on and off of YAML 1.1, as the original did.
func readSwitch(n *yaml.Node) (on bool, message, hint string) {
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
	if n.Kind == yaml.ScalarNode && !quoted {
		switch strings.ToLower(n.Value) {
		case "true", "yes", "on":
			return true, "", ""
		case "false", "no", "off":
			return false, "", ""
		}
	}
	switch strings.ToLower(n.Value) {
	case "true", "yes", "on", "false", "no", "off":
		hint = "leave the quotes out"
	}
	return false, "must be true or false, not " + describeNode(n), hint
}

// readWhole accepts decimal integers, with or without quotes. It refuses numbers that YAML 1.1 and 1.2 interpret
// differently, or that mean something else than they seem to.
func readWhole(n *yaml.Node) (number int64, message, hint string) {
	if n.Kind != yaml.ScalarNode {
		return 0, "must be a whole number, not " + describeNode(n), ""
	}
	digits := strings.TrimLeft(n.Value, "+-")
	if len(n.Value)-len(digits) > 1 || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, "must be a whole number, not " + describeNode(n), suggestWhole(n)
	}
	if digits[0] == '0' && len(digits) > 1 {
		hint = "write " + strings.TrimLeft(digits[:len(digits)-1], "0") + digits[len(digits)-1:]
		return 0, n.Value + " is octal to some readers of YAML and decimal to others", hint
	}
	number, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		return 0, clipWord(n.Value) + " is out of range", ""
	}
	return number, "", ""
}

// readNumber accepts decimal numbers, with or without quotes.
func readNumber(n *yaml.Node) (number float64, message, hint string) {
	if n.Kind == yaml.ScalarNode && n.Value != "" && strings.Trim(n.Value, "+-.0123456789") == "" {
		if number, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return number, "", ""
		}
	}
	return 0, "must be a number, not " + describeNode(n), "such as 2 or 1.25"
}

// suggestWhole suggests the decimal form of a number in another YAML notation: 0o14, 0x10, 1_000, 1e3.
func suggestWhole(n *yaml.Node) string {
	var number float64
	switch n.ShortTag() {
	case "!!int", "!!float":
		if n.Decode(&number) == nil && number == math.Trunc(number) && math.Abs(number) < 1<<53 {
			return "write " + strconv.FormatFloat(number, 'f', 0, 64)
		}
	}
	return ""
}

// freeScalar returns a value with the type that it appears to have: nil, bool, int64, float64 or string. Dates
// remain texts.
func freeScalar(n *yaml.Node) (value any, message, hint string) {
	switch n.ShortTag() {
	case "!!null":
		return nil, "", ""
	case "!!bool":
		on, message, hint := readSwitch(n)
		return on, message, hint
	case "!!int":
		number, message, hint := readWhole(n)
		return number, message, hint
	case "!!float":
		var number float64
		if err := n.Decode(&number); err != nil || math.IsNaN(number) {
			return nil, "must be a number, not " + describeNode(n), ""
		}
		return number, "", ""
	case "!!str", "!!timestamp":
		return n.Value, "", ""
	}
	return nil, "the tag " + n.Tag + " has no meaning here", "leave it out"
}

// knownTag reports whether an explicit tag (!!str) stands for a plain value.
func knownTag(n *yaml.Node) bool {
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!merge":
		return true
	}
	return false
}

// describeNode describes a node for messages.
func describeNode(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return clipWord(n.Value)
	case "!!int", "!!float":
		return "the number " + clipWord(n.Value)
	case "!!timestamp":
		return "the date " + clipWord(n.Value)
	}
	return "the text " + strconv.Quote(clipWord(n.Value))
}
