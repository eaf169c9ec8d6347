package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"vmop/test/program"
)

// csiModule is the project's module of CSI programs.
const csiModule = "tools/csi"

// csiPackages are packages of the distribution, in the format of packages, for machines where they are not installed.
var csiPackages = map[string]string{
	"xfsprogs": "usr/share/doc/xfsprogs", "libinih1": "usr/share/doc/libinih1", "liburcu8": "usr/share/doc/liburcu8",
}

// CSIPrograms builds the CSI programs if necessary and returns their folder. It contains a driver for tests, csidriver;
// Kubernetes' sidecar programs, built from their Go modules: csi-provisioner, csi-attacher, csi-resizer,
// csi-snapshotter and snapshot-controller; and csi-sanity, which tests drivers.
//
// See docs/decisions/0112-csi.md.
func CSIPrograms(ctx context.Context, log func(string)) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("folder for the programs of CSI: %w", err)
	}
	root, err := program.Root(ctx)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "vmop", "csi")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("folder for the programs of CSI: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"), log)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := exec.LookPath("mkfs.xfs"); err != nil {
		if err := unpackPackages(ctx, filepath.Join(dir, "root"), csiPackages); err != nil {
			return "", err
		}
	}
	return dir, compileModule(ctx, log, "the programs of CSI", filepath.Join(root, csiModule), "-o",
		dir+"/", "tool", "./csidriver")
}

// CSIEnvironment returns the environment variables with which the driver finds the files of [CSIPrograms].
func CSIEnvironment(programs string) []string {
	root := filepath.Join(programs, "root")
	libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu")) // the pattern is valid
	return []string{
		"PATH=" + os.Getenv("PATH") + ":" + filepath.Join(root, "sbin") + ":" + filepath.Join(root, "usr/sbin"),
		"LD_LIBRARY_PATH=" + strings.Join(libraries, ":"),
	}
}
