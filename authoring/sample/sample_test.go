package sample_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/internal/yamlfile"
	"vmop/vmspec"
	"vmop/vmtypes"
)

// write writes a file in a folder and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestGoldenIsWrittenAndReadBack(t *testing.T) {
	t.Parallel()
	for name, sections := range map[string]string{
		"no plan yet": "-- vm.yaml --\nmaximumRam: 256Mi\n-- host.json --\n{\"kvm\": true}\n",
		"plan before other sections": "-- plan.txt --\nold\n-- vm.yaml --\nmaximumRam: 256Mi\n-- host.json " +
			"--\n{\"kvm\": true}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(t, t.TempDir(), "small.txtar", "Small.\n"+sections)
			s, err := sample.Read(path)
			require.NoError(t, err)
			require.Equal(t, "small", s.Name())
			require.Equal(t, "standard", s.Type)
			require.Equal(t, 256*vmspec.MiB, s.VM.MaximumRAM)
			require.True(t, s.Host.KVM)
			library, err := vmtypes.Open("")
			require.NoError(t, err)
			p, err := s.Plan(t.Context(), library)
			require.NoError(t, err)
			require.NoError(t, s.Write(p.Text()))
			again, err := sample.Read(path)
			require.NoError(t, err)
			require.Equal(t, p.Text(), again.Text)
			require.Equal(t, s.VM, again.VM)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, "type standard", strings.Split(string(text), "\n")[again.TextLine-1])
		})
	}
}

func TestConfigurationIsASample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, dir, "web.yaml", `
"/Runner":
  vmType: asset
  cloudInit: {}
  vm:
    name: web
    drives:
    - file: web.img
    - resource: /dev/vg0/web
`)
	s, err := sample.Read(path)
	require.NoError(t, err)
	require.Equal(t, "asset", s.Type)
	require.Equal(t, sample.UUID, s.VM.UUID)
	require.Equal(t, filepath.Join(dir, "web.img"), s.VM.Drives[0].File)
	require.Equal(t, "/dev/vg0/web", s.VM.Drives[1].Device)
	require.NotEmpty(t, s.Host.CloudInitImage)
	require.False(t, s.Keeps())
	require.ErrorContains(t, s.Write("a plan"), "a configuration has no place for a plan")
}

