package v1_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/cluster/clustertest"
)

// testDisks checks the definition of VirtualDisks.
func testDisks(t *testing.T, k *clustertest.Namespace) {
	apply := k.TryApply
	disk := func(source string) string {
		return "{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: root}, " +
			"spec: {persistentVolumeClaim: {size: 1Gi}" + source + "}}"
	}
	for page, n := range map[string]int{
		"disks": 2, "attach-disks": 1, "disk-snapshots": 2, "virtual-images": 3, "cluster-images": 2, "vm-snapshots": 1,
		"clone": 2,
	} {
		text, err := os.ReadFile("../../docs/tasks/" + page + ".md")
		require.NoError(t, err)
		examples := regexp.MustCompile("(?s)```yaml\n(apiVersion.*?)```").FindAllStringSubmatch(string(text), -1)
		require.Len(t, examples, n, page)
		for _, e := range examples {
			require.NoError(t, apply(e[1]), e[1])
		}
	}
	image := func(spec string) string {
		return "{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualImage, metadata: {name: i}, spec: {" + spec + "}}"
	}
	const from = "dataSource: {type: HTTP, http: {url: 'https://example.org/x'}}"
	for spec, want := range map[string]string{
		from:                                 "spec.persistentVolumeClaim: Required value",
		"persistentVolumeClaim: {size: 1Gi}": "spec.dataSource: Required value",
		"storage: ContainerRegistry, persistentVolumeClaim: {size: 1Gi}, " + from: "there is no registry for them",
		"persistentVolumeClaim: {size: 1Gi, accessMode: ReadOnlyMany}, " + from:   "Unsupported value",
		"persistentVolumeClaim: {size: many}, " + from:                            "must be a size such as 10Gi",
	} {
		err := apply(image(spec))
		require.Error(t, err, spec)
		require.Contains(t, strings.ReplaceAll(err.Error(), "\n", " "), want)
	}
	require.NoError(t, apply(image("persistentVolumeClaim: {size: 1Gi}, "+from)))
	require.ErrorContains(t, apply(image("persistentVolumeClaim: {size: 1Gi}, "+strings.Replace(from, "/x", "/y", 1))),
		"where the data of an image comes from can't be changed: make another image")

	testClusterImages(t, k, apply)
	testReferences(t, apply)

	const http, container = ", dataSource: {type: HTTP, http: ", ", dataSource: {type: ContainerImage, containerImage: "
	for source, want := range map[string]string{
		", dataSource: {type: Ftp}": `spec.dataSource.type: Unsupported value: "Ftp": ` +
			`supported values: "HTTP", "ContainerImage", "ObjectRef", "Upload"`,
		", dataSource: {type: Upload, http: {url: 'http://a/'}}":  "the type Upload allows nothing else",
		", dataSource: {type: HTTP}":                              "the type HTTP requires http, and nothing else",
		", dataSource: {type: ContainerImage, http: {url: 'a:'}}": "the type ContainerImage requires containerImage",
		", dataSource: {type: ObjectRef}":                         "the type ObjectRef requires objectRef",
		", dataSource: {type: ObjectRef, objectRef: {kind: Pod, name: a}}": "spec.dataSource.objectRef.kind: " +
			`Unsupported value: "Pod": supported values: "VirtualImage", "ClusterVirtualImage", "VirtualDisk", "VirtualDiskSnapshot", "VirtualMachineSnapshot"`,
		http + "{}}":                                       "spec.dataSource.http.url: Required value",
		http + "{url: debian.qcow2}}":                      "such as https://example.org/debian.qcow2",
		http + "{url: 'ftp://example.org/x'}}":             "must be a URL of http or https",
		http + "{url: 'https:///x'}}":                      "must be a URL of http or https",
		http + "{url: 'https://me:pw@example.org/x'}}":     "put them into a Secret (secretRef)",
		http + "{url: 'https://a/x', checksum: {}}}":       "set exactly one of md5, sha256 and sha512",
		http + "{url: 'https://a/x', checksum: {md5: a}}}": `Invalid value: "a": must be 32 hexadecimal digits`,
		http + "{url: 'https://a/x', checksum: {md5: '" +
			strings.Repeat("a", 32) + "', sha256: '" +
			strings.Repeat("a", 64) + "'}}}": "set exactly one of md5, sha256 and sha512",
		http + "{url: 'https://a/x', caBundle: '?'}}": "spec.dataSource.http.caBundle",
		http + "{url: 'https://a/x', caBundle: '" +
			strings.Repeat("YWFh", 33<<10) + "'}}": "spec.dataSource.http.caBundle: Too long",
		http + "{url: 'https://a/x', secretRef: {name: ''}}}": "spec.dataSource.http.secretRef.name",
		container + "{image: ''}}":                            "must be the name of a container image",
		container + "{image: '-a b'}}":                        "must be the name of a container image",
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

// testClusterImages checks the definition of ClusterVirtualImages.
func testClusterImages(t *testing.T, k *clustertest.Namespace, apply func(text string) error) {
	t.Helper()
	image := func(name, source string) string {
		return "{apiVersion: vmoperator.jdrupes.org/v1, kind: ClusterVirtualImage, metadata: {name: " + name + "}, " +
			"spec: {persistentVolumeClaim: {size: 1Gi}, dataSource: " + source + "}}"
	}
	digits := strings.Repeat("0a", 32)
	sum := "checksum: {sha256: " + digits + "}"
	const http = "{type: HTTP, http: {url: 'https://example.org/x'"
	const container = "{type: ContainerImage, containerImage: {image: 'a/b"
	good := http + ", " + sum + "}}"
	for source, want := range map[string]string{
		"{type: Upload}": "must be HTTP or ContainerImage, as each namespace gets the data for itself",
		"{type: ObjectRef, objectRef: {kind: VirtualImage, name: a}}": "must be HTTP or ContainerImage",
		"{type: HTTP}": "the type HTTP requires http",
		http + "}}":    "spec.dataSource.http: Invalid value: set a checksum",
		http + ", secretRef: {name: a}, " + sum + "}}":                      "secretRef can't be given",
		container + ":1'}}":                                                 "must contain a digest instead of a tag",
		container + "@sha256:" + digits[1:] + "'}}":                         "must contain a digest",
		container + "@sha256:" + digits + "', imagePullSecret: {name: a}}}": "imagePullSecret can't be given",
	} {
		err := apply(image("i", source))
		require.Error(t, err, source)
		require.Contains(t, strings.ReplaceAll(err.Error(), "\n", " "), want)
	}
	for _, name := range []string{strings.Repeat("a", 57), "a.b"} {
		require.ErrorContains(t, apply(image(name, good)),
			"of at most 56 characters: the VirtualImages that are made of it are called cvi-NAME")
	}
	longest := strings.Repeat("a", 56)
	require.NoError(t, apply(image(longest, container+":1@sha256:"+digits+"'}}")))
	require.NoError(t, apply(image("i", good)))
	require.Regexp(t, `^NAME +TYPE +SIZE +AGE\ni +HTTP +1Gi +\d+s\n$`, k.Kubectl("get", "cvi", "i"))
	require.ErrorContains(t, apply(image("i", strings.Replace(good, "org/x", "org/y", 1))),
		"where the data of an image comes from can't be changed: make another image")
	require.NoError(t, apply(strings.Replace(image("i", good), "1Gi", "2Gi", 1)))
	require.ErrorContains(t, apply(image("i", good)), "an image can grow, but not shrink")
	k.Kubectl("delete", "cvi", "--all")
}

// testReferences checks the definitions with an immutable reference to a VM, a disk or a snapshot.
func testReferences(t *testing.T, apply func(text string) error) {
	t.Helper()
	object := func(kind, name, spec string) string {
		return "{apiVersion: vmoperator.jdrupes.org/v1, kind: " + kind + ", metadata: {name: " + name + "}, spec: {" +
			spec + "}}"
	}
	const ofDisk, ofVM = "VirtualDiskSnapshot", "VirtualMachineSnapshot"
	const attachment = "VirtualMachineBlockDeviceAttachment"
	for _, c := range []struct{ kind, name, spec, want string }{
		{attachment, "a", "", "spec.virtualMachineName: Required value"},
		{attachment, "a", "virtualMachineName: a", "spec.blockDeviceRef: Required value"},
		{
			attachment, "a", "virtualMachineName: A/b, blockDeviceRef: {kind: VirtualDisk, name: a}",
			"must be the name of a VM in this namespace",
		},
		{
			attachment, "a", "virtualMachineName: a, blockDeviceRef: {kind: VirtualDisk, name: a.b}",
			"must be the name of a VirtualDisk or VirtualImage in this",
		},
		{
			attachment, "a", "virtualMachineName: a, blockDeviceRef: {kind: ConfigMap, name: a}",
			"must be VirtualDisk, VirtualImage or ClusterVirtualImage",
		},
		{attachment, "a", "virtualMachineName: a, blockDeviceRef: {name: a}", "spec.blockDeviceRef.kind: Required value"},
		{ofDisk, "a.b", "virtualDiskName: data", "metadata.name must be a DNS label"},
		{ofDisk, "a", "virtualDiskName: A/B", "must be the name of a VirtualDisk"},
		{ofDisk, "a", "", "spec.virtualDiskName: Required value"},
		{ofVM, "a.b", "virtualMachineName: web", "metadata.name must be a DNS label"},
		{ofVM, "a", "virtualMachineName: A/B", "must be the name of a VM"},
		{ofVM, "a", "", "spec.virtualMachineName: Required value"},
		{
			ofVM, "a", "virtualMachineName: web, volumeSnapshotClasses: [{storageClassName: a, " +
				"volumeSnapshotClassName: b}, {storageClassName: a, volumeSnapshotClassName: c}]", "duplicate entries",
		},
		{
			"VirtualDisk", "d", "persistentVolumeClaim: {size: 1Gi}, dataSource: {type: ObjectRef, " +
				"objectRef: {kind: VirtualMachineSnapshot, name: a}}", "which disk of a VirtualMachineSnapshot is meant",
		},
		{
			"VirtualDisk", "d", "persistentVolumeClaim: {size: 1Gi}, dataSource: {type: ObjectRef, " +
				"objectRef: {kind: VirtualDiskSnapshot, name: a, virtualDiskName: b}}", "is left out otherwise",
		},
		{
			"VirtualMachine", "v", "vm: {maximumCpus: 1}, dataSource: {kind: VirtualDiskSnapshot, name: a}",
			"spec.dataSource.kind: Unsupported value",
		},
	} {
		err := apply(object(c.kind, c.name, c.spec))
		require.Error(t, err, c.spec)
		require.Contains(t, strings.ReplaceAll(err.Error(), "\n", " "), c.want)
	}
	for _, c := range []struct{ kind, spec, want string }{
		{
			attachment, "virtualMachineName: NAME, blockDeviceRef: {kind: VirtualDisk, name: a}",
			"an attachment can't be changed: ",
		},
		{ofDisk, "virtualDiskName: NAME", "a snapshot can't be changed: make another one"},
		{ofVM, "virtualMachineName: NAME", "a snapshot can't be changed: make another one"},
	} {
		text := object(c.kind, "fixed", c.spec)
		require.NoError(t, apply(strings.ReplaceAll(text, "NAME", "a")))
		require.ErrorContains(t, apply(strings.ReplaceAll(text, "NAME", "b")), c.want)
	}
}
