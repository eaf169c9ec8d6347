package vmspec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSourceFaults(t *testing.T) {
	t.Parallel()
	of := func(d Drive) Spec { return Spec{UUID: someUUID, Drives: []Drive{d}} }
	sum := "sha256:" + strings.Repeat("0a", 32)
	for _, good := range []Drive{
		{File: "a", Source: "debian/12"},
		{File: "a", Source: "/images/a.qcow2", Size: GiB, SourceChecksum: sum},
		{File: "a", Source: "./a.img.xz", ReadOnly: true},
		{File: "a", Source: "https://joe:secret@example.org/a?b", SourceChecksum: "sha512:" + strings.Repeat("0a", 64)},
		{File: "a", Source: "http://127.0.0.1:8080/a", SourceChecksum: "md5:" + strings.Repeat("0a", 16)},
	} {
		require.Empty(t, faults(of(good)), "%+v", good)
	}
	for _, fault := range []struct {
		drive Drive
		want  string
	}{
		{
			Drive{File: "a", Source: "a.qcow2/"},
			`source: "a.qcow2/" is neither a URL, a path nor the name of an image (a path begins with / or ./)`,
		},
		{
			Drive{File: "a", Source: "Debian"},
			`source: "Debian" is neither a URL, a path nor the name of an image (a path begins with / or ./)`,
		},
		{
			Drive{File: "a", Source: "ftp://a/b"},
			`source: can't be fetched by "ftp" (use http or https; a path has no scheme)`,
		},
		{
			Drive{File: "a", Source: "https://u:secret@"},
			`source: "https://" is not a URL (such as https://example.org/disk.qcow2)`,
		},
		{
			Drive{File: "a", Source: "debian/12", Format: "qcow2"},
			`source: the image that is created from it is raw (leave format out; the format of the source does not matter)`,
		},
		{
			Drive{Device: "/dev/x", Source: "debian/12"},
			`source: is for a disk that is a file (give file, which is created from it)`,
		},
		{
			Drive{Type: DriveIDECD, Source: "debian/12"},
			`source: is not for a CD drive (its medium is given by file, which may be a URL)`,
		},
		{
			Drive{File: "a", SourceChecksum: sum},
			`sourceChecksum: has no effect without a source (give source as well)`,
		},
		{
			Drive{File: "a", Source: "debian/12", SourceChecksum: "sha256:0a"},
			`sourceChecksum: "sha256:0a" is not a checksum (sha256: and 64 hexadecimal digits, sha512: and 128, or md5: and 32)`,
		},
		{
			Drive{File: "a", Source: "debian/12", SourceChecksum: sum[7:]},
			`sourceChecksum: "` + sum[7:] + `" is not a checksum (sha256: and 64 hexadecimal digits, sha512: and 128, or md5: and 32)`,
		},
	} {
		require.Equal(t, []string{"vm.drives[0]." + fault.want}, faults(of(fault.drive)))
	}
}

func TestSourcesAreRelativeIfTheyArePaths(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"": "", "debian/12": "debian/12", "./a.img": "/x/a.img", "../a.img": "/a.img", "/a.img": "/a.img",
		"https://example.org/a": "https://example.org/a",
	} {
		s := Spec{Drives: []Drive{{Source: source}}}.Within("/x")
		require.Equal(t, want, s.Drives[0].Source, source)
	}
}
