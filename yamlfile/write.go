package yamlfile

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Write returns the text of a file that is read as the same value, as the yaml tags
// say. What has its zero value is left out; an empty list stays, as it means none.
func Write(value any) ([]byte, error) {
	root, err := nodeOf(reflect.ValueOf(value))
	if err != nil {
		return nil, err
	}
	return encode(root)
}

// nodeOf returns a value as YAML, as the yaml tags say.
func nodeOf(v reflect.Value) (*yaml.Node, error) {
	switch value := v.Interface().(type) {
	case yaml.Node:
		return &value, nil
	case fmt.Stringer:
		if reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[Scalar]()) {
			return scalar(value.String())
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return scalar(nil)
		}
		return nodeOf(v.Elem())
	case reflect.Struct:
		n := mapping()
		for _, f := range fieldsOf(v) {
			if f.value.IsZero() {
				continue
			}
			value, err := nodeOf(f.value)
			if err != nil {
				return nil, err
			}
			add(n, f.key, value)
		}
		return n, nil
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			item, err := nodeOf(v.Index(i))
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		return n, nil
	case reflect.Map: // options
		n := mapping()
		values := v.Interface().(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			value, err := nodeOf(reflect.ValueOf(&values).Elem().MapIndex(reflect.ValueOf(key)))
			if err != nil {
				return nil, err
			}
			add(n, key, value)
		}
		return n, nil
	default:
		return scalar(v.Interface())
	}
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

// add adds a key, which is quoted where it would be read as something else.
func add(to *yaml.Node, key string, value *yaml.Node) {
	var k yaml.Node
	k.SetString(key)
	if n, err := scalar(key); err == nil {
		k = *n
	}
	to.Content = append(to.Content, &k, value)
}

// scalar returns a single value. A whole number that is a float stays one, and the
// text "<<" a text.
func scalar(value any) (*yaml.Node, error) {
	if n := simple(value); n != nil {
		return n, nil
	}
	n := &yaml.Node{}
	if err := n.Encode(value); err != nil {
		return nil, err
	}
	if n.Tag == "!!merge" {
		n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
	}
	if _, is := value.(float64); is && strings.Trim(n.Value, "-0123456789") == "" {
		n.Tag, n.Value = "!!float", n.Value+".0"
	}
	return n, nil
}

// simple returns a value that is written as it is, nil for all others: the library
// knows how to write those, and takes a hundred times as long.
func simple(value any) *yaml.Node {
	node := func(tag, text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch v := value.(type) {
	case bool:
		return node("!!bool", strconv.FormatBool(v))
	case int:
		return node("!!int", strconv.Itoa(v))
	case int64:
		return node("!!int", strconv.FormatInt(v, 10))
	case encoding.TextMarshaler: // it knows how it is written
		return nil
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.String {
		if text := v.String(); isWord(text) || isSize(text) || isUUID(text) {
			return node("!!str", text)
		}
	}
	return nil
}

// isSize reports whether a text is a number with a unit, as sizes are written.
func isSize(text string) bool {
	number, unit, _ := strings.Cut(text, " ")
	known := slices.Contains([]string{"KiB", "MiB", "GiB", "TiB"}, unit)
	return known && number != "" && strings.Trim(number, "0123456789") == ""
}

// isUUID reports whether a text is a UUID (RFC 9562), which no number looks like.
func isUUID(text string) bool {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(text) != len(form) {
		return false
	}
	for i := range form {
		digit := strings.ContainsRune("0123456789abcdefABCDEF", rune(text[i]))
		if (form[i] == '-') != (text[i] == '-') || form[i] == 'x' && !digit {
			return false
		}
	}
	return true
}

// isWord reports whether a text is a word that means nothing else in any version of
// YAML, or a path of such.
func isWord(text string) bool {
	switch strings.ToLower(text) {
	case "", "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return false
	}
	for i, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '/':
		case i > 0 && (r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'):
		default:
			return false
		}
	}
	return true
}
