package share_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/share"
	"vmop/vmtypes"
	"vmop/vmtypes/artifact"
	"vmop/vmtypes/signature"
)

const launch = "load(\"@vmtypes//standard.star\", \"launch\")\n"

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

// Gather includes the files that only tests of the type load, and omits files of other types.
func TestGather(t *testing.T) {
	t.Parallel()
	const def = "load(\"@vmtypes//standard.star\", standard = \"launch\")\n\ndef launch(vm, host):\n    return standard(vm, host)\n"
	dir := folder(t, map[string]string{
		"one.star": "load(\"parts.star\", \"x\")\n" + def, "two.star": "load(\"parts.star\", \"x\")\n" + def,
		"parts.star": "x = 1\n", "unused.star": "y = 1\n", "cases.star": "z = 1\n",
		"one_test.star":    "load(\"one.star\", \"launch\")\nload(\"cases.star\", \"z\")\n",
		"parts_test.star":  "load(\"parts.star\", \"x\")\n",
		"both_test.star":   "load(\"one.star\", \"launch\")\nload(\"two.star\", two = \"launch\")\n",
		"unused_test.star": "load(\"unused.star\", \"y\")\n",
		"one.yaml":         "\"/Runner\": {vmType: one, vm: {name: a}}\n",
		"testdata/x.yaml":  "\"/Runner\": {vmType: one, vm: {name: a}}\n",
		"two.yaml":         "\"/Runner\": {vmType: two, vm: {name: a}}\n",
		"one.txt":          "notes",
	})
	source, err := vmtypes.ReadSource(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, share.Types(source))
	loaded, err := source.Library().Load(t.Context(), "one")
	require.NoError(t, err)
	c, err := share.Gather(dir, source, loaded.Describe())
	require.NoError(t, err)
	var names []string
	for name := range c.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	require.Equal(t, []string{
		"cases.star", "one.star", "one.yaml", "one_test.star", "parts.star", "parts_test.star", "testdata/x.yaml",
	}, names)
	require.Equal(t, 1, c.APIVersion)
}

func taken(name, digit string, files map[string]string) share.Taken {
	digest := "sha256:"
	for range 64 {
		digest += digit
	}
	return share.Taken{
		Fetched: &artifact.Fetched{Content: artifact.Content{Name: name, Files: files}, Digest: digest},
		Image:   "registry.example.org/types/" + name + ":1",
	}
}

// Types may share a file if its content is the same.
func TestFilesOfTwoTypes(t *testing.T) {
	t.Parallel()
	dir, lock := t.TempDir(), &share.Lock{}
	a := taken("a", "1", map[string]string{"a.star": launch, "parts.star": "x = 1\n"})
	require.NoError(t, lock.Replace(dir, a))
	b := taken("b", "2", map[string]string{"b.star": launch, "parts.star": "x = 2\n"})
	require.ErrorContains(t, lock.Replace(dir, b), "the type a has another file parts.star")
	require.NoFileExists(t, filepath.Join(dir, "b.star"))
	a2 := taken("a", "3", map[string]string{"a.star": launch, "parts.star": "x = 2\n"})
	require.NoError(t, lock.Replace(dir, b, a2))
	require.NoError(t, lock.Replace(dir, taken("a", "4", map[string]string{"a.star": launch})))
	require.FileExists(t, filepath.Join(dir, "parts.star")) // b's
	c := taken("c", "5", map[string]string{"c.star": launch, "more.star": "1\n"})
	d := taken("d", "6", map[string]string{"d.star": launch, "more.star": "2\n"})
	require.ErrorContains(t, lock.Replace(dir, c, d), "two of the types have a file more.star")
	read, err := share.ReadLock(dir)
	require.NoError(t, err)
	require.Equal(t, lock, read)
	lines, err := read.Differences(dir)
	require.NoError(t, err)
	require.Empty(t, lines)
}

// A changed file is kept, even if the new version of the type lacks it.
func TestChangedFilesStay(t *testing.T) {
	t.Parallel()
	dir, lock := t.TempDir(), &share.Lock{}
	require.NoError(t, lock.Replace(dir, taken("a", "1", map[string]string{"a.star": launch, "parts.star": "x = 1\n"})))
	parts := filepath.Join(dir, "parts.star")
	require.NoError(t, os.WriteFile(parts, []byte("mine\n"), 0o600))
	less := taken("a", "2", map[string]string{"a.star": launch})
	require.ErrorContains(t, lock.Replace(dir, less), "parts.star was changed since it was vendored")
	require.NoError(t, os.Remove(parts))
	require.NoError(t, lock.Replace(dir, less))
	// After an interruption, Replace can be repeated.
	more := taken("a", "3", map[string]string{"a.star": "# new\n" + launch})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.star"), []byte(more.Files["a.star"]), 0o600))
	require.NoError(t, lock.Replace(dir, more))
}

func TestHostileLockFiles(t *testing.T) {
	t.Parallel()
	const digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	entry := func(image, digest, file string) string {
		return `{"types": [{"name": "a", "image": "` + image + `", "digest": "` + digest + `", "files": {"` + file +
			`": "x"}}]}`
	}
	for text, want := range map[string]string{
		entry("r.example.org/a:1", digest, "a.star"):       "",
		entry("r.example.org/a:1", digest, "../../a.star"): "files must be next to the type",
		entry("r.example.org/a:1", digest, "/etc/passwd"):  "files must be next to the type",
		entry("r.example.org/a:1", "1", "a.star"):          "no digest",
		entry("UPPER", digest, "a.star"):                   "could not parse reference",
		`{"type": []}`:                                     "unknown field",
		``:                                                 "EOF",
	} {
		dir := folder(t, map[string]string{signature.LockFile: text})
		_, err := share.ReadLock(dir)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
}
