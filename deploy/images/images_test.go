package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
)

// built is an image with its files, unpacked.
type built struct {
	file    string
	config  v1.ConfigFile
	archive map[string][]byte
	root    string
}

// build builds an image with the documented command, and unpacks it.
func build(t *testing.T, name string, flags ...string) built {
	t.Helper()
	out := t.TempDir()
	require.NoError(t, runBuild(t.Context(), append(flags, "-version", "v1.2.3", "-o", out, name)))
	files, err := filepath.Glob(filepath.Join(out, "*.tar"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	b := built{file: files[0], archive: map[string][]byte{}, root: filepath.Join(out, "root")}
	f, err := os.Open(b.file)
	require.NoError(t, err)
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		b.archive[h.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	require.NoError(t, json.Unmarshal(b.archive["manifest.json"], &list))
	require.Equal(t, []string{"vmop/" + name + ":v1.2.3"}, list[0].RepoTags)
	require.NoError(t, json.Unmarshal(b.archive[list[0].Config], &b.config))
	require.NoError(t, os.Mkdir(b.root, 0o755))
	for _, layer := range list[0].Layers {
		unpack := exec.CommandContext(t.Context(), "tar", "-xzp", "-C", b.root)
		unpack.Stdin = bytes.NewReader(b.archive[layer])
		out, err := unpack.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return b
}

// inside runs a program of the image as the image's user, without privileges.
func (b built) inside(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = "/", b.config.Config.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: b.root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestRunner(t *testing.T) {
	t.Parallel()
	b := build(t, "runner")
	b.complete(t)
	b.harmless(t)
	b.consistent(t, "runner")
	b.known(t)
	b.again(t, "runner")
}

// The runner's image for arm64 contains programs of that architecture. Under emulation, they find their libraries and
// print their versions.
func TestRunnerForARM(t *testing.T) {
	t.Parallel()
	b := build(t, "runner", "-arch", "arm64")
	require.Equal(t, "runner-arm64.tar", filepath.Base(b.file))
	require.Equal(t, "arm64", b.config.Architecture)
	for want, args := range map[string][]string{
		"vmrunner v1.2.3":       {"usr/local/bin/vmrunner", "version"},
		"vmimport v1.2.3":       {"usr/local/bin/vmimport", "version"},
		"QEMU emulator version": {"usr/bin/qemu-system-aarch64", "--version"},
		"virt-7.2":              {"usr/bin/qemu-system-aarch64", "-machine", "help"},
		"TPM emulator version":  {"usr/bin/swtpm", "--version"},
		"qemu-img version":      {"usr/bin/qemu-img", "--version"},
	} {
		program, err := elf.Open(filepath.Join(b.root, args[0]))
		require.NoError(t, err)
		require.Equal(t, elf.EM_AARCH64, program.Machine, args[0])
		require.NoError(t, program.Close())
		words := append([]string{"-L", b.root, filepath.Join(b.root, args[0])}, args[1:]...)
		out, err := exec.CommandContext(t.Context(), "qemu-aarch64", words...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), want)
	}
	require.FileExists(t, filepath.Join(b.root, "usr/share/AAVMF/AAVMF_CODE.fd"))
	require.NoFileExists(t, filepath.Join(b.root, "usr/bin/qemu-system-x86_64"))
	b.harmless(t)

	require.ErrorContains(t, runBuild(t.Context(), []string{"-arch", "aarch64"}), `"aarch64": use amd64 or arm64`)
}

// The manager's image contains only its program, the certificates of authorities, and the description of the package
// that they come from.
func TestManager(t *testing.T) {
	t.Parallel()
	b := build(t, "manager")
	out, err := b.inside(t, "/usr/local/bin/vmmanager", "version")
	require.NoError(t, err, out)
	require.Contains(t, out, "v1.2.3")
	require.Equal(t, []string{"/usr/local/bin/vmmanager"}, b.config.Config.Entrypoint)
	require.Equal(t, "65532:65532", b.config.Config.User)
	require.NoDirExists(t, filepath.Join(b.root, "lib"))
	status, err := os.ReadFile(filepath.Join(b.root, "var/lib/dpkg/status"))
	require.NoError(t, err)
	require.Regexp(t, `^Package: ca-certificates\nStatus: install ok installed\nSHA256: [0-9a-f]{64}\n`, string(status))
	require.Equal(t, 1, strings.Count(string(status), "Package: "))
	b.harmless(t)
	b.consistent(t, "manager")
	b.known(t)
	b.again(t, "manager")
}

// again requires that the same sources produce the same image, bit by bit, in another folder and at another time. Both
// builds use Go's build cache, which is keyed by all inputs.
func (b built) again(t *testing.T, name string) {
	t.Helper()
	here, err := moduleRoot(t.Context())
	require.NoError(t, err)
	there := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.Mkdir(there, 0o755))
	list := exec.CommandContext(t.Context(), "git", "-C", here, "ls-files", "-zco", "--exclude-standard")
	tracked, err := list.Output()
	require.NoError(t, err)
	pack := exec.CommandContext(t.Context(), "tar", "-C", here, "-c", "--null", "--ignore-failed-read", "-T", "-")
	pack.Stdin = bytes.NewReader(tracked)
	files, err := pack.Output() // without deleted files
	require.NoError(t, err)
	unpack := exec.CommandContext(t.Context(), "tar", "-C", there, "-xm")
	unpack.Stdin = bytes.NewReader(files)
	out, err := unpack.CombinedOutput()
	require.NoError(t, err, "%s", out)

	program := filepath.Join(t.TempDir(), "images")
	out, err = exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	second := exec.CommandContext(t.Context(), program, "-version", "v1.2.3", "-o", t.TempDir(), name)
	second.Dir = there
	out, err = second.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, sum(t, b.file), sum(t, filepath.Join(second.Args[4], name+".tar")))
}

// complete requires that the programs of the runner's image find their libraries and modules when an unprivileged user
// runs them.
func (b built) complete(t *testing.T) {
	t.Helper()
	for want, args := range map[string][]string{
		"vmrunner v1.2.3":       {"/usr/local/bin/vmrunner", "version"},
		"vmimport v1.2.3":       {"/usr/local/bin/vmimport", "version"},
		"qemu-img version":      {"/usr/bin/qemu-img", "--version"},
		"QEMU emulator version": {"/usr/bin/qemu-system-x86_64", "--version"},
		"TPM emulator version":  {"/usr/bin/swtpm", "--version"},
		"qxl-vga":               {"/usr/bin/qemu-system-x86_64", "-device", "help"},
	} {
		out, err := b.inside(t, args...)
		require.NoError(t, err, out)
		require.Contains(t, out, want)
	}
	out, err := b.inside(t, "/usr/bin/qemu-system-x86_64", "-display", "none", "-drive",
		"media=cdrom,file=https://127.0.0.1:1/cd.iso")
	require.Error(t, err)
	require.Contains(t, out, "Failed to connect", "CDs come from web servers")
	require.FileExists(t, filepath.Join(b.root, "usr/share/OVMF/OVMF_CODE_4M.fd"))

	require.Equal(t, []string{"/usr/local/bin/vmrunner"}, b.config.Config.Entrypoint)
	require.Equal(t, []string{"init"}, b.config.Config.Cmd)
	require.Equal(t, "65532:65532", b.config.Config.User)
	status, err := os.ReadFile(filepath.Join(b.root, "var/lib/dpkg/status"))
	require.NoError(t, err)
	for _, name := range strings.Fields(packageList) {
		require.Regexp(t, "(?m)^Package: "+name+"\nStatus: install ok installed\nSHA256: [0-9a-f]{64}$", string(status))
		require.FileExists(t, filepath.Join(b.root, "usr/share/doc", name, "copyright"))
	}
}

// harmless requires that no file in the image grants privileges or is writable, and that the image contains
// certificates.
func (b built) harmless(t *testing.T) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(b.root, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode()&(os.ModeSetuid|os.ModeSetgid), path)
		owner, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		require.Zero(t, owner.Uid+owner.Gid, path)
		if path != b.root && d.Type() != os.ModeSymlink {
			require.Zero(t, info.Mode()&0o002, path)
		}
		return nil
	}))
	text, err := os.ReadFile(filepath.Join(b.root, "etc/ssl/certs/ca-certificates.crt"))
	require.NoError(t, err)
	count := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		_, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		count++
	}
	require.Greater(t, count, 100)
}

