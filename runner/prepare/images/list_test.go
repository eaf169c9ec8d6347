package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
)

func TestTheListThatComesWithTheProgram(t *testing.T) {
	t.Parallel()
	list, err := Read()
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, k := range list {
		require.True(t, strings.HasPrefix(k.URL, "https://"), k.Name)
		at, err := k.checksumsURL()
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(at, "https://"), k.Name)
	}
	debian, err := list.Find("debian/12")
	require.NoError(t, err)
	at, err := debian.checksumsURL()
	require.NoError(t, err)
	require.Equal(t, "https://cloud.debian.org/images/cloud/bookworm/latest/SHA512SUMS", at)
	_, err = list.Find("debain/12")
	require.ErrorIs(t, err, ErrUnknown)
	require.ErrorContains(t, err, "did you mean debian/12?")
}

func TestListsOfTheHost(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), ListFile)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	first := write("images: [{name: debian/12, url: https://mirror/d.qcow2}, {name: a, url: http://a/a.img}]")
	second := write("images:\n- name: a\n  url: https://b/b.img\n  checksums: /sums/b\n")
	list, err := Read("/gone", first, second)
	require.NoError(t, err)
	debian, err := list.Find("debian/12")
	require.NoError(t, err)
	require.Equal(t, Known{Name: "debian/12", URL: "https://mirror/d.qcow2", From: first}, debian)
	a, err := list.Find("a")
	require.NoError(t, err)
	at, err := a.checksumsURL()
	require.NoError(t, err)
	require.Equal(t, []string{second, "https://b/sums/b"}, []string{a.From, at})
	_, err = list.Find("ubuntu/24.04")
	require.NoError(t, err)

	for text, want := range map[string]string{
		"[{name: A, url: https://a/b}]":              "images[0].name: is not the name of an image (such as debian/12, in small letters)",
		"[{name: a}]":                                "images[0].url: is not a URL (such as https://example.org/disk.qcow2)",
		"[{name: a, url: ftp://a/b}]":                `images[0].url: can't be fetched by "ftp" (use http or https; a path has no scheme)`,
		"[{nam: a}]":                                 "images[0].nam: unknown key (did you mean name?)",
		"[{name: a, url: https://a/b, checksum: x}]": `images[0].checksum: "x" is not a checksum`,
		"[{name: a, url: https://a/b}, {name: a, url: https://a/c}]": "images[1].name: is taken (by images[0])",
	} {
		_, err := Read(write("images: " + text))
		require.ErrorContains(t, err, want)
	}
}

func TestWhereListsAre(t *testing.T) {
	t.Parallel()
	env := config.Env{HomeDir: "/users/joe", Getenv: func(string) string { return "" }}
	require.Equal(t, []string{"/etc/opt/vmrunner/images.yaml", "/users/joe/.config/vmrunner/images.yaml"}, Lists(env))
}

func TestFindChecksum(t *testing.T) {
	t.Parallel()
	short, long := strings.Repeat("0a", 32), strings.Repeat("0B", 64)
	for text, want := range map[string]string{
		strings.Repeat("f", 64) + "  other\n" + short + "  disk.img\n": "sha256:" + short,
		long + " *./disk.img": "sha512:" + strings.ToLower(long),
		"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n# disk.img: 7 bytes\nSHA256 (disk.img) = " + short + "\n": "sha256:" + short,
		short + "\n": "sha256:" + short,
	} {
		got, err := findChecksum(text, "disk.img")
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		short + "  disk.img.asc": "has none of disk.img",
		"":                       "has none of disk.img",
		"0a0a  disk.img":         "has a checksum of a kind that is not known; sha256 and sha512 are",
	} {
		_, err := findChecksum(text, "disk.img")
		require.EqualError(t, err, want)
	}
}

func FuzzFindChecksum(f *testing.F) {
	f.Add("SHA256 (disk.img) = " + strings.Repeat("0a", 32))
	f.Add(strings.Repeat("0a", 64) + " *disk.img\n")
	f.Fuzz(func(t *testing.T, text string) {
		if sum, err := findChecksum(text, "disk.img"); err == nil {
			require.Regexp(t, `^sha(256|512):([0-9a-f]{64}|[0-9a-f]{128})$`, sum)
		}
	})
}
