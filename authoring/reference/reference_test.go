package reference_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.starlark.net/starlark"

	"vmop/authoring/reference"
	"vmop/authoring/sample"
	"vmop/authoring/vmtypestest"
	"vmop/vmtypes"
)

// evaluators returns the predeclared values by name. Functions of modules have a name with a dot: hotplug.cpus.
func evaluators(values starlark.StringDict) map[string]starlark.Value {
	found := map[string]starlark.Value{}
	for name, value := range values {
		module, ok := value.(starlark.HasAttrs)
		if !ok {
			found[name] = value
			continue
		}
		for _, member := range module.AttrNames() {
			found[name+"."+member], _ = module.Attr(member) // the module itself returned this name
		}
	}
	return found
}

func names(functions []reference.Function) []string {
	var list []string
	for _, f := range functions {
		list = append(list, f.Name)
	}
	slices.Sort(list)
	return list
}

func TestEveryBuiltinIsHere(t *testing.T) {
	t.Parallel()
	require.Equal(t, slices.Sorted(maps.Keys(evaluators(vmtypes.Predeclared()))), names(reference.Builtins()))
}

func TestStarlarksOwnFunctionsAreHere(t *testing.T) {
	t.Parallel()
	var known []string
	for name, value := range starlark.Universe {
		if _, ok := value.(*starlark.Builtin); ok {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	require.Equal(t, known, names(reference.Language()))
}

// The functions accept all documented parameters, require the mandatory parameters, and have no other parameters. The
// source shows what they unpack.
func TestParametersAreTheEvaluators(t *testing.T) {
	t.Parallel()
	values := evaluators(vmtypes.Predeclared())
	for _, f := range reference.Builtins() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			agree(t, f, values[f.Name])
		})
	}
}

// A test calls each assertion to check that the reference contains exactly its parameters.
func TestParametersOfAssertionsAreTheEvaluators(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, f := range reference.Testing() {
		if f.Name == "plan_of" || f.Name == "draw" {
			continue // they accept the vm section; the examples call them
		}
		fmt.Fprintf(&b, "    assert.fails(lambda: %s(*range(99)), \"at most %d\")\n", f.Name, len(f.Parameters))
		var given []string
		for _, p := range f.Parameters {
			given = append(given, p.Name+" = "+
				map[string]string{"Any": "1", "str": "'x'", "str | list[str]": "'x'", "Callable": "len"}[p.Type])
		}
		fmt.Fprintf(&b, "    assert.fails(lambda: %s(%s, zzz = 1), \"unexpected keyword argument .zzz\")\n", f.Name,
			strings.Join(given, ", "))
		for i, p := range f.Parameters {
			if others := slices.Delete(slices.Clone(given), i, i+1); p.Default == "" {
				fmt.Fprintf(&b, "    assert.fails(lambda: %s(%s), \"missing argument for %s\")\n", f.Name,
					strings.Join(others, ", "), p.Name)
			}
		}
	}
	runTests(t, "load(\""+reference.TestingModule+"\", \"assert\")\n\ndef test_parameters():\n"+b.String(), 1)
}

// runTests runs a test file with n tests.
func runTests(t *testing.T, module string, n int) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x_test.star"), []byte(module), 0o644))
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	defer library.Close()
	results := vmtypestest.TestFile(t.Context(), library, "x_test.star", nil)
	require.Len(t, results, n)
	for _, r := range results {
		require.Empty(t, r.Failures, r.Function)
	}
}

