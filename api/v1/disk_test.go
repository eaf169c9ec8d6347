package v1_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/cluster/clustertest"
)

// testDisks checks the definition of VirtualDisks.
func testDisks(t *testing.T, k *clustertest.Namespace) {
	apply := func(text string) error {
		file := filepath.Join(t.TempDir(), "disk.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		cmd := k.KubectlCommand(t.Context(), "--namespace", k.Name, "apply", "--validate=strict", "-f", file)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return &kubectlError{string(out)}
		}
		return nil
	}
	disk := func(source string) string {
		return "{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: root}, " +
			"spec: {persistentVolumeClaim: {size: 1Gi}" + source + "}}"
	}
	page, err := os.ReadFile("../../docs/disks.md")
	require.NoError(t, err)
	examples := regexp.MustCompile("(?s)```yaml\n(apiVersion.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, examples, 4)
	for _, e := range examples {
		require.NoError(t, apply(e[1]), e[1])
	}

	const http, image = ", dataSource: {type: HTTP, http: ", ", dataSource: {type: ContainerImage, containerImage: "
	for source, want := range map[string]string{
		", dataSource: {type: Upload}": `spec.dataSource.type: Unsupported value: "Upload": ` +
			`supported values: "HTTP", "ContainerImage", "ObjectRef"`,
		", dataSource: {type: HTTP}":                              "the type HTTP wants http, and nothing else",
		", dataSource: {type: ContainerImage, http: {url: 'a:'}}": "the type ContainerImage wants containerImage",
		", dataSource: {type: ObjectRef}":                         "the type ObjectRef wants objectRef",
		", dataSource: {type: ObjectRef, objectRef: {kind: VirtualImage, name: a}}": "spec.dataSource.objectRef.kind: " +
			`Unsupported value: "VirtualImage": supported values: "VirtualDiskSnapshot"`,
		http + "{}}":                                       "spec.dataSource.http.url: Required value",
		http + "{url: debian.qcow2}}":                      "such as https://example.org/debian.qcow2",
		http + "{url: 'ftp://example.org/x'}}":             "want a URL of http or https",
		http + "{url: 'https:///x'}}":                      "want a URL of http or https",
		http + "{url: 'https://me:pw@example.org/x'}}":     "put them into a Secret (secretRef)",
		http + "{url: 'https://a/x', checksum: {}}}":       "want one of md5, sha256 and sha512",
		http + "{url: 'https://a/x', checksum: {md5: a}}}": `Invalid value: "a": want 32 hexadecimal digits`,
		http + "{url: 'https://a/x', checksum: {md5: '" +
			strings.Repeat("a", 32) + "', sha256: '" +
			strings.Repeat("a", 64) + "'}}}": "want one of md5, sha256 and sha512",
		http + "{url: 'https://a/x', caBundle: '?'}}": "spec.dataSource.http.caBundle",
		http + "{url: 'https://a/x', caBundle: '" +
			strings.Repeat("YWFh", 33<<10) + "'}}": "spec.dataSource.http.caBundle: Too long",
		http + "{url: 'https://a/x', secretRef: {name: ''}}}": "spec.dataSource.http.secretRef.name",
		image + "{image: ''}}":                                "want the name of a container image",
		image + "{image: '-a b'}}":                            "want the name of a container image",
	} {
		err := apply(disk(source))
		require.Error(t, err, source)
		require.Contains(t, strings.ReplaceAll(err.Error(), "\n", " "), want)
	}
	const given = http + "{url: 'https://example.org/x', checksum: {sha512: '%'}, secretRef: {name: s}, caBundle: UEVN}}"
	good := disk(strings.ReplaceAll(given, "%", strings.Repeat("a", 128)))
	require.NoError(t, apply(good))
	const changed = "where the data of a disk comes from can't be changed: make another disk"
	require.ErrorContains(t, apply(strings.Replace(good, "example.org/x", "example.org/y", 1)), changed)
	k.Kubectl("delete", "vd", "root")
	require.NoError(t, apply(disk("")))
	require.ErrorContains(t, apply(good), changed)
	require.ErrorContains(t, apply(strings.Replace(disk(""), "1Gi", "1Mi", 1)), "a disk can grow, but not shrink")
}

// kubectlError is what kubectl says.
type kubectlError struct{ text string }

func (r *kubectlError) Error() string { return r.text }
