package yamlfile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// Inserting an item follows the file's style, and removing it restores the text.
func TestItemsKeepTheRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, before string
		at           int
		after        string
	}{
		{
			"vm drives", "vm:\n  drives:\n  - file: a # first\n    # of a\n\n  # about the rest\n  name: x\n", 1,
			"vm:\n  drives:\n  - file: a # first\n    # of a\n  - file: new\n    size: 1 GiB\n\n  # about the rest\n  name: x\n",
		},
		{
			"vm drives", "vm:\n    drives:\n        # about a\n        -   file: a\n        # about n\n        -   nbd: {host: h}\n", 1,
			"vm:\n    drives:\n        # about a\n        -   file: a\n        -   file: new\n            size: 1 GiB\n" +
				"        # about n\n        -   nbd: {host: h}\n",
		},
		{
			"vm drives", "vm:\n  drives: [] # none\n  name: x\n", 0,
			"vm:\n  drives: # none\n  - file: new\n    size: 1 GiB\n  name: x\n",
		},
		{"vm drives", "vm: {drives: [], name: x}\n", 0, "vm: {drives: [{file: new, size: 1 GiB}], name: x}\n"},
		{
			"vm drives", "vm:\n  drives: [{file: '[a]'}, {file: b}] # two\n", 2,
			"vm:\n  drives: [{file: '[a]'}, {file: b}, {file: new, size: 1 GiB}] # two\n",
		},
		{
			"vm drives", "vm:\n  drives: [{file: \"a]\"}, {file: b}]\n", 1,
			"vm:\n  drives: [{file: \"a]\"}, {file: new, size: 1 GiB}, {file: b}]\n",
		},
		{
			"vm drives", "vm:\n  drives: [\n    {file: a}, # ]\n    {file: b}, # last\n  ]\n", 2,
			"vm:\n  drives: [\n    {file: a}, # ]\n    {file: b}, # last\n    {file: new, size: 1 GiB},\n  ]\n",
		},
		{
			"vm drives", "vm:\r\n  drives:\r\n  - file: a\r\n  name: x\r\n", 0,
			"vm:\r\n  drives:\r\n  - file: new\r\n    size: 1 GiB\r\n  - file: a\r\n  name: x\r\n",
		},
		{
			"vm list 0", "vm:\n  list:\n  -\n    - a\n  - [b]\n", 0,
			"vm:\n  list:\n  -\n    - file: new\n      size: 1 GiB\n    - a\n  - [b]\n",
		},
	} {
		after, err := InsertItem([]byte(c.before), "file: new\nsize: 1 GiB\n", c.at, strings.Fields(c.path)...)
		require.NoError(t, err, c.before)
		require.Equal(t, c.after, string(after))
		before, err := RemoveItem(after, c.at, strings.Fields(c.path)...)
		require.NoError(t, err, "%s", after)
		require.Equal(t, c.before, string(before))
	}
}

// A missing list is created in the right place, with the indentation of the other lists.
func TestItemsOfNoList(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{
			"vm:\n  name: x\n\n  # of the net\n  network:\n  - type: user\n\n# end\nlast: 1\n",
			"vm:\n  name: x\n\n  # of the net\n  network:\n  - type: user\n  drives:\n  - new\n\n# end\nlast: 1\n",
		},
		{"vm:\n    network:\n      - user", "vm:\n    network:\n      - user\n    drives:\n      - new\n"},
		{"vm:\n  name: x # text\n  note: |\n    # no comment\n", "vm:\n  name: x # text\n  note: |\n    # no comment\n" +
			"  drives:\n  - new\n"},
		{"vm: {name: x}\n", "vm: {name: x, drives: [new]}\n"},
		{"vm:\n  drives: # later\n  # - file: a\n  name: x\n", "vm:\n  drives: # later\n  - new\n  # - file: a\n  name: x\n"},
		{"vm:\n  drives: ~\n", "vm:\n  drives:\n  - new\n"},
		{"a: {vm: {}}\nvm: {}\n", "a: {vm: {}}\nvm: {drives: [new]}\n"},
	} {
		got, err := InsertItem([]byte(c[0]), "new", 0, "vm", "drives")
		require.NoError(t, err, c[0])
		require.Equal(t, c[1], string(got))
	}
}

func TestItemsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, path, want string }{
		{"d: &x [a]\ne: *x\n", "d", "d, line 1, may be what other places refer to, as &x; write it out in each"},
		{"d: &x [a]\ne: *x\n", "e", "e, line 2, refers to another place, *x; write it out"},
		{"b: &x {d: [a]}\nvm:\n  <<: *x\n", "vm d", "vm.d may be in what line 3 includes by <<; write it out there"},
		{"d: {a: 1}\n", "d", "d, line 1, is a mapping, not a list"},
		{"d: text\n", "d", "d, line 1, is the text \"text\", not a list"},
		{"a: 1\n", "vm d", "there is no vm in the file"},
		{"a: [\n", "a", "read YAML"},
		{"d: [a]\n", "d", "d has 1 items, "},
		{"d: !!seq []\n", "d", "d has 0 items, "},
		{"d:\n  [\n  ]\n", "d", "d has 0 items, "},
	} {
		_, err := InsertItem([]byte(c.text), "new", 7, strings.Fields(c.path)...)
		require.ErrorContains(t, err, c.want, c.text)
		_, err = RemoveItem([]byte(c.text), 7, strings.Fields(c.path)...)
		require.Error(t, err, c.text)
	}
	got, err := InsertItem([]byte("d:\n- a\n"), "x: |\n  b\n\n  c\n", 1, "d")
	require.NoError(t, err)
	require.Equal(t, "d:\n- a\n- x: |\n    b\n\n    c\n", string(got), "an empty line stays empty")
	_, err = RemoveItem([]byte("d:\n- &x a\n- b\ne: *x\n"), 0, "d")
	require.ErrorContains(t, err, "an item of d can't be removed, because another place refers to it")
	_, err = RemoveItem([]byte("- - a\n"), 0, "0")
	require.ErrorContains(t, err, "0, line 1, is written in a way that can't be changed in place; change it in an editor")
}

// The pieces of generated files: list items, lines above an item, and files with a list.
var (
	blockItems = []string{
		"file: a\n", "a # comment\n", "file: a\n# low\n  # high\nsize: 1\n", "'a''b'\n",
		"|\n  text\n  # text\n", "- a\n- b\n",
		"{a: [1, 2], b: ']'}\n", "# first\nfile: a\n\n\nsize: 2\n", "\"a\\\"]\"\n", "? k\n: v\n", "ä: ö # ü\n",
	}
	flowItems = []string{"a", "{b: 1}", "[c, ']']", "\"d\\\"}\"", "e f", "'it''s'", "ü", "!!str g", "h: 1"}
	aboveItem = []string{"", "", "\n", "# comment\n", "\n# about\n# it\n"}
)

// blockList returns a block list with some items in a random layout.
func blockList(r *rand.Rand, items int) (text string) {
	indent, offset := strings.Repeat(" ", r.IntN(4)), 2+r.IntN(3)
	for range items {
		margin := "\n" + indent + strings.Repeat(" ", offset)
		item := strings.TrimSuffix(blockItems[r.IntN(len(blockItems))], "\n")
		item = indent + "-" + strings.Repeat(" ", offset-1) + strings.ReplaceAll(item, "\n", margin) + "\n"
		text += strings.ReplaceAll(aboveItem[r.IntN(len(aboveItem))], "#", indent+"#") + item
	}
	return text
}

// flowList returns a list in brackets.
func flowList(r *rand.Rand, items int) string {
	open, between, shut := "[", ", ", "]"
	switch r.IntN(4) {
	case 0:
		open, between, shut = "[\n      ", ",  # c ]\n      ", "\n  ]"
	case 1:
		shut = ", ]"
	case 2:
		between = ",\n   "
	}
	var list []string
	for range items {
		list = append(list, flowItems[r.IntN(len(flowItems))])
	}
	if list == nil {
		shut = "]"
	}
	return open + strings.Join(list, between) + shut
}

