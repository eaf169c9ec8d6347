package lint_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/lint"
)

// some is a QEMU with few options.
type some struct{}

func (some) Name() string    { return "QEMU 1.0" }
func (some) Flags() []string { return []string{"-machine", "-device", "-name"} }
func (some) Values(flag string) []string {
	if flag == "-device" {
		return []string{"virtio-rng-pci"}
	}
	return nil
}

func (some) Properties(flag, _ string) []string {
	if flag == "-device" {
		return []string{"id", "max-bytes"}
	}
	return nil
}

// names returns the rules of findings.
func names(findings []lint.Finding) []string {
	list := []string{}
	for _, f := range findings {
		list = append(list, f.Rule)
	}
	return slices.Compact(list)
}

// A QEMU without an option that a function of the library creates has a finding at the call.
func TestOptionOfTheLibraryThatQEMULacks(t *testing.T) {
	t.Parallel()
	findings := lint.File("a.star", "\"\"\"A.\"\"\"\n\nload(\"@vmtypes//lib/qemu.star\", \"chardev\")\n\n"+
		"X = chardev(\"c\", \"null\")\n", lint.Surroundings{QEMU: some{}})
	require.Len(t, findings, 1)
	require.Equal(t, "a.star:5:5: qemu-option: QEMU 1.0 has no option -chardev", findings[0].String())
}

// Each rule has findings in its bad example, and none in its good example.
func TestEachRule(t *testing.T) {
	t.Parallel()
	around := lint.Surroundings{QEMU: some{}}
	for _, r := range lint.Rules() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, r.Reason)
			if r.Bad == "" {
				return // examples of this rule need several modules
			}
			require.Contains(t, names(lint.File("x.star", r.Bad, around)), r.Name)
			require.NotContains(t, names(lint.File("x.star", r.Good, around)), r.Name)
			if r.Name == "unknown-rule" {
				return
			}
			for _, f := range lint.File("x.star", r.Bad, around) {
				if f.Rule != r.Name {
					continue
				}
				require.NotEmpty(t, f.Message)
				require.Positive(t, f.Line)
				require.Positive(t, f.Column)
				require.True(t, f.EndLine > f.Line || f.EndColumn > f.Column, "%v has a length", f)
			}
		})
	}
}

func found(t *testing.T, source string) []string {
	t.Helper()
	list := []string{}
	for _, f := range lint.File("x.star", source, lint.Surroundings{QEMU: some{}, Stock: true}) {
		list = append(list, f.String())
	}
	return list
}

func TestMissingDocstrings(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"x.star:3:5: function-docstring: launch has no docstring",
		"x.star:4:5: function-docstring: f has no docstring; if it is private to this file, call it _f",
	}, found(t, "\"\"\"X.\"\"\"\n\ndef launch(vm, host): return part()\ndef f(): return _g()\ndef _g(): return 1\n"))
}

// A comment only disables rules for the statement below it or in its line.
func TestCommentsDisableRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"beside": {
			"\"\"\"X.\"\"\"\n\nl = 1  # lint: disable=confusing-name\nO = 2\n",
			[]string{"x.star:4:1: confusing-name: the name O is easily confused with a digit"},
		},
		"above": {
			"\"\"\"X.\"\"\"\n\n# lint: disable=confusing-name\nl = 1\nO = 2\n",
			[]string{"x.star:5:1: confusing-name: the name O is easily confused with a digit"},
		},
		"above with a reason": {"\"\"\"X.\"\"\"\n\n# lint: disable=confusing-name it is short\n# Another " +
			"comment.\nl = 1\n", []string{}},
		"of buildifier": {"\"\"\"X.\"\"\"\n\n# buildifier: disable=confusing-name\nl = 1\n", []string{}},
		"several":       {"# lint: disable=module-docstring,confusing-name\nl = 1\n", []string{}},
		"a whole function": {"\"\"\"X.\"\"\"\n\n# lint: disable=confusing-name,function-docstring\ndef f():\n    " +
			"l = 1\n    return l\n", []string{}},
		"within a function": {
			"\"\"\"X.\"\"\"\n\ndef f():\n    \"\"\"F.\"\"\"\n    l = 1  # lint: " +
				"disable=confusing-name\n    I = l\n    return I\n",
			[]string{"x.star:6:5: confusing-name: the name I is easily confused with a digit"},
		},
		"another rule": {
			"\"\"\"X.\"\"\"\n\nl = 1  # lint: disable=print\n",
			[]string{"x.star:3:1: confusing-name: the name l is easily confused with a digit"},
		},
		"no such rule": {
			"\"\"\"X.\"\"\"\n\nx = 1  # lint: disable=confusing-names\n",
			[]string{"x.star:3:8: unknown-rule: there is no rule confusing-names (did you mean confusing-name?)"},
		},
		"no comment": {
			"\"\"\"X.\"\"\"\n\nl = \"# lint: disable=confusing-name\"\n",
			[]string{"x.star:3:1: confusing-name: the name l is easily confused with a digit"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, found(t, c.source))
		})
	}
}

// Modules that cannot be parsed, and empty modules, have no findings.
func TestBrokenModules(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"def f(:\n", "x = y\n", "", "\x00"} {
		require.Empty(t, found(t, source), "%q", source)
	}
}

// Calls with computed arguments have no findings; Plans checks them.
func TestComputedOptions(t *testing.T) {
	t.Parallel()
	require.Empty(t, found(t, `"""X."""

load("@vmtypes//lib/qemu.star", "device", hardware = "device")

def f(driver, flag, key):
    """F."""
    return [
        option(flag, driver, {"max_bytes": 1}),
        device(driver, {"max_bytes": 1}),
        device("virtio-rng-pci", {key: 1, "id": key} | {"max-bytes": 1}),
        hardware("virtio-rng-pci", {"max-bytes": 1}),
    ]
`))
	require.Equal(t, []string{
		`x.star:3:61: qemu-property: -device virtio-rng-pci has no property max_bytes in QEMU 1.0 (did you mean ` +
			`max-bytes?)`,
	}, found(t, "\"\"\"X.\"\"\"\nload(\"@vmtypes//lib/qemu.star\", hardware = \"device\")\nx = "+
		"hardware(\"virtio-rng-pci\", {\"id\": \"a\"} | ({} if 1 else {\"max_bytes\": 1}))\n"))
}

// The rules follow options through the modules that define them.
func TestOptionsOfOtherModules(t *testing.T) {
	t.Parallel()
	read := func(name string) (string, error) {
		return map[string]string{
			"a.star": "load(\"b.star\", more = \"options\")\noptions = more | {\"first\": attr.string(default = " +
				"\"\")}\n",
			"b.star": "options = {\"second\": attr.string(default = \"\")}\ndef g(o):\n    return o.third\n",
		}[name], nil
	}
	findings := lint.File("x.star", `"""X."""
load("a.star", others = "options")
load("b.star", "g")

api_version = 1

options = others | {"third": attr.string(default = ""), "forth": attr.string(default = "")}

def launch(vm, host):
    """X."""
    return part(options = [g(vm.options), vm.options.first, vm.options.secnd, host])
`, lint.Surroundings{Read: read})
	list := []string{}
	for _, f := range findings {
		list = append(list, f.String())
	}
	require.Equal(t, []string{
		"x.star:7:57: unused-option: the option forth is declared but never read",
		"x.star:11:72: undeclared-option: the VM type declares no option secnd (did you mean second?); declare it " +
			"in options",
	}, list)
}
