package artifact

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

// archive returns a layer with entries. The content of regular files is text.
func archive(t testing.TB, text string, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(text))
		}
		require.NoError(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := io.WriteString(w, text)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func named(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }

// special returns an entry that is not a regular file; to is the target of a link.
func special(kind byte, to string) tar.Header {
	return tar.Header{Typeflag: kind, Name: "a.star", Linkname: to}
}

func TestHostileLayers(t *testing.T) {
	t.Parallel()
	var many []tar.Header
	for i := range MaxFiles + 1 {
		many = append(many, named(fmt.Sprintf("x%d.star", i)))
	}
	whole := archive(t, strings.Repeat("x", 5000), named("a.star"))
	for name, c := range map[string]struct {
		layer []byte
		text  string
	}{
		"a link":      {archive(t, "", special(tar.TypeSymlink, "/etc/passwd")), "not a regular file"},
		"a hard link": {archive(t, "", special(tar.TypeLink, "b.star")), "not a regular file"},
		"a folder":    {archive(t, "", tar.Header{Typeflag: tar.TypeDir, Name: "testdata/"}), "not a regular file"},
		"a device":    {archive(t, "", special(tar.TypeBlock, "")), "not a regular file"},
		"a pipe":      {archive(t, "", special(tar.TypeFifo, "")), "not a regular file"},
		"global settings": {
			archive(t, "", tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "a"}}),
			"not a regular file",
		},
		"above":        {archive(t, "", named("../a.star")), "files must be next to the type"},
		"far above":    {archive(t, "", named("testdata/../../a.yaml")), "files must be next to the type"},
		"absolute":     {archive(t, "", named("/a.star")), "files must be next to the type"},
		"here":         {archive(t, "", named("./a.star")), "files must be next to the type"},
		"no name":      {archive(t, "", named(".star")), "use letters"},
		"hidden":       {archive(t, "", named(".a.star")), "use letters"},
		"an option":    {archive(t, "", named("-a.star")), "use letters"},
		"a line's end": {archive(t, "", named("a\nb.star")), "use letters"},
		"a comment": {
			archive(t, "", tar.Header{
				Typeflag: tar.TypeReg, Name: "a.star", PAXRecords: map[string]string{"comment": "x"},
			}), "",
		},
		"another kind":    {archive(t, "", named("a.so")), "must be a module"},
		"a module deeper": {archive(t, "", named("testdata/a.star")), "modules are not in"},
		"a long name":     {archive(t, "", named(strings.Repeat("a", 200)+".star")), "longer than 100"},
		"twice":           {archive(t, "", named("a.star"), named("a.star")), "exists twice"},
		"many":            {archive(t, "", many...), "more than 200 files"},
		"large":           {archive(t, strings.Repeat("x", MaxFile+1), named("a.yaml")), "the maximum is"},
		"a large module":  {archive(t, strings.Repeat("x", MaxFile), named("a.star")), "the maximum is"},
		"all large": {
			archive(t, strings.Repeat("x", MaxFile),
				named("a.yaml"), named("b.yaml"), named("c.yaml"), named("d.yaml"), named("e.yaml")),
			"more than 4194304 bytes",
		},
		"no text":         {archive(t, "\x00\xff", named("a.star")), "UTF-8"},
		"the end is gone": {whole[:3000], "unexpected EOF"},
		"no archive":      {bytes.Repeat([]byte("x"), 2048), "read the layer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := unpackFiles(c.layer)
			if c.text == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.text)
			require.Nil(t, files)
		})
	}
}

// FuzzUnpack checks that unpackFiles only returns valid files of a type within the limits. Packing and unpacking them
// again returns the same files.
func FuzzUnpack(f *testing.F) {
	f.Add(archive(f, "x", named("a.star"), named("testdata/b.yaml")))
	f.Add(archive(f, "", special(tar.TypeSymlink, "/etc/passwd")))
	sparse := archive(f, "", tar.Header{Typeflag: tar.TypeReg, Name: "a.star"})
	sparse[156] = 'S' // a GNU sparse file, with an extension that describes its data
	f.Add(sparse)
	f.Fuzz(func(t *testing.T, layer []byte) {
		files, err := unpackFiles(layer)
		if err != nil {
			require.Nil(t, files)
			return
		}
		size := 0
		for name, text := range files {
			require.NoError(t, checkFile(name, text))
			size += len(text)
		}
		require.LessOrEqual(t, size, maxSize)
		require.LessOrEqual(t, len(files), MaxFiles)
		packed, err := packFiles(files)
		require.NoError(t, err)
		require.LessOrEqual(t, len(packed), mostLayer)
		again, err := unpackFiles(packed)
		require.NoError(t, err)
		require.Equal(t, files, again)
	})
}

func TestTheLargestLayer(t *testing.T) {
	t.Parallel()
	for size, fits := range map[int]bool{mostLayer: true, mostLayer + 1: false, 0: true, -1: false} {
		text := fmt.Sprintf(`{"artifactType": %q, "layers": [{"mediaType": %q, "size": %d}]}`, Type,
			types.OCIUncompressedLayer, size)
		_, _, err := layerOf([]byte(text), types.OCIManifestSchema1)
		require.Equal(t, fits, err == nil, size)
	}
}