// agree calls a builtin with each of its keywords, and with an unknown keyword.
func agree(t *testing.T, f reference.Function, value starlark.Value) {
	t.Helper()
	call := func(keyword string) string {
		kwargs := []starlark.Tuple{{starlark.String(keyword), starlark.None}}
		_, err := starlark.Call(&starlark.Thread{}, value, nil, kwargs)
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if f.Name == "combine" || f.Name == "replace" || f.Name == "struct" {
		require.True(t, slices.ContainsFunc(f.Parameters, reference.Parameter.Rest), "takes any number")
	} else {
		require.Contains(t, call("nonsense"), "unexpected keyword argument")
		for _, p := range f.Parameters {
			require.NotContains(t, call(p.Name), "unexpected keyword argument")
		}
	}
	if f.Name == "combine" || f.Name == "struct" {
		return // they don't unpack arguments
	}
	if kind, is := strings.CutPrefix(f.Name, "attr."); is {
		require.Equal(t, vmtypes.AttrParameters(kind), spelled(f))
		return
	}
	require.Equal(t, unpacked(t, "../../vmtypes", f.Name), spelled(f))
}

// spelled returns the parameters in the notation of UnpackArgs, without the positional parameters of replace.
func spelled(f reference.Function) []string {
	var list []string
	for _, p := range f.Parameters {
		switch {
		case p.Rest() || f.Name == "replace" && !p.Keyword:
		case p.Default == "":
			list = append(list, p.Name)
		default:
			list = append(list, p.Name+"?")
		}
	}
	return list
}

// unpacked returns the words that the function of a builtin passes to UnpackArgs in the source of a package.
func unpacked(t *testing.T, dir, builtin string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var source strings.Builder
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source.Write(text)
		}
	}
	made := regexp.MustCompile(`NewBuiltin\("` + regexp.QuoteMeta(builtin) +
		`", (\w+)`).FindStringSubmatch(source.String())
	require.NotNil(t, made, "no NewBuiltin is %s", builtin)
	_, body, found := strings.Cut(source.String(), "\nfunc "+made[1]+"(")
	require.True(t, found, made[1])
	body, _, _ = strings.Cut(body, "\n}\n")
	_, arguments, found := strings.Cut(body, "UnpackArgs(b.Name(),")
	require.True(t, found, "%s doesn't unpack", made[1])
	arguments, _, _ = strings.Cut(arguments, ")")
	var list []string
	for _, word := range regexp.MustCompile(`"(\w+)(\??)\??"`).FindAllStringSubmatch(arguments, -1) {
		list = append(list, word[1]+word[2])
	}
	return list
}

// launch evaluates a type of one file.
func launch(t *testing.T, module string) error {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.star"), []byte(module), 0o644))
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	defer library.Close()
	loaded, err := library.Load(t.Context(), "x")
	require.NoError(t, err)
	vm, err := sample.ParseVM([]byte("display: {spice: {}, vnc: {}}\nkernel: {image: /vmlinuz}\ndrives: [{file: " +
		"/a.raw, limits: {iops: 1}}]\n" +
		"network: [{type: masquerade, ports: [{guest: 80, host: 8080}], allPorts: {keep: [1]}}, " +
		"{lease: {address: 10.66.10.14/24, nameservers: {addresses: [192.0.2.1], search: [a]}, " +
		"routes: [{to: 10.7.0.0/16, via: 10.66.10.1}]}}]\n"))
	require.NoError(t, err)
	facts := sample.HostFacts{
		Firmware: []vmtypes.FirmwareDescriptor{{Executable: "/fw"}},
		PCI:      []vmtypes.PCIDevice{{Address: "0000:01:00.0"}},

		Confidential: vmtypes.Confidential{SEV: &vmtypes.SEV{}},
	}
	_, err = loaded.Launch(t.Context(), vm, facts.Host())
	return err
}

// expressions maps the objects of the reference to expressions that return them.
func expressions() map[string]string {
	return map[string]string{
		"Option": `option("-x")`, "Part": "part()", "Process": `process("n", "/x", [])`, "Tap": `tap("t", "br0")`,
		"Listener": `listen("l", "/l")`,
		"Attr":     "attr.int()", "Access": `access("/a")`, "File": `copy_once("/a", "/b")`,
		"Rule": "hotplug.cpus(1)", "Host": "host",
		"Firmware": "host.firmware()[0]", "Node": "host.nodes[0]",
		"Processor": "host.processors[0]", "PCIDevice": `host.pci("0000:01:00.0")`, "SEV": "host.sev",
	}
}

func TestFieldsAreTheEvaluators(t *testing.T) {
	t.Parallel()
	for _, o := range reference.Objects() {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			want := []string{}
			for _, f := range o.Fields {
				want = append(want, f.Name)
			}
			want = append(want, names(o.Methods)...)
			slices.Sort(want)
			e := expressions()[o.Name]
			err := launch(t, "def launch(vm, host):\n    fail(type("+e+"), dir("+e+"))\n")
			require.ErrorContains(t, err, o.Word+" ["+strings.Join(quoted(want), ", ")+"]")
		})
	}
}

