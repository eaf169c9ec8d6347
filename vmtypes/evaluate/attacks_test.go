package evaluate

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/authoring/vmtypestest"
	"vmop/test/tier"
	"vmop/vmtypes"
	"vmop/vmtypes/sandbox"
)

var update = flag.Bool("update", false, "rewrite the expected texts")

// The test program evaluates types in separate processes, like other programs.
func TestMain(m *testing.M) {
	Serve(context.Background(), vmtypestest.Serve)
	os.Exit(m.Run())
}

// body returns a module with the launch function of an attack.
func body(lines ...string) string {
	return "def launch(vm, host):\n    " + strings.Join(lines, "\n    ") + "\n"
}

// exhausting returns modules that exceed the limits of memory or time. The machine may determine which limit they reach
// first.
func exhausting() map[string]string {
	return map[string]string{
		"repeated string":        body("return 'a' * 1000000000"),
		"repeated list":          body("return [0] * 100000000"),
		"repeated tuple":         body("return (0,) * 100000000"),
		"repeated bytes":         body("return b'a' * 1000000000"),
		"doubled string":         body("s = 'a'", "for i in range(32):", "    s += s", "return s"),
		"doubled list":           body("l = [0]", "for i in range(32):", "    l.extend(l)", "return l"),
		"joined strings":         body("return ','.join(['x' * 1000000] * 1000)"),
		"replaced string":        body("return ('a' * 100000).replace('a', 'b' * 100000)"),
		"formatted string":       body("return '%s' * 1000 % tuple(['x' * 1000000] * 1000)"),
		"large dict":             body("d = {}", "for i in range(10000000):", "    d[i] = [i]", "return d"),
		"large set":              body("return set(range(1 << 40))"),
		"sorted range":           body("return sorted(range(1 << 25))"),
		"text of a list":         body("l = [0]", "for i in range(40):", "    l = [l, l]", "return str(l)"),
		"memory in a load":       "x = 'a' * 1000000000\n" + body("return part()"),
		"huge shift":             body("x = 1 << 511", "for i in range(24):", "    x = x * x", "return x"),
		"split string":           body("return ('a ' * 50000000).split(' ')"),
		"elements of text":       body("return list(('a' * 100000000).elems())"),
		"unpacked argument":      body("return part(*([0] * 100000000))"),
		"endless multiplication": body("x = 3", "for i in range(100):", "    x = x * x", "return x"),
		"endless number":         body("x = 3", "for i in range(25):", "    x = x * x", "return str(x)"),
		"slow search": body("l = [0] * 10000000", "for i in range(1000000):", "    if 1 in l:",
			"        pass"),
		"slow text search": body("s = 'a' * 1000000", "for i in range(1000000):", "    if 'a' * 1000 + 'b' in s:",
			"        pass"),
		"questions":  body("for i in range(10000000):", "    host.exists('/%d' % i)"),
		"deep value": body("l = []", "for i in range(1000000):", "    l = [l]", "return str(l)"),
		"deep comparison": body("a, b = [], []", "for i in range(1000000):", "    a, b = [a], [b]",
			"return a == b"),
		"million options": body("return part(executable = '/bin/true', options = [option('-device', 'edu')] * " +
			"1000000)"),
		"million properties": body("return part(executable = '/bin/true', options = [option('-device', 'edu', " +
			"{'a%d' % i: i for i in range(1000000)})])"),
		"million arguments": body("return part(executable = '/bin/true', helpers = [process('h', '/bin/true', " +
			"['x'] * 1000000)])"),
		"million helpers": body("return part(executable = '/bin/true', helpers = [process('h', '/bin/true', " +
			"[])] * 1000000)"),
	}
}

