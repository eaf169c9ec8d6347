package yamlfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine is the struct that the tests decode into.
type machine struct {
	Name  string         `yaml:"name"`
	CPUs  int            `yaml:"cpus" min:"1"`
	Size  inches         `yaml:"size"`
	Disks []disk         `yaml:"disks"`
	Extra map[string]any `yaml:"extra"`
	Old   string         `yaml:"old" former:"name"`
}

type disk struct {
	File     string `yaml:"file"`
	ReadOnly *bool  `yaml:"readOnly"`
}

// inches is a Scalar.
type inches int

func (i inches) String() string { return strings.Repeat("i", int(i)) }

func (i *inches) ParseScalar(text string) (message, hint string) {
	if strings.Trim(text, "i") != "" {
		return "is no inches", "such as iii"
	}
	*i = inches(len(text))
	return "", ""
}

func (i inches) Wanted() (what, hint string) { return "inches", "such as iii" }

func readMachine(t *testing.T, text string, settings ...string) (machine, *Reader) {
	t.Helper()
	r := NewReader("f.yaml", []byte(text), Dialect{
		Section: "/Machine", Secret: "extra", Renamed: func(path string) (called, hint string) {
			return map[string]string{"drives": "disks"}[path], map[string]string{"floppy": "use a disk"}[path]
		},
	})
	r.Set(settings...)
	var m machine
	r.Section(&m)
	return m, r
}

func TestSection(t *testing.T) {
	t.Parallel()
	m, r := readMachine(t, "_Machine: {name: a, size: iii, disks: [{file: /x, readOnly: on}], extra: {a: [1]}}\n/Other: {}\n",
		"cpus=2", "disks[1].file=/y")
	require.NoError(t, r.Err())
	require.Equal(t, machine{
		Name: "a", CPUs: 2, Size: 3, Disks: []disk{{File: "/x", ReadOnly: new(true)}, {File: "/y"}},
		Extra: map[string]any{"a": []any{int64(1)}},
	}, m)
	require.Len(t, r.Warnings(), 1)
	require.Equal(t, `f.yaml:2:1: the section "/Other" is ignored (only /Machine is read)`, r.Warnings()[0].String())
	require.True(t, r.Document().Given("disks[0].file"))
	require.False(t, r.Document().Given("disks[0].format"))
	require.Equal(t, 1, r.Document().Line("disks[0].format"))

	again, err := Write(struct {
		Machine *machine `yaml:"/Machine"`
	}{&m})
	require.NoError(t, err)
	same, r := readMachine(t, string(again))
	require.NoError(t, r.Err())
	require.Equal(t, m, same, "%s", again)
}