// consistent requires that both lists of the archive, containerd's index.json and Docker's manifest.json, refer to
// existing files with the right checksums.
func (b built) consistent(t *testing.T, name string) {
	t.Helper()
	var index v1.IndexManifest
	require.NoError(t, json.Unmarshal(b.archive["index.json"], &index))
	require.Len(t, index.Manifests, 1)
	require.Equal(t, "docker.io/vmop/"+name+":v1.2.3", index.Manifests[0].Annotations["io.containerd.image.name"])
	var manifest v1.Manifest
	require.NoError(t, json.Unmarshal(b.archive[blobPath(index.Manifests[0].Digest)], &manifest))
	for _, d := range append(manifest.Layers, manifest.Config, index.Manifests[0]) {
		content := b.archive[blobPath(d.Digest)]
		require.Len(t, content, int(d.Size))
		digest, _, err := v1.SHA256(bytes.NewReader(content))
		require.NoError(t, err)
		require.Equal(t, d.Digest, digest)
	}
	for i, d := range manifest.Layers {
		zip, err := gzip.NewReader(bytes.NewReader(b.archive[blobPath(d.Digest)]))
		require.NoError(t, err)
		digest, _, err := v1.SHA256(zip)
		require.NoError(t, err)
		require.Equal(t, b.config.RootFS.DiffIDs[i], digest)
	}
}

