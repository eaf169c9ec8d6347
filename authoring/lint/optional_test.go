package lint_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/lint"
	"vmop/vmtypes"
)

// untested returns the findings of the rule untested-section in the body of launch.
func untested(source string) []string {
	list := []string{}
	read := func(name string) (string, error) {
		if name == "checks.star" {
			return "def need_display(vm):\n    if not vm.display:\n        fail(\"x\")\n\n" +
				"def ignore(vm):\n    return vm.name\n", nil
		}
		return vmtypes.StockModule(name)
	}
	for _, f := range lint.File("x.star", source, lint.Surroundings{Read: read, Stock: true}) {
		if f.Rule == "untested-section" {
			list = append(list, strings.TrimPrefix(f.String(), "x.star:"))
		}
	}
	return list
}

// A field of a section that may be absent is found, wherever the path to it leads.
func TestUntestedSections(t *testing.T) {
	t.Parallel()
	const (
		display = "untested-section: vm.display is None if the VM has no display; test it first"
		spice   = "untested-section: vm.display.spice is None if the display has no spice; test it first"
		lease   = "untested-section: vm.network[].lease is None if the network has no lease; test it first"
	)
	for name, c := range map[string]struct{ body, want string }{
		"field":         {"x = vm.display.outputs", "2:9: " + display},
		"deeper":        {"x = vm.display.spice.port if vm.display else 0", "2:9: " + spice},
		"both":          {"x = vm.display.spice.port", "2:9: " + display},
		"variable":      {"shown = vm.display\n    x = shown.outputs", "3:9: " + display},
		"wrong branch":  {"x = 1 if vm.display else vm.display.outputs", "2:30: " + display},
		"wrong operand": {"x = vm.display or vm.display.outputs", "2:23: " + display},
		"other test":    {"x = vm.display.outputs if vm.kernel else 0", "2:9: " + display},
		"an option":     {"x = vm.display.outputs if vm.options.screen else 0", "2:9: " + display},
		"loop":          {"for n in vm.network:\n        x = n.lease.address", "3:13: " + lease},
		"index":         {"x = vm.network[0].lease.address", "2:9: " + lease},
		"enumerated":    {"x = [n.lease.address for i, n in enumerate(vm.network)]", "2:10: " + lease},
		"after branch":  {"if vm.display:\n        x = 1\n    y = vm.display.outputs", "4:9: " + display},
		"after the machine": {
			"machine = standard(vm, host)\n    x = vm.display.outputs", "3:9: " + display,
		},
		"after conditions": {
			"if machine(vm) == 1:\n        x = 1\n    y = 1 if machine(vm) else 2\n    z = vm.display.outputs\n\n" +
				"def machine(vm):\n    return vm.display != None", "5:9: " + display,
		},
		"after a function's own test": {
			"machine(vm)\n    z = vm.display.outputs\n\ndef machine(vm):\n    if not vm.display:\n        return 1\n" +
				"    return vm.display.outputs", "3:9: " + display,
		},
		"function": {
			"return screen(vm)\n\ndef screen(machine):\n    return machine.display.outputs", "5:12: " + display,
		},
		"keyword": {
			"return screen(shown = vm.display)\n\ndef screen(shown):\n    return shown.outputs", "5:12: " + display,
		},
		"loaded": {"ignore(vm)\n    x = vm.display.outputs", "3:9: " + display},
		"argument": {
			"return part(options = [option(\"-vnc\", vm.display.spice.port if vm.display and vm.display.vnc else None)])",
			"2:43: " + spice,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := "def launch(vm, host):\n    " + c.body + "\n"
			source = "load(\"checks.star\", \"ignore\"); load(\"@vmtypes//standard.star\", standard = \"launch\")\n" + source
			line, rest, _ := strings.Cut(c.want, ":")
			number, err := strconv.Atoi(line)
			require.NoError(t, err)
			require.Equal(t, []string{strconv.Itoa(number+1) + ":" + rest}, untested(source))
		})
	}
}