// All errors of a file are reported together, ordered by position.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", `f.yaml:1:1: the file is empty (add the section "/Machine")`},
		{"no mapping", "[]", `f.yaml:1:1: must be a mapping with the section "/Machine", not a list`},
		{"no section", "/Other: 1", `f.yaml:1:1: there is no section "/Machine"`},
		{"a misspelt section", "machine: 1", `f.yaml:1:1: machine: unknown section (did you mean "/Machine"?)`},
		{"a section's key", "name: 1", `f.yaml:1:1: name: unknown section (it belongs in the section "/Machine": indent it)`},
		{"two of it", "/Machine: {}\n_Machine: {}", "f.yaml:2:1: the section is here twice (first on line 1, as /Machine)"},
		{"no such thing", "/Machine: {floppy: x}", "f.yaml:1:12: floppy: unknown key (use a disk)"},
		{"another name", "/Machine: {drives: []}", "f.yaml:1:12: drives: unknown key (it is called disks here)"},
		{
			"another place", "/Machine: {name: a, file: 1}",
			"f.yaml:1:21: file: unknown key (it belongs to disks[]: disks[].file)",
		},
		{"a former key", "/Machine: {olt: a}", "f.yaml:1:12: olt: unknown key (known are cpus, disks, extra, name, size)"},
		{
			"several", "/Machine:\n  cpus: 0\n  size: 3\n  disks: [{flie: x}, 1]",
			"f.yaml:2:9: cpus: can't be 0 (at least 1; without the key its default is used)\n" +
				"f.yaml:3:9: size: is no inches (such as iii)\n" +
				"f.yaml:4:12: disks[0].flie: unknown key (did you mean file?)\n" +
				"f.yaml:4:22: disks[1]: must be a mapping, not the number 1",
		},
		{"no scalar", "/Machine: {size: [1]}", "f.yaml:1:18: size: must be inches, not a list (such as iii)"},
		{"syntax", "/Machine:\n\tname: a", "f.yaml:2:1: a tab in the indentation (YAML wants blanks)"},
		{"no UTF-8", "/Machine:\n  name: \xff", "f.yaml:2:9: not UTF-8: byte 0xff (save the file as UTF-8)"},
		{"UTF-8", "/Machine: {name: \uFFFD\té\u0085 b}", ""},
		{"a control character", "/Machine:\r\n  name: \x01", "f.yaml:2:9: the character U+0001 " + asEscape},
		{"after another line break", "/Machine:\r  name:\u0085   \x7f", "f.yaml:3:4: the character U+007F " + asEscape},
		{
			"a byte order mark within", "/Machine: {}\u2028#\u2029 \ufeff",
			"f.yaml:3:2: the character U+FEFF " + asEscape,
		},
		{"a character that is none", "é\n: \uffff", "f.yaml:2:3: the character U+FFFF " + asEscape},
		{"an item without a value", "/Machine: {disks: [~]}", "f.yaml:1:20: disks[0]: an item without a value"},
		{"a tag", "/Machine: {name: !x a}", "f.yaml:1:18: name: the tag !x has no meaning here (leave it out)"},
		{"a key that is a list", "/Machine: {? [a] : b}", "f.yaml:1:14: a key must be text, not a list"},
		{"a key twice", "/Machine: {name: a, name: b}", "f.yaml:1:21: name: the key is here twice (first on line 1)"},
		{
			"what contains itself", "/Machine: {extra: &a {b: *a}}",
			"f.yaml:1:26: extra.b.b: the anchor \"a\" contains itself",
		},
		{
			"no mapping that is merged", "/Machine: {extra: {<<: [[a]]}}",
			"f.yaml:1:25: extra: the value of the merge key << must be a mapping, not a list (such as <<: *name)",
		},
		{"merged mappings", "/Machine: {extra: {<<: [{a: 1, b: 2}, {b: 3, c: 4}], a: 0}, <<: {name: x}}", ""},
		{
			"a key of the whole", "/Machine: {disks: [{cpus: 1}]}",
			`f.yaml:1:21: disks[0].cpus: unknown key (it belongs to "/Machine" itself)`,
		},
		{
			"deep values",
			"/Machine: {extra: " + strings.Repeat("{a: ", deepest-2) + "1" + strings.Repeat("}", deepest-2) + "}", "",
		},
		{
			"too deep values", "/Machine: {extra: {b: " +
				strings.Repeat("[", deepest+3) + strings.Repeat("]", deepest+3) + "}}",
			"f.yaml:1:85: extra.b" + strings.Repeat("[0]", 41) + ": nested too deeply (at most 64 levels)",
		},
		{"a secret", "/Machine: {extra: {password: *x}}", "f.yaml:1:1: unknown anchor 'x' referenced"},
		{"a terminal's escape", "/Machine: {\"\\e[31m\": 1}", "f.yaml:1:12: �[31m: unknown key " +
			"(known are cpus, disks, extra, name, size)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, r := readMachine(t, tt.text)
			if tt.want == "" {
				require.NoError(t, r.Err())
				return
			}
			require.EqualError(t, r.Err(), tt.want)
		})
	}
	m, _ := readMachine(t, "/Machine: {extra: {<<: [{a: 1, b: 2}, {b: 3, c: 4}], a: 0}, <<: {name: x}}")
	require.Equal(t, machine{Name: "x", Extra: map[string]any{"a": int64(0), "b": int64(2), "c": int64(4)}}, m)
	_, r := readMachine(t, "/Machine: {"+strings.Repeat("x, ", mostFaults+5)+"}")
	var faults Faults
	require.ErrorAs(t, r.Err(), &faults)
	require.Len(t, faults, mostFaults+1)
	require.Contains(t, faults[mostFaults].Message, "more errors")
	require.Len(t, faults.Unwrap(), mostFaults+1)
}

const asEscape = "(write it as an escape in a text in double quotes)"

// port is a Limited number.
type port int

func (port) Largest() (most int64, wanted string) { return 65535, "a port" }

