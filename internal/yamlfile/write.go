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

// Write returns the text of a file that is parsed as the same value, according to the yaml tags. It leaves out zero
// values, but keeps empty lists, which differ from absent lists.
func Write(value any) ([]byte, error) {
	root, err := nodeOf(reflect.ValueOf(value))
	if err != nil {
		return nil, err
	}
	return encodeNode(root)
}

// nodeOf converts a value to YAML according to the yaml tags.
func nodeOf(v reflect.Value) (*yaml.Node, error) {
	switch value := v.Interface().(type) {
	case yaml.Node:
		return &value, nil
	case fmt.Stringer:
		if reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[Scalar]()) {
			return scalarNode(value.String())
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return scalarNode(nil)
		}
		return nodeOf(v.Elem())
	case reflect.Struct:
		n := newMapping()
		for _, f := range fieldsOf(v) {
			if f.value.IsZero() {
				continue
			}
			value, err := nodeOf(f.value)
			if err != nil {
				return nil, err
			}
			addPair(n, f.key, value)
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
		n := newMapping()
		values := v.Interface().(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			value, err := nodeOf(reflect.ValueOf(&values).Elem().MapIndex(reflect.ValueOf(key)))
			if err != nil {
				return nil, err
			}
			addPair(n, key, value)
		}
		return n, nil
	default:
		return scalarNode(v.Interface())
	}
}

func newMapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

// addPair adds a key, with quotes if it would otherwise be parsed as another type.
func addPair(to *yaml.Node, key string, value *yaml.Node) {
	var k yaml.Node
	k.SetString(key)
	if n, err := scalarNode(key); err == nil {
		k = *n
	}
	to.Content = append(to.Content, &k, value)
}

// scalarNode returns a single value. A float with an integer value remains a float, and the text "<<" remains a text.
func scalarNode(value any) (*yaml.Node, error) {
	if n := plainScalar(value); n != nil {
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

// plainScalar returns values that need no quoting, and nil for all others. The library can write those, but takes a
// hundred times as long.
func plainScalar(value any) *yaml.Node {
	node := func(tag, text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch v := value.(type) {
	case bool:
		return node("!!bool", strconv.FormatBool(v))
	case int:
		return node("!!int", strconv.Itoa(v))
	case int64:
		return node("!!int", strconv.FormatInt(v, 10))
	case encoding.TextMarshaler: // it formats itself
		return nil
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.String {
		if text := v.String(); isPlainWord(text) || isSize(text) || isUUID(text) {
			return node("!!str", text)
		}
	}
	return nil
}

// isSize reports whether a text is a number with a unit, as in sizes.
func isSize(text string) bool {
	number, unit, _ := strings.Cut(text, " ")
	known := slices.Contains([]string{"KiB", "MiB", "GiB", "TiB"}, unit)
	return known && number != "" && strings.Trim(number, "0123456789") == ""
}

// isUUID reports whether a text is a UUID (RFC 9562), which can't be mistaken for a number.
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

// isPlainWord reports whether a text is a word without another meaning in any version of YAML, or a path of such words.
func isPlainWord(text string) bool {
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