// known requires that other programs can read the archive, both as an OCI archive and as a Docker archive, and copy its
// contents.
func (b built) known(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"oci-archive:", "docker-archive:"} {
		out, err := exec.CommandContext(t.Context(), "skopeo", "inspect", "--config", kind+b.file).CombinedOutput()
		require.NoError(t, err, "%s", out)
		var config v1.ConfigFile
		require.NoError(t, json.Unmarshal(out, &config))
		require.Equal(t, b.config.Config.Entrypoint, config.Config.Entrypoint)
		require.Equal(t, b.config.RootFS, config.RootFS)
		out, err = exec.CommandContext(t.Context(), "skopeo", "--insecure-policy", "copy", "--quiet", kind+b.file,
			"dir:"+t.TempDir()).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// The layer of packages is the same without the cache of earlier builds.
func TestSamePackagesSameLayer(t *testing.T) {
	t.Parallel()
	a, unlock, err := openCache(amd64)
	require.NoError(t, err)
	defer unlock()
	require.NoError(t, a.updateLists(t.Context(), false))
	debs, err := a.downloadPackages(t.Context(), allRecipes(amd64)[0].packages)
	require.NoError(t, err)
	kept, err := allRecipes(amd64)[0].systemLayer(t.Context(), a, debs)
	require.NoError(t, err)
	again := filepath.Join(t.TempDir(), "layer.tar.gz")
	require.NoError(t, allRecipes(amd64)[0].writeSystem(t.Context(), a, debs, again))
	require.Equal(t, sum(t, kept), sum(t, again))
}

// Additional packages are only in the runner's image, and the cache keeps their layer next to the layer without them.
func TestMorePackages(t *testing.T) {
	t.Parallel()
	plain, more := allRecipes(amd64), allRecipes(amd64, "qemu-system-arm", "qemu-efi-aarch64")
	require.Equal(t, append(plain[0].packages, "qemu-system-arm", "qemu-efi-aarch64"), more[0].packages)
	require.NotEqual(t, plain[0].kept, more[0].kept)
	require.Equal(t, plain[1].packages, more[1].packages)
}

func sum(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	digest, size, err := v1.SHA256(f)
	require.NoError(t, err)
	return fmt.Sprint(digest, size)
}

// The Containerfiles build the same images.
func TestContainerfiles(t *testing.T) {
	t.Parallel()
	for _, r := range allRecipes(amd64) {
		text, err := os.ReadFile(r.name + ".Containerfile")
		require.NoError(t, err)
		require.Contains(t, string(text), fmt.Sprintf("\nENTRYPOINT [%q]\nCMD [%q]\n", "/"+r.programPath(),
			r.arguments[0]))
		require.Contains(t, string(text), "\nUSER "+user+"\n")
		require.Contains(t, string(text), "\nCOPY deploy/images/passwd deploy/images/group /etc/\n")
		for _, program := range append(r.others, r.program) {
			require.Contains(t, string(text), "\nCOPY bin/"+program+" /usr/local/bin/"+program+"\n")
		}
		require.Contains(t, string(text), "\nCOPY LICENSE NOTICE deploy/third_party/NOTICES.txt /usr/share/doc/vmop/\n")
		require.Equal(t, r.name == "runner", strings.Contains(string(text), "</tmp/packages"))
		release := strings.Fields(string(sources[bytes.Index(sources, []byte("Suites:")):]))[1]
		require.Contains(t, string(text), "FROM debian:"+release+"-slim")
	}
}

func TestParseURIs(t *testing.T) {
	t.Parallel()
	debs, err := parseURIs(
		"'http://x/b.deb' b_2%3a1_amd64.deb 12 SHA256:bb\n\n'http://x/a.deb' a_1_all.deb 13 SHA256:aa\n")
	require.NoError(t, err)
	require.Equal(t, []deb{{"a_1_all.deb", "aa"}, {"b_2%3a1_amd64.deb", "bb"}}, debs)
	for _, text := range []string{"E: nothing", "'http://x' a.deb 1 MD5Sum:aa", "'http://x' ../a.deb 1 SHA256:aa"} {
		_, err := parseURIs(text)
		require.ErrorContains(t, err, "apt-get prints")
	}
}

// A package file that changed after apt verified it is not added to an image.
func TestVerify(t *testing.T) {
	t.Parallel()
	a := apt{dir: t.TempDir()}
	d := deb{file: "a_1_all.deb", sha256: "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"}
	require.ErrorContains(t, a.verifyPackage(d), "apt-get has not downloaded it")
	require.NoError(t, os.Mkdir(filepath.Join(a.dir, "archives"), 0o755))
	require.NoError(t, os.WriteFile(a.archivePath(d), []byte("foo"), 0o600))
	require.NoError(t, a.verifyPackage(d))
	require.NoError(t, os.WriteFile(a.archivePath(d), []byte("bar"), 0o600))
	require.ErrorContains(t, a.verifyPackage(d), "must be 2c26b4")
	require.NoFileExists(t, a.archivePath(d))
}

// Packages without a signature are refused, even if this computer's apt configuration accepts them.
func TestUnsignedPackagesAreRefused(t *testing.T) {
	a, repository := apt{t.TempDir(), amd64}, t.TempDir()
	require.NoError(t, a.prepareFolders())
	conf := filepath.Join(repository, "apt.conf")
	for name, content := range map[string]string{
		filepath.Join(repository, "Packages"): "",
		filepath.Join(repository, "Release"): "Date: Fri, 27 Nov 2026 00:00:00 UTC\nSHA256:\n " +
			"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 Packages\n",
		filepath.Join(a.dir, "debian.sources"): "Types: deb\nURIs: file:" + repository + "\nSuites: ./\n",
		conf:                                   "Acquire::AllowInsecureRepositories \"true\";\nAPT::Get::AllowUnauthenticated \"true\";\n",
	} {
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	t.Setenv("APT_CONFIG", conf)
	_, err := a.runAptGet(t.Context(), "update")
	require.ErrorContains(t, err, "is not signed")
}

// A layer contains the paths of Debian 12's merged /usr, one owner, one time, and no special permissions from packages.
func TestUnpack(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "./lib/a.so", Mode: 0o4755, Uid: 7, Uname: "joe", ModTime: time.Unix(99, 0)},
		{Typeflag: tar.TypeLink, Name: "./usr/bin/b", Linkname: "./lib/a.so", Mode: 0o2755},
		{Typeflag: tar.TypeReg, Name: "./usr/share/man/man1/a.1", Mode: 0o644},
		{Typeflag: tar.TypeReg, Name: "./usr/share/doc/a/README", Mode: 0o644},
		{Typeflag: tar.TypeReg, Name: "./usr/share/doc/a/copyright", Mode: 0o644},
	} {
		require.NoError(t, w.WriteHeader(&h))
	}
	require.NoError(t, w.Close())
	file := filepath.Join(t.TempDir(), "layer.tar.gz")
	l, err := newLayer(file, time.Unix(5, 0))
	require.NoError(t, err)
	require.NoError(t, l.unpackPackage(&archive, isNeeded))
	require.NoError(t, l.closeLayer())

	list := exec.CommandContext(t.Context(), "tar", "-tvz", "--numeric-owner", "--full-time", "--utc", "-f", file)
	out, err := list.CombinedOutput()
	require.NoError(t, err)
	var got []string
	for line := range strings.Lines(string(out)) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	const at = "1970-01-01 00:00:05 "
	require.Equal(t, []string{
		"drwxr-xr-x 0/0 0 " + at + "usr/", "drwxr-xr-x 0/0 0 " + at + "usr/lib/",
		"-rwxr-xr-x 0/0 0 " + at + "usr/lib/a.so", "drwxr-xr-x 0/0 0 " + at + "usr/bin/",
		"hrwxr-xr-x 0/0 0 " + at + "usr/bin/b link to usr/lib/a.so",
		"drwxr-xr-x 0/0 0 " + at + "usr/share/", "drwxr-xr-x 0/0 0 " + at + "usr/share/doc/", "drwxr-xr-x 0/0 0 " + at +
			"usr/share/doc/a/",
		"-rw-r--r-- 0/0 0 " + at + "usr/share/doc/a/copyright",
	}, got)
}

func TestNamesOfImages(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, runBuild(t.Context(), []string{"runer"}),
		`there is no image "runer": use runner or manager`)
	_, err := parseEpoch("yesterday")
	require.ErrorContains(t, err, "must be seconds since 1970")
}