func TestArchiveIsOfTheTypeItIsNamedAfter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"asset.star", "asset-big.star"} {
		write(t, dir, name, "")
	}
	for file, want := range map[string]string{
		"asset.txtar":                  "asset",
		"asset-small.txtar":            "asset",
		"asset-big-one.txtar":          "asset-big",
		"assets.txtar":                 "standard",
		"other.txtar":                  "standard",
		"testdata/asset-small.txtar":   "asset",
		"elsewhere/asset-small.txtar":  "standard",
		"testdata/asset-but-not.txtar": "mine",
	} {
		text := "x\n"
		if want == "mine" {
			text += "-- type --\nmine\n"
		}
		s, err := sample.Read(write(t, dir, file, text))
		require.NoError(t, err)
		require.Equal(t, want, s.Type, file)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml": "\"/Runner\":\n", "kustomization.yaml": "resources: []\n", "c.star": "", "a.txtar": "x",
		"testdata/d.txtar": "x", "testdata/e.yaml": "_Runner: {}", "testdata/deep/f.txtar": "x", "dir.txtar/g": "",
		"samples/h.txtar": "",
	} {
		write(t, dir, name, text)
	}
	found, err := sample.Find(dir)
	require.NoError(t, err)
	for i, path := range found {
		found[i], err = filepath.Rel(dir, path)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"a.txtar", "b.yaml", "testdata/d.txtar", "testdata/e.yaml"}, found)
	_, err = sample.Find(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Errors contain the place in the file that the author edits.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, want string }{
		"no comment": {"x.txtar", "-- vm.yaml --\n", `
x.txtar:1:1: the comment is missing (begin with a line that describes what is special about this machine)
   1 | -- vm.yaml --
     | ^
`},
		"unknown section": {"x.txtar", "x\n-- vm.yml --\n", `
x.txtar:2:1: unknown section vm.yml (did you mean vm.yaml?)
   2 | -- vm.yml --
     | ^
`},
		"everything at once": {
			"x.txtar",
			"A\ncomment.\n-- vm.yaml --\nname: n\nusetpm: true\nmaximumRam: 1\n-- host.json --\n{\n  \"file\": []\n}\n", `
x.txtar:5:1: vm.usetpm: unknown key (did you mean useTpm?)
   5 | usetpm: true
     | ^
x.txtar:6:13: vm.maximumRam: is less than 1 MiB: 1 B (is a unit missing? such as 8 GiB)
   6 | maximumRam: 1
     |             ^
x.txtar:9:3: unknown field "file" (did you mean files?)
   9 |   "file": []
     |   ^
`,
		},
		"wrong kind of fact": {"x.txtar", "x\n-- host.json --\n{\"kvm\": \"yes\"}\n", `
x.txtar:3:13: kvm must be true or false, not a string
   3 | {"kvm": "yes"}
     |             ^
`},
		"wrong address of a device": {"x.txtar", "x\n-- host.json --\n{\"pci\": [{\"address\": \"01:00.0\"}]}\n", `
x.txtar:3:22: pci: "01:00.0" is not an address (did you mean 0000:01:00.0?)
   3 | {"pci": [{"address": "01:00.0"}]}
     |                      ^
`},
		"unknown distribution": {"x.txtar", "x\n-- host.json --\n{\"files\": [\"bare\",\n\"debian\"]}\n", `
x.txtar:4:1: files: "debian" is neither a path nor one of alpine, arch, arch-old, bare, debian-12, debian-12-arm64, debian-13, fedora, suse, upstream
   4 | "debian"]}
     | ^
`},
		"not JSON": {"x.txtar", "x\n-- host.json --\n{kvm}\n", `
x.txtar:3:2: invalid character 'k' looking for beginning of object key string
   3 | {kvm}
     |  ^
`},
		"not YAML": {"x.txtar", "x\n-- vm.yaml --\nmaximumRam: {\n", `
x.txtar:3:1: did not find expected node content
   3 | maximumRam: {
     | ^
`},
		"version of QEMU": {"x.txtar", "x\nneeds: qemu > 9\n-- vm.yaml --\n", `
x.txtar:2:1: cannot read "needs: qemu > 9" (write needs: qemu >= 9.1)
   2 | needs: qemu > 9
     | ^
`},
		"version of another program": {"x.txtar", "x\n needs: swtpm >= 1\n-- vm.yaml --\n", `
x.txtar:2:2: cannot read "needs: swtpm >= 1" (write needs: qemu >= 9.1)
   2 |  needs: swtpm >= 1
     |  ^
`},
		"version of a configuration": {"x.yaml", "# needs: qemu 9.1\n\"/Runner\": {vm: {name: x}}\n", `
x.yaml:1:3: cannot read "needs: qemu 9.1" (write needs: qemu >= 9.1)
   1 | # needs: qemu 9.1
     |   ^
`},
		"configuration": {"x.yaml", "\"/Runner\":\n  vm:\n    name: x\n    usetpm: true\n", `
x.yaml:4:5: vm.usetpm: unknown key (did you mean useTpm?)
   4 |     usetpm: true
     |     ^
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := sample.Read(write(t, dir, c.file, c.text))
			var faults yamlfile.Faults
			require.ErrorAs(t, err, &faults)
			require.Equal(t, c.want, "\n"+strings.ReplaceAll(faults.Excerpts(), dir+"/", ""))
		})
	}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"needs: qemu >= 9.1\n-- vm.yaml --\n":                              "9.1",
		"SNP.\nneeds: qemu >= 10\n-- vm.yaml --\n":                         "10",
		"SNP.\n-- vm.yaml --\n# needs: qemu >= 10\n":                       "",
		"# needs: qemu >= 9.1.2\n\"/Runner\": {vm: {name: x}}\n":           "9.1.2",
		"\"/Runner\":\n  # needs: more memory\n  vm: {name: \"needs: 1\"}": "",
	} {
		name := "x.txtar"
		if strings.Contains(text, "/Runner") {
			name = "x.yaml"
		}
		s, err := sample.Read(write(t, t.TempDir(), name, text))
		require.NoError(t, err)
		require.Equal(t, want, s.NeedsQEMU, text)
	}
}

// A minimal VM satisfies the declarations of the options.
func TestMinimal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "mine.star", `options = {
    "kind": attr.string(mandatory = True, values = ["b", "a"]),
    "memory": attr.size(mandatory = True, minimum = "2 GiB"),
    "most": attr.int(mandatory = True, maximum = -3),
    "quiet": attr.bool(mandatory = True),
    "disks": attr.dict(attr.size(), mandatory = True),
    "share": attr.record({"tag": attr.string(mandatory = True), "other": attr.int()}, mandatory = True),
    "more": attr.int(minimum = 3),
}

def launch(vm, host):
    fail(vm.options.kind, vm.options.memory, vm.options.most, vm.options.quiet, vm.options.disks, vm.options.share.tag, vm.options.more)
`)
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	defer library.Close()
	mine, err := library.Load(t.Context(), "mine")
	require.NoError(t, err)
	list, err := sample.Minimal("mine", mine.Describe().Options)
	require.NoError(t, err)
	require.Len(t, list, 3)
	_, err = list[0].Plan(t.Context(), library)
	require.ErrorContains(t, err, "b 2147483648 -3 False {} text None")
	require.Equal(t, "network: [], serialConsole: {enabled: false}, options: {kind: b, memory: 2 GiB, most: -3, "+
		"quiet: false, disks: {}, share: {tag: text}}, firmware: bios", list[1].Path)
}

func TestOptionsAreLocated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "plain.star", "def launch(vm, host):\n    return part(executable = \"/q\")\n")
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	defer library.Close()
	for file, c := range map[string]struct{ text, want string }{
		"plain.txtar": {
			"x\n-- vm.yaml --\n\noptions:\n  a: 1\n",
			"plain.txtar:5:3: vm.options.a: the VM type plain has no such option (it takes none)\n   5 |   a: 1\n " +
				"    |   ^\n",
		},
		"plain-two.yaml": {
			"\"/Runner\":\n  vmType: plain\n  vm: {name: x, options: {a: 1}}\n",
			"plain-two.yaml:3:27: vm.options.a: the VM type plain has no such option (it takes none)\n   3 |   vm: " +
				"{name: x, options: {a: 1}}\n     |                           ^\n",
		},
	} {
		s, err := sample.Read(write(t, dir, file, c.text))
		require.NoError(t, err)
		_, err = s.Plan(t.Context(), library)
		var faults yamlfile.Faults
		require.ErrorAs(t, err, &faults)
		require.Equal(t, c.want, strings.ReplaceAll(faults.Excerpts(), dir+"/", ""))
	}
}
