package vmtypestest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/vmtypestest"
	"vmop/vmtypes"
)

var update = flag.Bool("update", false, "rewrite the expected texts")

// folder creates a folder with files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// run runs the tests of a folder.
func run(t *testing.T, dir string, options vmtypestest.Options) []vmtypestest.Result {
	t.Helper()
	f, err := vmtypestest.Find(dir)
	require.NoError(t, err)
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	defer library.Close()
	var results []vmtypestest.Result
	require.NoError(t, f.Run(t.Context(), vmtypestest.In(library), options,
		func(rs []vmtypestest.Result) { results = append(results, rs...) }))
	return results
}

// format returns results as lines.
func format(results []vmtypestest.Result) string {
	var b strings.Builder
	for _, r := range results {
		verdict := "passes"
		switch {
		case len(r.Failures) > 0:
			verdict = "fails"
		case r.Updated:
			verdict = "is updated"
		}
		fmt.Fprintf(&b, "%s %s\n", r.Name(), verdict)
		for _, text := range append([]string{r.Output, r.Changes}, textValues(r.Failures)...) {
			if text = strings.TrimSuffix(text, "\n"); text != "" {
				b.WriteString("  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n")
			}
		}
	}
	return b.String()
}

func textValues(failures []vmtypestest.Failure) []string {
	var list []string
	for _, f := range failures {
		list = append(list, f.Error())
	}
	return list
}

// Failures contain the message, the place and the details.
func TestFailures(t *testing.T) {
	t.Parallel()
	got := format(run(t, "testdata", vmtypestest.Options{Match: regexp.MustCompile("^failing_test.star/")}))
	const path = "testdata/failing.txt"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// A file that can't be loaded fails, without hiding the results of other files.
func TestFilesThatAreNoTests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"no function":  {"def tset_x(): pass\n", "x_test.star has no function with a name that begins with test_"},
		"syntax error": {"def test_x(:\n", "x_test.star:1:13: "},
		"assert outside": {
			"load(\"@vmtypes//testing.star\", \"assert\")\nassert.eq(1, 2)\n",
			"can only be called in functions named test_…",
		},
		"parameters":   {"def test_x(a): pass\n", "test_x has parameters; a test is called without arguments"},
		"two mistakes": {"def test_x(): foo(bar)\n", "x_test.star:1:15: undefined: foo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := run(t, folder(t,
				map[string]string{"x_test.star": c.text, "y_test.star": "def test_y(): pass\n"}), vmtypestest.Options{})
			require.Len(t, results, 2)
			require.Equal(t, "x_test.star", results[0].File)
			require.NotEmpty(t, results[0].Failures)
			require.Contains(t, results[0].Failures[0].Text, c.want)
			require.Equal(t, "y_test.star/test_y", results[1].Name())
			require.Empty(t, results[1].Failures)
		})
	}
}

func TestUndefinedNamesAreSeveralFailures(t *testing.T) {
	t.Parallel()
	results := run(t, folder(t, map[string]string{"x_test.star": "def test_x(): foo(bar)\n"}), vmtypestest.Options{})
	require.Len(t, results[0].Failures, 2)
	require.Equal(t, vmtypestest.Failure{
		File: "x_test.star", Line: 1, Column: 19, Message: "undefined: bar",
		Text: "x_test.star:1:19: undefined: bar\n    1 | def test_x(): foo(bar)\n      |                   ^",
	}, results[0].Failures[1])
}

func TestNothingToTest(t *testing.T) {
	t.Parallel()
	_, err := vmtypestest.Find(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	f, err := vmtypestest.Find(folder(t, map[string]string{"x.star": ""}))
	require.NoError(t, err)
	require.Empty(t, f.Files)
	require.Empty(t, f.Samples)
}

func TestTestsAreSelectedByName(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"a_test.star": "def test_two(): pass\ndef test_one(): pass\n", "b_test.star": "def test_two(): pass\n",
		"web.yaml": "\"/Runner\": {vm: {name: web, network: []}}\n",
	})
	for pattern, want := range map[string]string{
		"test_two":    "a_test.star/test_two passes\nb_test.star/test_two passes\n",
		"^a_":         "a_test.star/test_two passes\na_test.star/test_one passes\n",
		"_one$|ya?ml": "a_test.star/test_one passes\nweb.yaml passes\n",
		"nothing":     "",
	} {
		require.Equal(t, want, format(run(t, dir, vmtypestest.Options{Match: regexp.MustCompile(pattern)})), pattern)
	}
}