func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, word := range list {
		out[i] = `"` + word + `"`
	}
	return out
}

func TestFieldsOfVMAreTheEvaluators(t *testing.T) {
	t.Parallel()
	keys := reference.VM()
	require.Greater(t, len(keys), 50)
	for _, section := range []string{
		"vm", "vm.kernel", "vm.network[]", "vm.network[].ports[]", "vm.drives[]", "vm.drives[].limits",
		"vm.display", "vm.display.spice", "vm.display.vnc", "vm.serialConsole",
	} {
		var want []string
		for _, k := range reference.Below(section, keys) {
			want = append(want, k.Name())
			require.NotEmpty(t, k.Doc, k.Path)
		}
		slices.Sort(want)
		err := launch(t, "def launch(vm, host):\n    fail(dir("+strings.ReplaceAll(section, "[]", "[0]")+"))\n")
		require.ErrorContains(t, err, "["+strings.Join(quoted(want), ", ")+"]")
	}
}

// Each field has the type in the table.
func TestTypesOfVMAreTheEvaluators(t *testing.T) {
	t.Parallel()
	words := map[string]string{"str": "string", "int": "int", "bool": "bool", "Options": "vm.options"}
	for _, k := range reference.VM() {
		first, _, _ := strings.Cut(k.Type, " | ")
		first, list, _ := strings.Cut(first, "[")
		want := words[first]
		if list != "" {
			want = "tuple"
		}
		e := strings.ReplaceAll(k.Path, "[]", "[0]")
		for _, ofTap := range []string{"lease", "filter"} { // the first network has none
			e = strings.ReplaceAll(e, "vm.network[0]."+ofTap, "vm.network[1]."+ofTap)
		}
		if want == "" {
			want = strings.ReplaceAll(k.Path, "[]", "")
		}
		if none := strings.HasSuffix(k.Type, "None"); none {
			require.ErrorContains(t,
				launch(t, "def launch(vm, host):\n    fail(type("+e+") in [\"NoneType\", \""+want+"\"])\n"), "True",
				k.Path)
			continue
		}
		require.ErrorContains(t, launch(t, "def launch(vm, host):\n    fail(type("+e+"))\n"), want, k.Path)
	}
}

func TestExamplesWork(t *testing.T) {
	t.Parallel()
	const head = "load(\"@vmtypes//standard.star\", standard = \"launch\")\n\ndef launch(vm, host):\n"
	functions := slices.Concat(reference.Builtins(), reference.Language())
	for _, o := range reference.Objects() {
		functions = append(functions, o.Methods...)
	}
	for _, f := range functions {
		if f.Example == "" {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			body := "    " + strings.ReplaceAll(strings.TrimSpace(f.Example), "\n", "\n    ")
			require.NoError(t, launch(t, head+body+"\n    return part(executable = \"/usr/bin/qemu-system-x86_64\")\n"))
		})
	}
}

func TestExamplesOfTestsWork(t *testing.T) {
	t.Parallel()
	functions := reference.Testing()
	for _, o := range reference.TestingObjects() {
		functions = append(functions, o.Methods...)
	}
	var b strings.Builder
	b.WriteString("load(\"" + reference.TestingModule +
		"\", \"assert\", \"draw\", \"plan_of\")\nload(\"@vmtypes//standard.star\", \"launch\")\n")
	for _, f := range functions {
		require.NotEmpty(t, f.Example, f.Name)
		b.WriteString("\ndef test_" + strings.ReplaceAll(f.Name, ".", "_") + "():\n    " + f.Example)
	}
	for _, o := range reference.TestingObjects() {
		want := []string{}
		for _, f := range o.Fields {
			want = append(want, f.Name)
		}
		want = append(want, names(o.Methods)...)
		slices.Sort(want)
		b.WriteString("\ndef test_fields():\n    assert.eq(dir(plan_of(launch)), [" + strings.Join(quoted(want), ", ") +
			"])\n")
	}
	runTests(t, b.String(), len(functions)+1)
}
