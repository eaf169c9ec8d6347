package lint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/lint"
)

const repairedLaunch = "def launch(vm, host):\n    \"\"\"Launches.\"\"\"\n    return part(executable = " +
	"host.find([vm.name]))\n"

// repair applies repairs while there are any, and returns the text and the remaining findings.
func repair(t *testing.T, source string, around lint.Surroundings) (string, []lint.Finding) {
	t.Helper()
	for range 5 {
		var repairs []*lint.Repair
		findings := lint.File("a.star", source, around)
		for _, f := range findings {
			if f.Repair != nil {
				repairs = append(repairs, f.Repair)
			}
		}
		text, fixed := lint.Apply(source, repairs)
		if fixed == 0 {
			return source, findings
		}
		source = text
	}
	t.Fatal("repairs don't end")
	return "", nil
}

func TestRepairs(t *testing.T) {
	t.Parallel()
	const doc = "\"\"\"a: a type. 😀\"\"\"\n\n"
	for what, c := range map[string]struct{ source, want string }{
		"the version of the language, after the loads": {
			doc + "load(\"@vmtypes//lib/qemu.star\", \"device\")  # devices\n\nX = device(\"edu\")\n\n" + repairedLaunch,
			doc + "load(\"@vmtypes//lib/qemu.star\", \"device\")  # devices\n\napi_version = 1\n\n" +
				"X = device(\"edu\")\n\n" + repairedLaunch,
		},
		"the version of the language, without loads": {
			doc + repairedLaunch, doc + "api_version = 1\n\n" + repairedLaunch,
		},
		"a load in a line": {
			doc + "load(\"m.star\", \"one\", b = \"two\", c = \"three\")\n\nX = [b]\n",
			doc + "load(\"m.star\", b = \"two\")\n\nX = [b]\n",
		},
		"a load in several lines": {
			doc + "load(\n    \"m.star\",\n    \"one\",\n    \"two\",\n)\n\nX = [one]\n",
			doc + "load(\n    \"m.star\",\n    \"one\",\n)\n\nX = [one]\n",
		},
		"a whole load": {
			doc + "load(\"l.star\", \"x\")\nload(\"m.star\", \"one\", b = \"two\")\n\nX = [x]\n",
			doc + "load(\"l.star\", \"x\")\n\nX = [x]\n",
		},
		"the only load": {doc + "load(\"m.star\", \"one\")\n\nX = []\n", doc + "X = []\n"},
		"a misspelled option": {
			doc + "api_version = 1\n\noptions = {\"asset\": attr.string()}\n\ndef launch(vm, host):\n    \"\"\"Launches.\"\"\"\n" +
				"    return part(executable = host.find([\"😀\" + vm.options.aset, vm.options.asset]))\n",
			doc + "api_version = 1\n\noptions = {\"asset\": attr.string()}\n\ndef launch(vm, host):\n    \"\"\"Launches.\"\"\"\n" +
				"    return part(executable = host.find([\"😀\" + vm.options.asset, vm.options.asset]))\n",
		},
		"a doubled comma": {
			doc + "X = option(\"-name\", None, {\"guest\": \"a,,b\"})\n", doc + "X = option(\"-name\", None, {\"guest\": \"a,b\"})\n",
		},
		"a misspelled rule in a comment": {
			doc + "# lint: disable=confusing-name,shadwing why\nX = 1\n",
			doc + "# lint: disable=confusing-name,shadowing why\nX = 1\n",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			text, left := repair(t, c.source, lint.Surroundings{})
			require.Equal(t, c.want, text)
			require.Empty(t, left)
		})
	}
}

// Of overlapping repairs, the first one is applied. The same edit of two repairs is applied once.
func TestApply(t *testing.T) {
	t.Parallel()
	edit := func(from, to int, text string) *lint.Repair {
		return &lint.Repair{Edits: []lint.Edit{{Line: 1, Column: from, EndLine: 1, EndColumn: to, Text: text}}}
	}
	text, fixed := lint.Apply("abcdef\n",
		[]*lint.Repair{edit(2, 4, "X"), edit(3, 5, "Y"), edit(2, 4, "X"), edit(9, 9, "!")})
	require.Equal(t, "aXdef!\n", text)
	require.Equal(t, 3, fixed)
	text, _ = lint.Apply("a",
		[]*lint.Repair{{Edits: []lint.Edit{{Line: 5, Column: 1, EndLine: 9, EndColumn: 1, Text: "b"}}}})
	require.Equal(t, "ab", text)
}
