package yamlfile

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A Scalar is a type that is written as one value and reads it itself, such as a
// size. Its String returns what ParseScalar reads as the same.
type Scalar interface {
	fmt.Stringer
	// ParseScalar sets the value from a text or number, as it stands in the file. It
	// returns what is wrong, "" if nothing is, and perhaps what would be right.
	ParseScalar(text string) (message, hint string)
	// Wanted names what is expected, "a size", and what to write.
	Wanted() (what, hint string)
}

// A Limited type of whole numbers has a largest one that makes sense, and a hint
// for those who give none or more.
type Limited interface {
	Largest() (number int64, hint string)
}

// setScalar sets a text, a switch, a number, or a Scalar. If the node is none it
// returns what is wrong, and perhaps what would be right.
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

// readOwn has a value read by its type, in quotes or not.
func readOwn(to Scalar, n *yaml.Node) (message, hint string) {
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float":
		return to.ParseScalar(n.Value)
	}
	what, hint := to.Wanted()
	return "got " + describe(n) + ", want " + what, hint
}

// readText takes a text as it is written, and also what YAML takes for a
// number or a date: the name 1.10 stays 1.10.
func readText(n *yaml.Node) (text, message, hint string) {
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", "got " + describe(n) + ", want a text", ""
	case n.ShortTag() == "!!bool":
		return "", "got " + describe(n) + ", want a text", "put it in quotes if it is one"
	}
	return n.Value, "", ""
}

// readSwitch takes true and false, and the yes and no, on and off of YAML 1.1,
// which the original understood.
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
	return false, "got " + describe(n) + ", want true or false", hint
}

// readWhole takes whole numbers in decimal, in quotes or not. What YAML 1.1 and
// 1.2 read differently, or as something else than it looks, is refused.
func readWhole(n *yaml.Node) (number int64, message, hint string) {
	if n.Kind != yaml.ScalarNode {
		return 0, "got " + describe(n) + ", want a whole number", ""
	}
	digits := strings.TrimLeft(n.Value, "+-")
	if len(n.Value)-len(digits) > 1 || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, "got " + describe(n) + ", want a whole number", suggestWhole(n)
	}
	if digits[0] == '0' && len(digits) > 1 {
		hint = "write " + strings.TrimLeft(digits[:len(digits)-1], "0") + digits[len(digits)-1:]
		return 0, n.Value + " is octal to some readers of YAML and decimal to others", hint
	}
	number, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		return 0, clip(n.Value) + " is out of range", ""
	}
	return number, "", ""
}

// readNumber takes numbers in decimal, in quotes or not.
func readNumber(n *yaml.Node) (number float64, message, hint string) {
	if n.Kind == yaml.ScalarNode && n.Value != "" && strings.Trim(n.Value, "+-.0123456789") == "" {
		if number, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return number, "", ""
		}
	}
	return 0, "got " + describe(n) + ", want a number", "such as 2 or 1.25"
}

// suggestWhole says how to write a number that YAML knows in another notation:
// 0o14, 0x10, 1_000, 1e3.
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

// freeScalar takes a value for what it looks like: nil, bool, int64, float64 or
// string. Dates stay texts.
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
			return nil, "got " + describe(n) + ", want a number", ""
		}
		return number, "", ""
	case "!!str", "!!timestamp":
		return n.Value, "", ""
	}
	return nil, "the tag " + n.Tag + " means nothing here", "leave it out"
}

// knownTag reports whether a tag that is written out (!!str) is one of those that
// stand for plain values.
func knownTag(n *yaml.Node) bool {
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!merge":
		return true
	}
	return false
}

// describe names what a node is in the words of a message.
func describe(n *yaml.Node) string {
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
		return clip(n.Value)
	case "!!int", "!!float":
		return "the number " + clip(n.Value)
	case "!!timestamp":
		return "the date " + clip(n.Value)
	}
	return "the text " + strconv.Quote(clip(n.Value))
}