// refused returns modules that are rejected with a reason.
func refused() map[string]string {
	room := vmtypes.MaxModule - 100
	return map[string]string{
		"enumerated range":      body("return enumerate(range(1 << 60))"),
		"endless loop":          body("for i in range(1 << 60):", "    pass"),
		"loops in loops":        body("for i in range(1 << 60):", "    for j in range(1 << 60):", "        pass"),
		"endless comprehension": body("return [None for i in range(1 << 60) if i < 0]"),
		"endless load":          "[None for i in range(1 << 60) if i < 0]\n" + body("return part()"),
		"calls of calls":        callTree(30),
		"panic":                 body("return list(range(1 << 62))"),
		"open parentheses":      "x = " + strings.Repeat("(", room),
		"parentheses": "x = " + strings.Repeat("(", room/2) + "1" + strings.Repeat(")", room/2) + "\n" +
			body("return part()"),
		"deep calls":               callChain(3000),
		"recursion":                body("return launch(vm, host)"),
		"recursion without a name": body("f = lambda g: g(g)", "return f(lambda g: g(g))"),
		"cyclic list":              body("l = []", "l.append(l)", "return part(options = l)"),
		"cyclic properties": body("d = {}", "d['d'] = d", "return part(options = [option('-device', 'edu', "+
			"d)])"),
		"cyclic arguments": body("l = []", "l.append(l)",
			"return part(helpers = [process('h', '/bin/true', l)])"),
		"million faults": body("return part(executable = '/bin/true', options = [option('-device', 'a=b', " +
			"{})] * 16000)"),
		"huge error": body("fail('lost ' * 1000000)"),
		"huge name":  body("return getattr(vm, 'x' * 1000000)"),
		"huge key":   body("return part(options = [option('-device', 'edu', {'=' * 1000000: 1})])"),
		"huge flag": body("return part(executable = '/bin/true', options = [option('-' + 'x' * " +
			"1000000)])"),
		"huge output": body("for i in range(100):", "    print('x' * 1000000)", "fail('enough')"),
		"terminal":    body("fail('\\033[2J\\033]0;mine\\007')"),
		"long line":   "def launch(vm, host): return [" + strings.Repeat("0, ", 30000) + "] + vm\n",
		"smuggled NUL": body("return part(executable = '/bin/true', options = [option('-name', " +
			"'x\\000-S')])"),
		"smuggled property": body("return part(executable = '/bin/true', options = [option('-device', 'edu', " +
			"{'id=x,driver': 'e1000'})])"),
		"smuggled value": body("return part(executable = '/bin/true', options = [option('-device', 'edu=x', " +
			"{'id': 'x'})])"),
		"smuggled monitor": body("return part(executable = '/bin/true', options = [option('-mon', " +
			"'chardev=x')])"),
		"smuggled long flag": body("return part(executable = '/bin/true', options = [option('--monitor', " +
			"'stdio')])"),
		"half a character": body("return part(executable = '/bin/true', options = [option('-name', 'é'[:1])])"),
		"loaded path":      "load('/etc/passwd', 'x')\n",
		"loaded parent":    "load('../../etc/passwd.star', 'x')\n",
		"loaded library":   "load('@vmtypes//../../secret.star', 'x')\n",
	}
}

// callTree returns a module in which each function calls two functions, which exceeds the time limit.
func callTree(depth int) string {
	var b strings.Builder
	b.WriteString("def f0():\n    pass\n")
	for i := range depth {
		b.WriteString(strings.NewReplacer("N", strconv.Itoa(i+1), "M",
			strconv.Itoa(i)).Replace("def fN():\n    fM()\n    fM()\n"))
	}
	return b.String() + body("f"+strconv.Itoa(depth)+"()")
}

// callChain returns a module in which each function calls another function.
func callChain(depth int) string {
	var b strings.Builder
	b.WriteString("def f0(): fail('deep')\n")
	for i := range depth {
		b.WriteString(strings.NewReplacer("N", strconv.Itoa(i+1), "M", strconv.Itoa(i)).Replace("def fN(): fM()\n"))
	}
	return b.String() + body("f"+strconv.Itoa(depth)+"()")
}

// attack evaluates a module, checks that it stays within the limits, and returns the error.
func attack(t *testing.T, module string) error {
	t.Helper()
	host := sample.HostFacts{}.Host()
	spec, err := sample.ParseVM([]byte("network: []\n"))
	require.NoError(t, err)
	evil := Type{Source: vmtypes.Source{Dir: "types", Modules: map[string]string{"evil.star": module}}, Name: "evil"}
	var r reply
	usage, err := evil.sendRequest(t.Context(), request{Launch: &launch{VM: newWireSpec(spec), Host: host}}, &host, &r)
	if err == nil {
		err = r.Failure.asError()
	}
	require.Error(t, err)
	require.LessOrEqual(t, usage.Peak, int64(300e6), "memory that was resident")
	require.LessOrEqual(t, usage.CPU, sandbox.CPU+2*time.Second, "processor time")
	return err
}

// The process ends at a limit, and the error names the limit. A module that waits for answers, or for a processor, may
// reach the limit of one minute before the limit of processor time.
func TestExhaustingModules(t *testing.T) {
	t.Parallel()
	for name, module := range exhausting() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(name, "slow") || name == "endless multiplication" || name == "questions" {
				tier.Deep(t) // needs seconds of processor time
			}
			err := attack(t, module)
			require.Regexp(t, "^VM type evil: (used more than 300 MB of memory|took more than 5 s of processor time|"+
				"took more than a minute|is nested too deeply: the stack is full|returned more than 32 MiB|"+
				`evil\.star:\d+:\d+: took (too many steps; does a loop never end\?|too long: there are 5 s of processor time)(\n    .*)+)$`, err.Error())
		})
	}
}

// Rejected modules cause an error with its place.
func TestRefusedModules(t *testing.T) {
	t.Parallel()
	for name, module := range refused() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, attack(t, module).Error()+"\n")
		})
	}
}

// golden compares a text with a golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "attacks", strings.ReplaceAll(name, " ", "-")+".txt")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