// Scalars accept common spellings, and the error for an invalid scalar describes valid values.
func TestScalars(t *testing.T) {
	t.Parallel()
	type scalars struct {
		Port  port    `yaml:"port"`
		Share float64 `yaml:"share"`
		On    bool    `yaml:"on"`
		Text  string  `yaml:"text"`
		Any   any     `yaml:"any"`
	}
	for text, want := range map[string]string{
		"any: !!binary aGk=":         "f:1:6: any: the tag !!binary has no meaning here (leave it out)",
		"any: ''":                    "{0 0 false  }",
		"any: .nan":                  "f:1:6: any: must be a number, not the number .nan",
		"any: 0b11":                  "f:1:6: any: must be a whole number, not the number 0b11 (write 3)",
		"any: 1.0":                   "{0 0 false  1}",
		"any: 12345678901234567890":  "f:1:6: any: 12345678901234567890 is out of range",
		"any: 1_000":                 "f:1:6: any: must be a whole number, not the number 1_000 (write 1000)",
		"any: 1e3":                   "{0 0 false  1000}",
		"any: 2026-01-02":            "{0 0 false  2026-01-02}",
		"any: off":                   "{0 0 false  off}",
		"on: 'no'":                   "f:1:5: on: must be true or false, not the text \"no\" (leave the quotes out)",
		"on: 1":                      "f:1:5: on: must be true or false, not the number 1",
		"on: True":                   "{0 0 true  <nil>}",
		"on: maybe":                  "f:1:5: on: must be true or false, not the text \"maybe\"",
		"on: yes":                    "{0 0 true  <nil>}",
		"port: '80'":                 "{80 0 false  <nil>}",
		"port: -1":                   "{-1 0 false  <nil>}",
		"port: 0o17":                 "f:1:7: port: must be a whole number, not the number 0o17 (a port)",
		"port: 0x10":                 "f:1:7: port: must be a whole number, not the number 0x10 (a port)",
		"port: 1.5":                  "f:1:7: port: must be a whole number, not the number 1.5 (a port)",
		"port: 1e3":                  "f:1:7: port: must be a whole number, not the number 1e3 (a port)",
		"port: 65535":                "{65535 0 false  <nil>}",
		"port: 65536":                "f:1:7: port: can't be 65536 (a port)",
		"port: 99999999999999999999": "f:1:7: port: 99999999999999999999 is out of range (a port)",
		"port: true":                 "f:1:7: port: must be a whole number, not true (a port)",
		"port: x":                    "f:1:7: port: must be a whole number, not the text \"x\" (a port)",
		"share: '2.5'":               "{0 2.5 false  <nil>}",
		"share: .inf":                "f:1:8: share: must be a number, not the number .inf (such as 2 or 1.25)",
		"share: 0.5":                 "{0 0.5 false  <nil>}",
		"share: 1":                   "{0 1 false  <nil>}",
		"share: [1]":                 "f:1:8: share: must be a number, not a list (such as 2 or 1.25)",
		"share: 1e3":                 "f:1:8: share: must be a number, not the number 1e3 (such as 2 or 1.25)",
		"share: inf":                 "f:1:8: share: must be a number, not the text \"inf\" (such as 2 or 1.25)",
		"share: ''":                  "f:1:8: share: must be a number, not the text \"\" (such as 2 or 1.25)",
		"port: 007":                  "f:1:7: port: 007 is octal to some readers of YAML and decimal to others (a port)",
		"port: +5":                   "{5 0 false  <nil>}",
		"port: +-5":                  "f:1:7: port: must be a whole number, not the text \"+-5\" (a port)",
		"port: 0":                    "{0 0 false  <nil>}",
		"share: x":                   "f:1:8: share: must be a number, not the text \"x\" (such as 2 or 1.25)",
		"text: 'a'":                  "{0 0 false a <nil>}",
		"text: 1.10":                 "{0 0 false 1.10 <nil>}",
		"text: 2026-01-02":           "{0 0 false 2026-01-02 <nil>}",
		"text: 7":                    "{0 0 false 7 <nil>}",
		"text: yes":                  "{0 0 false yes <nil>}",
		"text: {a: 1}":               "f:1:7: text: must be text, not a mapping",
		"text: |\n  a":               "{0 0 false a <nil>}",
		"text: ~":                    "{0 0 false  <nil>}",
	} {
		var got scalars
		_, err := Decode("f", []byte(text), &got)
		if err != nil {
			require.Equal(t, want, err.Error(), text)
			continue
		}
		require.Equal(t, want, fmt.Sprintf("%v", got), text)
	}
}

