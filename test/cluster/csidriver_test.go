package cluster_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/cluster"
	"vmop/test/program"
)

// sanity runs csi-sanity on the driver, both in their own mount namespace, so that the driver's mounts end with it.
const sanity = `
"$PROGRAMS/csidriver" -endpoint "$DIR/csi.sock" -folder "$DIR/volumes" -node here &
driver=$!
until [ -S "$DIR/csi.sock" ]; do sleep 0.1; done
status=0
"$PROGRAMS/csi-sanity" -csi.endpoint "$DIR/csi.sock" -csi.mountdir "$DIR/target" -csi.stagingdir "$DIR/staging" \
    -csi.testvolumesize 33554432 -csi.testvolumeexpandsize 67108864 -csi.testvolumeaccesstype $MODE \
    -ginkgo.no-color || status=$?
kill $driver
wait $driver || status=$?
grep "$DIR" /proc/self/mountinfo && status=1 # nothing is left
exit $status
`

// The tests' driver passes csi-sanity, the test suite of the CSI specification's authors, and leaves no mounts or loop
// devices.
func TestCSIDriver(t *testing.T) {
	t.Parallel()
	require.NoError(t, program.LookInto("../../tools/csi"))
	programs, err := cluster.CSIPrograms(t.Context(), func(line string) { t.Log(line) })
	require.NoError(t, err)
	for _, mode := range []string{"block", "mount"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("/var/tmp", "csi")
			require.NoError(t, err)
			t.Cleanup(func() {
				ctx := context.WithoutCancel(t.Context())
				for _, device := range attached(ctx, t, dir) { // the test has failed
					require.NoError(t, exec.CommandContext(ctx, "losetup", "--detach", device).Run())
				}
				require.NoError(t, os.RemoveAll(dir))
			})
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--kill-child",
				"--mount-proc", "sh", "-c", sanity)
			cmd.Env = append(os.Environ(), cluster.CSIEnvironment(programs)...)
			cmd.Env = append(cmd.Env, "PROGRAMS="+programs, "DIR="+dir, "MODE="+mode)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			// The skipped tests are about features that the driver doesn't offer.
			require.Contains(t, string(out), "71 Passed | 0 Failed")
			require.Empty(t, attached(t.Context(), t, dir), "no loop device is left")
			for _, kind := range []string{"volumes", "snapshots", "nodes/here"} {
				left, err := os.ReadDir(filepath.Join(dir, "volumes", kind))
				require.NoError(t, err)
				require.Empty(t, left, "what is deleted is gone")
			}
		})
	}
}

// attached returns the loop devices of files in a folder.
func attached(ctx context.Context, t *testing.T, dir string) (devices []string) {
	t.Helper()
	out, err := exec.CommandContext(ctx, "losetup", "--noheadings", "--raw", "--output", "NAME,BACK-FILE").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		if device, file, _ := strings.Cut(line, " "); strings.HasPrefix(file, dir+"/") {
			devices = append(devices, device)
		}
	}
	return devices
}