// A golden of a changed type shows the changes of the plan, in pairs of lines.
func TestGoldenThatDiffers(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"mine.star": `load("@vmtypes//standard.star", standard = "launch")

def launch(vm, host):
    return replace(standard(vm, host), option("-rtc", None, {"base": "utc", "clock": "vm"}), remove = ["-device panic0"])
`,
		"mine.txtar": "What is said of it.\n-- vm.yaml --\nfirmware: bios\nnetwork: []\nuseTpm: true\n",
	})
	require.Equal(t, "mine.txtar fails\n  mine.txtar: the archive has no plan yet; -u adds it\n",
		format(run(t, dir, vmtypestest.Options{})))
	require.Equal(t, "mine.txtar is updated\n", format(run(t, dir, vmtypestest.Options{Update: true})))
	require.Equal(t, "mine.txtar passes\n", format(run(t, dir, vmtypestest.Options{Update: true})))

	path := filepath.Join(dir, "mine.txtar")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.NewReplacer(
		"clock=vm", "clock=rt", "--tpm2", "--tpm2 --more", "    -cpu max\n    -m 1024M\n",
		"    -m 512M\n    -cpu host\n", "type mine\n", "",
	).Replace(string(text))), 0o600))
	const changes = `
@ mine.txtar:7
+type mine
 listen swtpm /run/vm/swtpm-sock
 helper swtpm /usr/bin/swtpm
     in /data/tpm
     socket
-    --tpm2 --more
+    --tpm2
     --tpmstate dir=.,mode=0600
     --ctrl type=unixio,fd=<swtpm>
     --terminate
@ mine.txtar:26 in qemu
     -accel tcg
     -global ICH9-LPC.disable_s3=1
     -global ICH9-LPC.disable_s4=1
-    -m 512M
+    -m 1024M
-    -cpu host
+    -cpu max
     -object memory-backend-ram,id=pc.ram,size=1073741824
     -device virtio-balloon-pci,id=balloon0,free-page-reporting=on,addr=0x1
-    -rtc base=utc,clock=rt
+    -rtc base=utc,clock=vm
     -chardev socket,id=tpm,path=/run/vm/swtpm-sock
`
	results := run(t, dir, vmtypestest.Options{})
	require.Len(t, results, 1)
	require.Equal(t, "mine.txtar: the plan differs from the golden; -u updates it",
		results[0].Failures[0].Text)
	require.Equal(t, 7, results[0].Failures[0].Line)
	diff := "\n" + results[0].Failures[0].Diff
	require.Equal(t, changes, diff[:min(len(diff), len(changes))])
	results = run(t, dir, vmtypestest.Options{Update: true})
	require.True(t, results[0].Updated)
	require.Equal(t, diff, "\n"+results[0].Changes)
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
}

// Errors in a sample are reported with the line of its file.
func TestSampleWithFaults(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"a.txtar":          "x\n-- vm.yaml --\nusetpm: true\n",
		"b.yaml":           "\"/Runner\": {vm: {name: web, maximumRam: 1}}\n",
		"testdata/c.txtar": "x\n-- vm.yaml --\nusetpm: true\n",
		"d.txtar":          "x\n-- type --\nabsent\n",
	})
	stock, err := vmtypes.Open("")
	require.NoError(t, err)
	known := stock.Names()
	require.Equal(t, `a.txtar fails
  a.txtar:3:1: vm.usetpm: unknown key (did you mean useTpm?)
     3 | usetpm: true
       | ^
b.yaml fails
  b.yaml:1:41: vm.maximumRam: is less than 1 MiB: 1 B (is a unit missing? such as 8 GiB)
     1 | "/Runner": {vm: {name: web, maximumRam: 1}}
       |                                         ^
d.txtar fails
  there is no VM type "absent"; known are STOCK; custom types are looked for in DIR
testdata/c.txtar fails
  testdata/c.txtar:3:1: vm.usetpm: unknown key (did you mean useTpm?)
     3 | usetpm: true
       | ^
`, strings.NewReplacer(dir, "DIR", strings.Join(known, ", "), "STOCK").
		Replace(format(run(t, dir, vmtypestest.Options{}))))
}

// Results are passed on in the order of the work, independent of its duration.
func TestInOrder(t *testing.T) {
	t.Parallel()
	first := make(chan struct{})
	work := []func() int{
		func() int { <-first; return 0 },
		func() int { close(first); return 1 },
		func() int { return 2 },
	}
	var got []int
	vmtypestest.InOrder(work, func(n int) { got = append(got, n) })
	require.Equal(t, []int{0, 1, 2}, got)
	vmtypestest.InOrder(nil, func(int) { t.Error("there is nothing to hand over") })
}

// A test draws VMs that the type accepts. Given keys are not drawn.
func TestDrawnVMs(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"strict.star": `
load("@vmtypes//standard.star", standard = "launch")

options = {"asset": attr.string(mandatory = True), "level": attr.int(minimum = 1, maximum = 3)}

def launch(vm, host):
    if vm.bootMenu:
        fail("no menu")
    if vm.options.asset == "broken":
        [][0]
    return standard(vm, host)
`,
		"strict_test.star": `
load("@vmtypes//testing.star", "assert", "draw", "plan_of")
load("strict.star", "launch")

def test_all_plans():
    names = {}
    for vm in draw(launch, 20, network = [], firmware = "bios", options = {"asset": "a"}):
        names[vm.get("name")] = True
        assert.eq(vm["options"], {"asset": "a"})
        assert.true(not vm.get("bootMenu"))
        assert.not_contains(plan_of(launch, **vm).argv, "-netdev", message = str(vm))
    assert.true(len(names) > 1)

def test_same_seed():
    assert.eq(draw(launch, 3), draw(launch, 3, seed = 1))
    assert.ne(draw(launch, 3), draw(launch, 3, seed = 2))

def test_errors():
    assert.fails(lambda: draw(launch, 0), "number can't be 0; it can be 1 to 200")
    assert.fails(lambda: draw(launch, 1, firmare = "bios"), "did you mean firmware")
    assert.fails(lambda: draw(launch, 1, bootMenu = True), "the last refusal was: strict.star:8:13: no menu")
    assert.fails(lambda: draw(launch, 1, options = {"asset": "broken"}), "index .*out of range")
    assert.fails(lambda: draw(launch, 1, options = {"asset": "broken"}), "with this VM; vmtype test --draw finds")
`,
	})
	require.Equal(t, "strict_test.star/test_all_plans passes\nstrict_test.star/test_same_seed passes\n"+
		"strict_test.star/test_errors passes\n", format(run(t, dir, vmtypestest.Options{})))
}
