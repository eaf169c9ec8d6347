package reference_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/reference"
)

const documented = `"""asset: the standard PC with an asset tag. Nothing else.

.Not a request of roff, 'this neither, and \\e is a backslash:

    load("x.star", "launch")

- one
- two
"""

load("@vmtypes//standard.star", standard = "launch")

TAG = "x"

def launch(vm, host):
    """Returns the machine."""
    return tagged(standard(vm, host), tag = TAG)

def tagged(machine, *more, tag = "a\\b", **rest):
    """Adds a tag.

    Args:
      machine: what to add it to,
        which may be anything
      tag: the tag

    Returns:
      a part
    """
    return machine
`

func describeKey(t *testing.T) reference.DescribedType {
	t.Helper()
	module, err := reference.ReadModule("asset.star", documented)
	require.NoError(t, err)
	return reference.DescribedType{Name: "asset", Module: module}
}

func TestModuleSaysWhatIsInIt(t *testing.T) {
	t.Parallel()
	m := describeKey(t).Module
	require.Equal(t, []string{"TAG"}, m.Constants)
	require.Len(t, m.Functions, 2)
	f := m.Functions[1]
	require.Equal(t, `tagged(machine, *more, tag = "a\\b", **rest)`, f.Signature())
	require.Equal(t, "Adds a tag.\n\nReturns:\n  a part", f.Doc)
	require.Equal(t, reference.Parameter{Name: "machine", Doc: "what to add it to, which may be anything"},
		f.Parameters[0])
	require.Equal(t, reference.Parameter{Name: "tag", Default: `"a\\b"`, Keyword: true, Doc: "the tag"},
		f.Parameters[2])
	require.Equal(t, "the standard PC with an asset tag.", describeKey(t).Summary())
	_, err := reference.ReadModule("x.star", "def")
	require.ErrorContains(t, err, "x.star:1:4")
}

// groff reads the page without warnings and shows its content.
func TestManPageIsOne(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "asset.7")
	require.NoError(t, os.WriteFile(page, []byte(reference.ManPage([]reference.DescribedType{describeKey(t)})), 0o644))
	text, complaints := formatted(t, page)
	require.Empty(t, complaints)
	for _, want := range []string{
		"vmtype-asset - the standard PC with an asset tag.",
		".Not a request of roff, 'this neither, and \\e is a backslash:",
		`load("x.star", "launch")`, "one", `tagged(machine, *more, tag = "a\\b", **rest)`,
		"machine: what to add it to, which may be anything",
	} {
		require.Contains(t, text, want)
	}
}

// formatted returns groff's output and warnings for a page.
func formatted(t *testing.T, page string) (text, complaints string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "groff", "-man", "-ww", "-Tascii", "-P-c", "-P-b", "-P-u", "-rLL=200n",
		page)
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	require.NoError(t, cmd.Run(), "on Debian groff is in the package groff")
	return out.String(), stderr.String()
}

func TestPageOfTypes(t *testing.T) {
	t.Parallel()
	other := reference.DescribedType{Name: "other", Module: reference.Module{Doc: "other: is | another."}}
	page := reference.TypesPage([]reference.DescribedType{describeKey(t), other})
	require.Contains(t, page,
		"| [asset](#asset) | the standard PC with an asset tag. |\n| [other](#other) | is \\| another. |\n")
	require.Contains(t, page, "\n## asset\n\nasset: the standard PC")
	require.Contains(t, page, "\n### Functions\n\n- `launch(vm, host)`  \n  Returns the machine.\n")
	require.True(t, strings.HasPrefix(reference.TypesPage([]reference.DescribedType{describeKey(t)}),
		"# asset\n\nasset: the standard PC"))
}

// Python parses the stubs and finds the declared names.
func TestStubsArePython(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), reference.StubsName)
	require.NoError(t, os.WriteFile(file, []byte(reference.Stubs()), 0o644))
	const script = `
import ast, sys
tree = ast.parse(open(sys.argv[1]).read())
for node in tree.body:
    if isinstance(node, ast.FunctionDef):
        print("def", node.name, *[a.arg for a in node.args.args + node.args.kwonlyargs], "doc" if ast.get_docstring(node) else "")
    if isinstance(node, ast.ClassDef):
        print("class", node.name, *[n.target.id for n in node.body if isinstance(n, ast.AnnAssign)], *[n.targets[0].id for n in node.body if isinstance(n, ast.Assign)])
known = {n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))} | {"Value", "Options", "Any", "Callable", "Iterable"}
known |= {"str", "int", "bool", "float", "bytes", "list", "dict", "tuple", "set", "None"}
for node in ast.walk(tree):
    for hint in [getattr(node, "annotation", None), getattr(node, "returns", None)]:
        for name in ast.walk(hint) if hint else []:
            if isinstance(name, ast.Name) and name.id not in known:
                print("unknown type", name.id)
`
	cmd := exec.CommandContext(t.Context(), "python3", "-c", script, file)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "unknown type")
	lines := strings.Split(string(out), "\n")
	require.Contains(t, lines, "def option flag value props doc")
	require.Contains(t, lines,
		"class hotplug cpus balloon memory medium disk limits disks nics link affinity ports password")
	require.Contains(t, lines, "class PortForward protocol address host guest")
	require.Contains(t, lines, "class DiskLimits iops iopsRead iopsWrite bytes bytesRead bytesWrite")
	require.Contains(t, lines, "class Display outputs loggedInUser withoutPassword spice vnc")
	require.Contains(t, string(out), "\nclass VM name uuid machineType accelerator ")
	for _, f := range reference.Builtins() {
		require.Contains(t, string(out), " "+f.Name[strings.LastIndex(f.Name, ".")+1:], f.Name)
	}
}