// A section that is tested, or may be tested, has no finding.
func TestTestedSections(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"condition":      "if vm.display:\n        x = vm.display.outputs",
		"compared":       "if vm.display != None and vm.display.spice != None:\n        x = vm.display.spice.port",
		"early return":   "if vm.display == None or not vm.display.vnc:\n        return part()\n    x = vm.display.vnc.port",
		"early fail":     "if not vm.display:\n        fail(\"x\")\n    x = vm.display.outputs",
		"early refusal":  "if not vm.display:\n        refuse(vm.display, \"x\")\n    x = vm.display.outputs",
		"value":          "x = vm.display and vm.display.spice and vm.display.spice.port",
		"alternative":    "x = not vm.display or vm.display.outputs",
		"variable":       "shown = vm.display\n    x = shown.outputs if shown else 0",
		"bool":           "has = vm.display != None\n    x = vm.display.outputs if has else 0",
		"two steps":      "spice = vm.display.spice if vm.display else None\n    x = spice.port if spice else 0",
		"with default":   "shown = vm.display or struct(outputs = 1)\n    x = shown.outputs",
		"comprehension":  "x = [n.lease.address for n in vm.network if n.lease]",
		"any":            "if any([n.lease for n in vm.network]):\n        x = vm.network[0].lease.address",
		"loop with fail": "for n in vm.network:\n        if not n.lease:\n            fail(\"x\")\n    x = vm.network[0].lease.address",
		"loop, continue": "for n in vm.network:\n        if not n.lease:\n            continue\n        x = n.lease.address",
		"own function":   "if has(vm):\n        x = vm.display.outputs\n\ndef has(vm):\n    return vm.display != None",
		"own check": "check(vm)\n    x = vm.display.outputs\n\ndef check(vm):\n    if not vm.display:\n" +
			"        fail(\"x\")",
		"tested caller": "return screen(vm) if vm.display else None\n\ndef screen(vm):\n    return vm.display.outputs",
		"never called":  "return part()\n\ndef screen(vm):\n    return vm.display.outputs",
		"loaded check":  "need_display(vm)\n    x = vm.display.outputs",
		"unknown":       "need_more(vm)\n    x = vm.display.outputs",
		"method":        "host.check(vm)\n    x = vm.display.outputs",
		"getattr":       "if getattr(vm.display, \"spice\", None):\n        x = vm.display.spice.port",
		"same condition": "if vm.options.a:\n        if not vm.display:\n            fail(\"x\")\n" +
			"    x = vm.display.outputs if vm.options.a else 0",
		"same condition, return": "if vm.options.a:\n        if not vm.display:\n            return part()\n" +
			"    x = vm.display.outputs if vm.options.a else 0",
		"joined condition": "if vm.options.a and not vm.display:\n        fail(\"x\")\n" +
			"    x = vm.display.outputs if vm.options.a else 0",
		"joined condition, return": "if vm.options.a and not vm.display:\n        return part()\n" +
			"    x = vm.display.outputs if vm.options.a else 0",
		"same condition, function": "check(vm)\n    x = vm.display.outputs if vm.options.a else 0\n\n" +
			"def check(vm):\n    if not vm.options.a:\n        return\n    if vm.display == None:\n        fail(\"x\")",
		"function of a function": "check(ok, vm)\n    x = vm.display.outputs\n\ndef check(f, vm):\n    f(vm)\n\n" +
			"def ok(vm):\n    if not vm.display:\n        fail(\"x\")",
		"lambda":          "x = lambda: vm.display.outputs",
		"always there":    "x = vm.serialConsole.enabled",
		"other variable":  "vm = struct(display = struct(outputs = 1))\n    x = vm.display.outputs",
		"recursive calls": "return a(vm)\n\n" + calls(12) + "\n\ndef z(vm):\n    return vm.display",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, untested("load(\"checks.star\", \"need_display\")\nload(\"absent.star\", \"need_more\")\n\n"+
				"def launch(vm, host):\n    "+body+"\n"))
		})
	}
}

// calls returns functions that call each other ten times each, at a depth.
func calls(depth int) string {
	var b strings.Builder
	for i := range depth {
		next := string(rune('a' + i + 1))
		if i == depth-1 {
			next = "z"
		}
		b.WriteString("def " + string(rune('a'+i)) + "(vm):\n    return [" + strings.Repeat(next+"(vm), ", 10) +
			"]\n\n")
	}
	return b.String()
}

// The stock types, the examples and the types in tests have no findings.
func TestTypesTestSections(t *testing.T) {
	t.Parallel()
	folders := []string{"../../vmtypes/*.star", "../../examples/vmtypes/*.star", "../../vmtypes/testdata/*/*.star"}
	count := 0
	for _, pattern := range folders {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range paths {
			source, err := os.ReadFile(path)
			require.NoError(t, err)
			count++
			require.Empty(t, untested(string(source)), path)
		}
	}
	require.Greater(t, count, 20)
}

// A module that types load has findings for what any type leads to.
func TestUntestedSectionsOfLibraries(t *testing.T) {
	t.Parallel()
	folder := lint.Folder{Around: lint.Surroundings{Read: vmtypes.StockModule, Stock: true}, Modules: map[string]string{
		"screen.star": "def port(vm):\n    return vm.display.spice.port\n\ndef outputs(vm):\n    return vm.display.outputs" +
			"  # lint: disable=untested-section it is always called with a display\n",
		"tested.star": "load(\"screen.star\", \"port\")\n\ndef launch(vm, host):\n" +
			"    return port(vm) if vm.display and vm.display.spice else None\n",
		"untested.star": "load(\"screen.star\", \"outputs\", \"port\")\n\ndef launch(vm, host):\n" +
			"    return [outputs(vm), port(vm) if vm.display else None]\n",
	}}
	list := []string{}
	for _, f := range folder.Findings() {
		if f.Rule == "untested-section" {
			list = append(list, f.String())
		}
	}
	require.Equal(t, []string{
		"screen.star:2:12: untested-section: vm.display.spice is None if the display has no spice; test it first",
	}, list)
}