// Errors found by the package's caller have a position, unless they may only follow from another error. Secrets are not
// quoted.
func TestProblems(t *testing.T) {
	t.Parallel()
	_, r := readMachine(t, "/Machine:\n  name: a\n  cpus: x\n  extra: {pin: 1}\n")
	r.Refuse("name", nil, "is taken", "")
	r.Refuse("size", []string{"cpus"}, "is too much for the CPUs", "")
	r.Refuse("extra.pin", nil, "is too short", "")
	r.RefuseAt(4, 3, "extra", "is here", "")
	r.Warn("name", "is short", "")
	require.Equal(t, "f.yaml:2:9: name: is short", r.Warnings()[0].String())
	var faults Faults
	require.ErrorAs(t, r.Err(), &faults)
	require.Len(t, faults, 4)
	require.Equal(t, "f.yaml:4:3: extra: is here", faults[2].Error())
	require.Equal(t, Fault{File: "f.yaml", Line: 2, Column: 9, Path: "name", Message: "is taken", Source: "  name: a"},
		faults[0])
	require.Equal(t, "f.yaml:4:16: extra.pin: is too short", faults[3].Error())
	require.Empty(t, faults[3].Source)

	err := r.Document().Locate([]Problem{
		{Path: "name", Message: "no", Key: true},
		{Path: "disks[3].file", Message: "no"},
	})
	require.EqualError(t, err, "f.yaml:1:1: disks[3].file: no\nf.yaml:2:3: name: no")
	require.NoError(t, r.Document().Locate(nil))
	_, r = readMachine(t, "/Machine: {name: a}", "name.x=1")
	require.ErrorContains(t, r.Err(), `there is the text "a" here, which has no key x`)
	require.EqualError(t, (*Document)(nil).Locate([]Problem{{Path: "a", Message: "no"}}), "configuration:1:1: a: no")
}

func TestExcerptsOfLongLines(t *testing.T) {
	t.Parallel()
	require.Equal(t, "f:1:3: a: no (yes)\n   1 | \ta: b\n     | \t ^\n",
		Fault{File: "f", Line: 1, Column: 3, Path: "a", Message: "no", Hint: "yes", Source: "\ta: b"}.Excerpt())
	require.Equal(t, "f:9:4: no\n   9 | a\n     |    ^\n",
		Fault{File: "f", Line: 9, Column: 4, Message: "no", Source: "a"}.Excerpt())
	long := "/Machine: {extra: {name: " + strings.Repeat("é", 100) + ", \tb: 3}, \tkez: 1, name: " +
		strings.Repeat("x", 500) + "}"
	_, r := readMachine(t, long)
	var faults Faults
	require.ErrorAs(t, r.Err(), &faults)
	for _, line := range strings.Split(faults[0].Excerpt(), "\n")[1:] {
		require.LessOrEqual(t, len([]rune(line)), widestExcerpt+9)
	}
	lines := strings.Split(faults[0].Excerpt(), "\n")
	caret := strings.IndexRune(lines[2], '^')
	require.Equal(t, "kez", string([]rune(lines[1])[caret:caret+3]), "the caret is below the key")
}

// FuzzDecode checks that decoding never panics and that errors lie within the file.
func FuzzDecode(f *testing.F) {
	f.Add("name: a\ncpus: 2\ndisks: [{file: b}]\n")
	f.Add("a: &a {b: *a}\nname: |\n  x\r\n\u2028")
	f.Fuzz(func(t *testing.T, text string) {
		var m machine
		_, err := Decode("f", []byte(text), &m)
		var faults Faults
		require.True(t, err == nil || errors.As(err, &faults), "%v", err)
		lines := splitLines([]byte(strings.TrimPrefix(text, "\uFEFF")))
		for _, fault := range faults {
			require.LessOrEqual(t, 1, fault.Line)
			require.LessOrEqual(t, fault.Line, len(lines))
			require.LessOrEqual(t, 1, fault.Column)
			require.LessOrEqual(t, fault.Column, 1+len([]rune(lines[fault.Line-1])))
			require.NotEmpty(t, fault.Message)
			require.NotEmpty(t, fault.Excerpt())
		}
	})
}
