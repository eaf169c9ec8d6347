package qemuopt

import "strings"

// Bool returns QEMU's interpretation of a text as a switch (qapi/qapi-util.c, qapi_bool_parse). known reports
// whether the text is a switch; QEMU rejects other texts.
func Bool(text string) (on, known bool) {
	switch text {
	case "on", "yes", "true", "y":
		return true, true
	case "off", "no", "false", "n":
		return false, true
	}
	return false, false
}

// A Pair is a key with its value in the text of an option.
type Pair struct{ Key, Value string }

// Parse reads the text of an option in the same way as QEMU (util/qemu-option.c, get_opt_name_value):
//
//   - value is the first word, if it has no name
//   - a doubled comma in a value is one comma
//   - a bare word is a switch: off if it begins with "no", otherwise on
//
// QEMU's keyval parser (util/keyval.c) has the same rules, but rejects bare words.
func Parse(text string) (value string, pairs []Pair) {
	for first := true; text != ""; first = false {
		end := strings.IndexAny(text, "=,")
		if end >= 0 && text[end] == '=' {
			p := Pair{Key: text[:end]}
			p.Value, text = cutValue(text[end+1:])
			pairs = append(pairs, p)
			continue
		}
		if first {
			value, text = cutValue(text)
			continue
		}
		word := text
		word, text, _ = strings.Cut(word, ",")
		if key, off := strings.CutPrefix(word, "no"); off {
			pairs = append(pairs, Pair{key, "off"})
		} else {
			pairs = append(pairs, Pair{word, "on"})
		}
	}
	return value, pairs
}

// cutValue returns the value at the beginning of a text, with doubled commas replaced by one, and the text after
// the comma that ends the value.
func cutValue(text string) (value, rest string) {
	for {
		end := strings.IndexByte(text, ',')
		if end < 0 {
			return value + text, ""
		}
		value, text = value+text[:end], text[end+1:]
		if !strings.HasPrefix(text, ",") {
			return value, text
		}
		value, text = value+",", text[1:]
	}
}