func document(r *rand.Rand) string {
	items := r.IntN(4)
	value := " " + flowList(r, items)
	switch {
	case items > 0 && r.IntN(3) > 0:
		value = aboveItem[r.IntN(3)] + "\n" + strings.TrimSuffix(blockList(r, items), "\n")
		value = strings.TrimPrefix(value, "\n") // it begins below the key
		value = "\n" + strings.ReplaceAll("\n"+value, "\n", "\n  ")[1:]
	case items == 0 && r.IntN(2) == 0:
		value = []string{"", " ~", " # none", " null # none"}[r.IntN(4)]
	}
	text := "# top\nvm:\n  name: x # name\n  d:" + value + "\n"
	text += []string{"", "  # end\n", "\n  e: [1]\n", "f: |\n  x\n"}[r.IntN(4)]
	if r.IntN(4) == 0 {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if r.IntN(4) == 0 {
		text = strings.TrimSuffix(text, "\n")
	}
	return text
}

// In files of all layouts only the list changes, and few changes are refused.
func TestItemsInAllLayouts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	const files = 1000
	refused := 0
	for range files {
		text := document(r)
		var before struct{ VM struct{ D []any } }
		if yaml.Unmarshal([]byte(text), &before) != nil {
			continue // these pieces don't fit together
		}
		at := r.IntN(len(before.VM.D) + 1)
		after, err := InsertItem([]byte(text), "file: new\nsize: 1\n", at, "vm", "d")
		if err != nil {
			refused++
			continue
		}
		requireItems(t, text, string(after), slices.Insert(slices.Clone(before.VM.D), at, any(map[string]any{
			"file": "new", "size": 1,
		})))
		if at == len(before.VM.D) {
			at = max(0, at-1)
		}
		if len(before.VM.D) == 0 {
			continue
		}
		if after, err = RemoveItem([]byte(text), at, "vm", "d"); err != nil {
			refused++
			continue
		}
		requireItems(t, text, string(after), slices.Delete(slices.Clone(before.VM.D), at, at+1))
	}
	require.Less(t, refused, files/100)
}

// requireItems requires that a text contains a list and otherwise the same lines as before. The lines of one item may
// differ, and one more line, where a comma is needed or the list becomes empty.
func requireItems(t *testing.T, before, after string, want []any) {
	t.Helper()
	var got struct{ VM struct{ D []any } }
	require.NoError(t, yaml.Unmarshal([]byte(after), &got), "%s", after)
	require.Equal(t, fmt.Sprint(want), fmt.Sprint(got.VM.D), "%s\n->\n%s", before, after)
	lines := func(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
	a, b := lines(before), lines(after)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && strings.TrimRight(a[len(a)-1], "\r") == strings.TrimRight(b[len(b)-1], "\r") {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	least, most := a, b
	if len(b) < len(a) {
		least, most = b, a
	}
	require.LessOrEqual(t, len(least), 8, "%s\n->\n%s", before, after)
	changed := 0
	for _, line := range least {
		if !slices.Contains(most, line) {
			changed++
		}
	}
	require.LessOrEqual(t, changed, 1, "%s\n->\n%s", before, after)
}

// FuzzItems checks for any file that the list is as requested or the change is refused.
func FuzzItems(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		f.Add(document(r), "file: new\nsize: 1\n", r.IntN(4))
	}
	f.Add("vm:\n- &a d: [1]\n- *a\n", "x", 1)
	f.Fuzz(func(t *testing.T, text, value string, at int) {
		tree, err := parseTree([]byte(text))
		if err != nil {
			return
		}
		before := descendTo(tree, []string{"vm", "d"})
		if after, err := InsertItem([]byte(text), value, at, "vm", "d"); err == nil {
			made, err := parseTree([]byte(value))
			require.NoError(t, err)
			now, err := parseTree(after)
			require.NoError(t, err)
			var want []*yaml.Node
			if before != nil {
				want = before.Content
			}
			got := descendTo(now, []string{"vm", "d"}).Content
			want = slices.Insert(slices.Clone(want), at, made)
			require.True(t, slices.EqualFunc(want, got, sameTree), "%q", after)
		}
		if after, err := RemoveItem([]byte(text), at, "vm", "d"); err == nil {
			now, err := parseTree(after)
			require.NoError(t, err)
			got := descendTo(now, []string{"vm", "d"}).Content
			want := slices.Delete(slices.Clone(before.Content), at, at+1)
			require.True(t, slices.EqualFunc(want, got, sameTree), "%q", after)
		}
	})
}
