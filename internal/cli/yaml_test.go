package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

func TestYAMLLooksAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	text, err := toYAML([]byte(`{"name": "web", "since": "2026-01-02T03:04:05Z", "ram": 1024, "ok": true, "none": null,
		"empty": {}, "list": [1, "two", {"a": "b", "c": [[], ["x"]]}], "nested": {"deep": {"er": "yes"}}}`))
	require.NoError(t, err)
	require.Equal(t, `name: web
since: "2026-01-02T03:04:05Z"
ram: 1024
ok: true
none: null
empty: {}
list:
  - 1
  - two
  - a: b
    c:
      - []
      - - x
nested:
  deep:
    er: "yes"
`, string(text))
	for text, want := range map[string]string{
		"\x7f": `"\u007f"`, "\u0085": `"\u0085"`, "\u00a0": "\"\u00a0\"", "\ufeff": `"\ufeff"`,
		"\uffff": `"\uffff"`, "\ufffe": `"\ufffe"`,
		"a-1.b": "a-1.b", "-a": `"-a"`, "/a_Z": "/a_Z", "a b": `"a b"`, "1a": `"1a"`,
		"": `""`, "On": `"On"`, "~": `"~"`, "{": `"{"`,
	} {
		require.Equal(t, want, yamlScalar(text))
	}
	for _, wrong := range []string{"", "[1", `{"a": }`, `{"a"`, "[1] 2", `{1: 2}`} {
		_, err := toYAML([]byte(wrong))
		require.ErrorContains(t, err, "write YAML: ", wrong)
	}
}

// A YAML reader and a JSON reader return the same values for any document.
func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `"x"`, `1`, `null`, `[[[1]],[]]`, `[{"a":{"b":[{"c":1},{"d":[]}]}}]`, `{"": ""}`,
		`{"n": {"y": "on"}}`,
		`["- x", "a: b", "#c", "'", "\"", "\n", "~", "0o14", "1e3", ".inf", "NaN", "=", "<<", "a-b", "-", "--- x", ` +
			`"é", " x"]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		var want any
		if json.Unmarshal([]byte(doc), &want) != nil {
			return
		}
		text, err := toYAML([]byte(doc))
		require.NoError(t, err)
		var got any
		require.NoError(t, yaml.Unmarshal(text, &got), "%s", text)
		require.Equal(t, normal(t, want), normal(t, got), "%s", text)
	})
}

// normal converts all numbers to float64, the only number type of the JSON reader.
func normal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(floats(v))
	require.NoError(t, err)
	return string(text)
}

func floats(v any) any {
	switch v := v.(type) {
	case float64:
		if v == 0 {
			return 0.0 // -0 is 0
		}
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(v[k])
		}
	}
	return v
}
