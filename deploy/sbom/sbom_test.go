package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// compiled builds a program and returns its file.
func compiled(t *testing.T, program string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), program)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", file, "vmop/cmd/"+program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

// linked returns the modules of a program's packages according to the go command, and Go.
func linked(t *testing.T, program string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		`{{with .Module}}{{if not .Main}}{{with or .Replace .}}{{.Path}} {{.Version}}{{end}}{{end}}{{end}}`, "vmop/cmd/"+program)
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	require.NoError(t, err)
	version, err := exec.CommandContext(t.Context(), "go", "env", "GOVERSION").Output()
	require.NoError(t, err)
	modules := []string{"std " + strings.TrimPrefix(strings.TrimSpace(string(version)), "go")}
	for line := range strings.Lines(string(out)) {
		modules = append(modules, strings.TrimSpace(line))
	}
	slices.Sort(modules)
	return slices.DeleteFunc(slices.Compact(modules), func(m string) bool { return m == "" })
}

// listed runs the command for a file, and returns its output.
func listed(t *testing.T, file string) (list cdx.BOM, components []string) {
	t.Helper()
	out := t.TempDir()
	require.NoError(t, runSBOM([]string{"-version", "v1.2.3", "-o", out, file}))
	written, err := os.Open(filepath.Join(out, strings.TrimSuffix(filepath.Base(file), ".tar")+".cdx.json"))
	require.NoError(t, err)
	defer written.Close()
	require.NoError(t, cdx.NewBOMDecoder(written, cdx.BOMFileFormatJSON).Decode(&list))
	refs := map[string]bool{list.Metadata.Component.BOMRef: true}
	for _, c := range *list.Components {
		require.False(t, refs[c.BOMRef], "%s exists twice", c.BOMRef)
		refs[c.BOMRef] = true
		components = append(components, c.Name+" "+c.Version)
	}
	for _, d := range *list.Dependencies {
		require.True(t, refs[d.Ref], d.Ref)
		for _, ref := range *d.Dependencies {
			require.True(t, refs[ref], ref)
		}
	}
	slices.Sort(components)
	return list, components
}

// The list contains exactly the linked modules, with their checksums.
func TestModulesOfAProgram(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"vmrunner", "vmmanager", "vmtype"} {
		list, components := listed(t, compiled(t, program))
		require.Equal(t, linked(t, program), components)
		require.Equal(t, "pkg:golang/vmop/cmd/"+program+"@v1.2.3", list.Metadata.Component.PackageURL)
		for _, c := range *list.Components {
			require.True(t, c.Name == "std" || len((*c.Hashes)[0].Value) == 64, c.Name)
		}
	}
}

// The list of an image contains its packages, its programs and their modules.
func TestPartsOfAnImage(t *testing.T) {
	t.Parallel()
	file := compiled(t, "vmtype")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	const status = "Package: libc6\nStatus: install ok installed\nSHA256: " + libcSum + "\n" +
		"Architecture: amd64\nVersion: 2.36-9+deb12u10\n" +
		"Description: a library\n Version: none\n\nPackage: libstdc++6\nArchitecture: amd64\nVersion: 1:12.2~a\n"
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for name, content := range map[string]string{
		debianStatus: status, ourPrograms + "vmtype": string(text), "usr/bin/qemu": "not ours",
	} {
		require.NoError(t, w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o755,
		}))
		_, err := io.WriteString(w, content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	require.NoError(t, err)
	img, err := mutate.AppendLayers(empty.Image, l)
	require.NoError(t, err)
	img, err = mutate.ConfigFile(img, armConfig(t, img))
	require.NoError(t, err)
	archive := filepath.Join(t.TempDir(), "runner-arm64.tar")
	writeArchive(t, archive, img)

	list, components := listed(t, archive)
	want := append(linked(t, "vmtype"), "libc6 2.36-9+deb12u10", "libstdc++6 1:12.2~a", "vmtype v1.2.3")
	slices.Sort(want)
	require.Equal(t, want, components)
	require.Equal(t, cdx.ComponentTypeContainer, list.Metadata.Component.Type)
	require.Equal(t, "vmop/runner", list.Metadata.Component.Name)
	require.Equal(t, "pkg:oci/runner@sha256%3A"+manifestSum+"?arch=arm64", list.Metadata.Component.PackageURL)
	var deb []string
	for _, c := range *list.Components {
		if c.Name == "libc6" {
			require.Equal(t, sha256Of(libcSum), c.Hashes)
		}
		if strings.HasPrefix(c.PackageURL, "pkg:deb/") {
			deb = append(deb, c.PackageURL)
		}
	}
	require.Equal(t, []string{
		"pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=bookworm",
		"pkg:deb/debian/libstdc%2B%2B6@1%3A12.2~a?arch=amd64&distro=bookworm",
	}, deb)
}

const (
	libcSum     = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
	manifestSum = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
)

// writeArchive writes an image as deploy/images does: a Docker archive with an index.json that contains another digest
// of the manifest.
func writeArchive(t *testing.T, file string, img v1.Image) {
	t.Helper()
	var docker bytes.Buffer
	require.NoError(t, tarball.Write(name.MustParseReference("vmop/runner:v1.2.3"), img, &docker))
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	index := `{"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 1, ` +
		`"digest": "sha256:` + manifestSum + `"}]}`
	w := tar.NewWriter(f)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "index.json", Size: int64(len(index))}))
	_, err = io.WriteString(w, index)
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	_, err = docker.WriteTo(f)
	require.NoError(t, err)
}

// armConfig returns an image configuration for arm64.
func armConfig(t *testing.T, img v1.Image) *v1.ConfigFile {
	t.Helper()
	config, err := img.ConfigFile()
	require.NoError(t, err)
	config.Architecture = "arm64"
	return config
}

// The Debian release is the release of the images' packages.
func TestTheReleaseOfDebian(t *testing.T) {
	t.Parallel()
	sources, err := os.ReadFile("../images/debian.sources")
	require.NoError(t, err)
	require.Contains(t, string(sources), "\nSuites: "+debianRelease+" ")
}
