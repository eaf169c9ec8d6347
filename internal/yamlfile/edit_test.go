package yamlfile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const edited = `# of the office
"/Runner":
  vm:   # the machine
    name: web
    maximumCpus: 4 # of eight
    maximumRam: "8 GiB"
    currentRam: &ram 'a''b'
    other: *ram

    drives:
      - type: ide-cd
        file: a.iso
      - {type: raw, file: b.img}
      - size: 1
`

// An edit replaces a value or inserts its key, and changes only that.
func TestEditKeepsTheRest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, value, old, want string }{
		{"/Runner vm maximumCpus", "2", "maximumCpus: 4 #", "maximumCpus: 2 #"},
		{"/Runner vm maximumRam", "1536 MiB", `maximumRam: "8 GiB"`, "maximumRam: 1536 MiB"},
		{"/Runner vm currentCpus", "3", "    name: web\n", "    currentCpus: 3\n    name: web\n"},
		{"/Runner vm drives 0 file", `""`, "file: a.iso", `file: ""`},
		{"/Runner vm drives 1 file", "c.img", "file: b.img", "file: c.img"},
		{"/Runner vm drives 2 file", "d.img", "      - size: 1\n", "      - size: 1\n        file: d.img\n"},
		{"/Runner vmType", "cloud", "  vm:   #", "  vmType: cloud\n  vm:   #"},
	} {
		require.Contains(t, edited, test.old)
		got, err := Edit([]byte(edited), test.value, strings.Fields(test.path)...)
		require.NoError(t, err, test.path)
		require.Equal(t, strings.Replace(edited, test.old, test.want, 1), string(got), test.path)
	}
}

// A value that can't be changed in place is rewritten with its comments.
func TestEditWritesAnew(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, value, want string }{
		{"/Runner vm other", "x", "other: x"},
		{"/Runner cloudInit userData", "{}", "cloudInit:\n    userData: {}"},
		{"/Runner vm drives 1 size", "5", "{type: raw, file: b.img, size: 5}"},
		{"/Runner vm drives", "[]", "drives: []"},
	} {
		got, err := Edit([]byte(edited), test.value, strings.Fields(test.path)...)
		require.NoError(t, err, test.path)
		require.Contains(t, string(got), test.want)
		require.Contains(t, string(got), "# of eight")
		require.Contains(t, string(got), "# of the office")
	}
}

func TestEditRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, path, value, want string }{
		{"a: [1", "a", "2", "read YAML"},
		{"a: 1", "a", "[", "read YAML"},
		{"", "a", "2", "read YAML"},
		{"a: [1]", "a 7", "2", "there is no a.7 in the file"},
		{"a: x", "a b", "2", "there is no a.b in the file"},
		{edited, "/Runner vm currentRam", "1", "another place refers to it"},
	} {
		_, err := Edit([]byte(test.text), test.value, strings.Fields(test.path)...)
		require.ErrorContains(t, err, test.want)
	}
}

func TestHas(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/Runner vm name": true, "/Runner vm drives 1 file": true, "/Runner vm drives 7": false,
		"/Runner cloudInit": false,
		"/Runner vm name x": false,
	} {
		has, err := Has([]byte(edited), strings.Fields(path)...)
		require.NoError(t, err)
		require.Equal(t, want, has, path)
	}
	_, err := Has([]byte("a: ["), "a")
	require.Error(t, err)
}

// FuzzEdit checks for any file that the result has the value and can be read.
func FuzzEdit(f *testing.F) {
	f.Add(edited, "/Runner vm maximumCpus", "2")
	f.Add("a: {b: |\n  text\n}", "a b", "'x'")
	f.Fuzz(func(t *testing.T, text, path, value string) {
		steps := strings.Fields(path)
		got, err := Edit([]byte(text), value, steps...)
		if err != nil {
			return
		}
		n, err := parseTree(got)
		require.NoError(t, err)
		wanted, err := parseTree([]byte(value))
		require.NoError(t, err)
		for _, step := range steps {
			if n = childOf(n, step); n == nil {
				t.Fatalf("no %s in %q", step, got)
			}
		}
		require.Equal(t, wanted.Value, n.Value, "%q", got)
	})
}

func TestValue(t *testing.T) {
	t.Parallel()
	const text = "a: &x {b: [1, two]}\nc: *x\nd:\n  - *x\n"
	for path, want := range map[string]string{"a b 1": "two\n", "c b": "[1, two]\n", "a b": "[1, two]\n"} {
		value, there, err := Value([]byte(text), strings.Fields(path)...)
		require.NoError(t, err)
		require.True(t, there)
		require.Equal(t, want, value, path)
	}
	_, there, err := Value([]byte(text), "a", "c", "d")
	require.NoError(t, err)
	require.False(t, there)
	_, there, err = Value([]byte(text), "d")
	require.Error(t, err, "what it refers to is elsewhere")
	require.True(t, there)
	_, _, err = Value([]byte("a: ["), "a")
	require.Error(t, err)
}

// A multi-line value is replaced and restored without changing the layout of the rest.
func TestEditBlocks(t *testing.T) {
	t.Parallel()
	const text = "top:  # layout\n    a:\n        x: 1 # one\n\n        y: |\n          two\n           lines\n\n" +
		"    'b': {flow: 2}   # two\n    c:\n    - 3\n    d: >\n      folded\n      text\nlast: [\n  1]\n"
	for _, c := range []struct{ path, value, old, new string }{
		{"top a", "short", "a:\n        x: 1 # one\n\n        y: |\n          two\n           lines\n", "a: short\n"},
		{"top d", "p: 1\nq:\n  - r\n", "d: >\n      folded\n      text\n", "d:\n      p: 1\n      q:\n        - r\n"},
		{"top b", "short", "'b': {flow: 2}   # two\n", "'b': short # two\n"},
		{"top b", "|\n  x\n  y\n", "'b': {flow: 2}   # two\n", "'b': |\n        x\n        y\n"},
		{"last", "none", "[\n  1]\n", "none\n"},
	} {
		edited, err := Edit([]byte(text), c.value, strings.Fields(c.path)...)
		require.NoError(t, err)
		require.Equal(t, strings.Replace(text, c.old, c.new, 1), string(edited), c.path)
		was, _, err := Value([]byte(text), strings.Fields(c.path)...)
		require.NoError(t, err)
		back, err := Edit(edited, was, strings.Fields(c.path)...)
		require.NoError(t, err)
		requireSame(t, text, string(back))
	}
	edited, err := Edit([]byte(text), "4", "top", "c")
	require.NoError(t, err, "a list that is not indented is written anew")
	requireSame(t, strings.Replace(text, "c:\n    - 3", "c: 4", 1), string(edited))
}

// requireSame requires that two texts have the same values.
func requireSame(t *testing.T, want, got string) {
	t.Helper()
	a, err := parseTree([]byte(want))
	require.NoError(t, err)
	b, err := parseTree([]byte(got))
	require.NoError(t, err)
	require.True(t, sameTree(a, b), "%s", got)
}
