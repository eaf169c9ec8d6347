package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/cluster"
	"vmop/test/program"
	"vmop/test/wait"
)

// claim is a claim of a class of CSI, with more of its specification.
func claim(name, mode, size, more string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec:
  storageClassName: %s
  accessModes: [ReadWriteOnce]
  volumeMode: %s
  resources: {requests: {storage: %s}}
%s
`, name, cluster.CSIClass, mode, size, more)
}

// from is what a claim is copied from.
func from(kind, name string) string {
	group := ""
	if kind == "VolumeSnapshot" {
		group = "snapshot.storage.k8s.io"
	}
	return fmt.Sprintf("  dataSource: {kind: %s, name: %s, apiGroup: %q}", kind, name, group)
}

func snapshot(name, of string) string {
	return fmt.Sprintf(`---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: %s}
spec:
  volumeSnapshotClassName: %s
  source: {persistentVolumeClaimName: %s}
`, name, cluster.CSIClass, of)
}

// user is a pod that has claims: names that begin with "block" as /dev/NAME, others as /NAME.
func user(name, node string, claims ...string) string {
	var mounts, devices, volumes strings.Builder
	for _, claim := range claims {
		if strings.HasPrefix(claim, "block") {
			fmt.Fprintf(&devices, "{name: %[1]s, devicePath: /dev/%[1]s}, ", claim)
		} else {
			fmt.Fprintf(&mounts, "{name: %[1]s, mountPath: /%[1]s}, ", claim)
		}
		fmt.Fprintf(&volumes, "{name: %[1]s, persistentVolumeClaim: {claimName: %[1]s}}, ", claim)
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: %s
    imagePullPolicy: Never
    command: [sleep, "1000000"]
    volumeMounts: [%s]
    volumeDevices: [%s]
  volumes: [%s]
`, name, node, cluster.BusyboxImage, &mounts, &devices, &volumes)
}

// csiTest is a cluster with CSI.
type csiTest struct {
	*cluster.Cluster
	t *testing.T
}

func (c csiTest) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.Kubectl(c.t.Context(), args...)
	require.NoError(c.t, err)
	return strings.TrimSpace(out)
}

func (c csiTest) apply(documents ...string) {
	c.t.Helper()
	cmd := c.KubectlCommand(c.t.Context(), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.Join(documents, "\n"))
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%s", out)
}

// sh runs a command in a pod.
func (c csiTest) sh(pod, command string) string {
	c.t.Helper()
	return c.kubectl("exec", pod, "--", "sh", "-c", command)
}

// volumes returns what is in the driver's folder.
func (c csiTest) volumes() (names []string) {
	for _, kind := range []string{"volumes", "snapshots", "nodes/node1", "nodes/node2"} {
		found, err := filepath.Glob(filepath.Join(c.Dir, "csi", kind, "*"))
		require.NoError(c.t, err)
		names = append(names, found...)
	}
	return names
}

// Volumes of both modes are made, grow in use, are copied as snapshots and clones with
// their bytes of that moment, go from a node to another, and leave nothing when they are
// deleted.
func TestCSI(t *testing.T) {
	t.Parallel()
	require.NoError(t, program.LookInto("../../tools/csi"))
	up, err := cluster.Up(t.Context(), cluster.Options{Nodes: 2, Log: func(line string) { t.Log(line) }})
	require.NoError(t, err)
	c := csiTest{up, t}
	t.Cleanup(func() { c.end() })
	require.NoError(t, c.AddCSI(t.Context()))

	c.apply(claim("files", "Filesystem", "32Mi", ""), claim("block", "Block", "32Mi", ""),
		user("writer", "node1", "files", "block"))
	c.kubectl("wait", "--for=condition=Ready", "pod/writer", "--timeout=3m")
	c.sh("writer", "echo before >/files/text; echo before | dd of=/dev/block bs=1M seek=20 conv=sync")
	require.Less(t, onDisk(t, c.Dir), int64(8<<20), "volumes are holes but for what was written")

	c.kubectl("patch", "pvc", "files", "block", "--type=merge", "-p",
		`{"spec":{"resources":{"requests":{"storage":"64Mi"}}}}`)
	c.kubectl("wait", "pvc", "files", "block", "--for=jsonpath={.status.capacity.storage}=64Mi", "--timeout=3m")
	require.Equal(t, "67108864", c.sh("writer", "blockdev --getsize64 /dev/block"))
	require.Greater(t, len(c.sh("writer", "df -k /files | awk '$2 > 50000'")), 0, "the file system has grown too")

	c.apply(snapshot("of-files", "files"), snapshot("of-block", "block"))
	c.kubectl("wait", "volumesnapshot", "--all", "--for=jsonpath={.status.readyToUse}=true", "--timeout=3m")
	c.sh("writer", "echo after >/files/text; echo after | dd of=/dev/block bs=1M seek=20 conv=sync; sync")
	c.apply(
		claim("restored", "Filesystem", "96Mi", from("VolumeSnapshot", "of-files")),
		claim("block-restored", "Block", "96Mi", from("VolumeSnapshot", "of-block")),
		claim("cloned", "Filesystem", "64Mi", from("PersistentVolumeClaim", "files")),
		claim("block-cloned", "Block", "64Mi", from("PersistentVolumeClaim", "block")))
	c.kubectl("wait", "pvc", "--all", "--for=jsonpath={.status.phase}=Bound", "--timeout=3m")
	c.kubectl("delete", "pod", "writer", "--timeout=3m")
	c.apply(user("reader", "node2", "files", "block", "restored", "block-restored", "cloned", "block-cloned"))
	c.kubectl("wait", "--for=condition=Ready", "pod/reader", "--timeout=3m")
	for name, want := range map[string]string{"": "after", "restored": "before", "cloned": "after"} {
		file, device := "/files", "/dev/block"
		if name != "" {
			file, device = "/"+name, "/dev/block-"+name
		}
		require.Equal(t, want, c.sh("reader", "cat "+file+"/text"), file)
		require.Equal(t, want, c.sh("reader", "dd if="+device+" bs=1M skip=20 count=1 2>/dev/null | head -n 1"), device)
	}
	require.Greater(t, len(c.sh("reader", "df -k /restored | awk '$2 > 80000'")), 0, "it has grown with its copy")

	c.kubectl("delete", "pod", "reader", "--timeout=3m")
	c.kubectl("delete", "volumesnapshots,pvc", "--all", "--timeout=3m")
	c.kubectl("wait", "pv", "--all", "--for=delete", "--timeout=3m")
	wait.Until(t, func() bool {
		return len(c.volumes()) == 0 && len(attached(t.Context(), t, c.Dir)) == 0
	}, "all is deleted")
}

// end takes the cluster down, and says what its programs have said where the test has failed.
func (c csiTest) end() {
	ctx := context.WithoutCancel(c.t.Context())
	if c.t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(c.Dir, "cs*.log"))
		for _, log := range logs {
			text, _ := os.ReadFile(log)
			c.t.Logf("%s:\n%s", log, text[max(0, len(text)-8000):])
		}
		out, err := c.Kubectl(ctx, "describe", "pods,pvc,volumesnapshots,volumeattachments")
		c.t.Log(out, err)
	}
	require.NoError(c.t, c.Down(ctx))
	require.Empty(c.t, attached(ctx, c.t, c.Dir))
}

// onDisk returns how many bytes the volumes of a cluster have.
func onDisk(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "csi/volumes/*.img"))
	require.NoError(t, err)
	for _, file := range files {
		var is syscall.Stat_t
		require.NoError(t, syscall.Stat(file, &is))
		bytes += is.Blocks * 512
	}
	return bytes
}
