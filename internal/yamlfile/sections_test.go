package yamlfile

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

type outer struct {
	Outer struct {
		Name  string `yaml:"name"`
		Inner struct {
			Factor *float64 `yaml:"factor"`
			Any    any      `yaml:"any"`
		} `yaml:"/Inner"`
	} `yaml:"/Outer"`
}

func TestDecodeSectionsTakesAllForms(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nested":       `{"/Outer": {name: x, "/Inner": {factor: 1.5, any: {"/a": [1]}}}}`,
		"whole paths":  `{"/Outer": {name: x}, "/Outer/Inner": {factor: "1.5", any: {"/a": [1]}}}`,
		"the way only": `{"/Outer/Inner": {factor: 1.5, any: {"/a": [1]}}, "/Outer": {name: x}}`,
		"underscores":  `{_Outer: {name: x, _Inner: {factor: 1.5, any: {"/a": [1]}}}}`,
		"empty":        `{"/Outer": {name: x, "/Inner": null}, "/Outer/Inner": {factor: 1.5}}`,
		"aliases":      `{"/Outer": {name: x, "/Inner": &a {factor: 1.5, any: {"/a": [1]}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got outer
			document, err := DecodeSections("x.yaml", []byte(text), &got)
			if name == "empty" {
				require.ErrorContains(t, err, "/Outer/Inner: the key is here twice", "both are sections of their own")
				return
			}
			require.NoError(t, err)
			require.Equal(t, "x", got.Outer.Name)
			require.InDelta(t, 1.5, *got.Outer.Inner.Factor, 0)
			require.Equal(t, map[string]any{"/a": []any{int64(1)}}, got.Outer.Inner.Any)
			require.True(t, document.Given("/Outer/Inner.any"))
			require.False(t, document.Given("/Outer/Inner.anything"))
		})
	}
}

func TestDecodeSectionsOfNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "null", "{}", `"/Outer":`} {
		var got outer
		document, err := DecodeSections("x.yaml", []byte(text), &got)
		require.NoError(t, err, "%q", text)
		require.Equal(t, outer{}, got)
		require.False(t, document.Given("/Outer.name"))
	}
}

// FuzzDecodeSections checks that an invalid section is refused in place and that decoding terminates.
func FuzzDecodeSections(f *testing.F) {
	for _, seed := range []string{
		`{"/": 1}`, `{"//": {}}`, `{"/Outer/": {}}`, `{_: {}}`, `{"/Outer": &a {"/Inner": *a}}`, `{? [a] : b}`, `[]`,
		`x`,
		`{"/Outer": 1, "/Outer/Inner": {}}`, `{"/Outer/Inner": 1, "/Outer/Inner/x": 2}`, `{"/Outer": {<<: {name: y}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got outer
		_, err := DecodeSections("x.yaml", []byte(text), &got)
		var faults Faults
		require.True(t, err == nil || errors.As(err, &faults), "%v", err)
	})
}
