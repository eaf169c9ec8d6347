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

// csiModule is the module of the programs of CSI, in the project.
const csiModule = "tools/csi"

// csiPackages are the distribution's, as packages are, for who has not installed them.
var csiPackages = map[string]string{
	"xfsprogs": "usr/share/doc/xfsprogs", "libinih1": "usr/share/doc/libinih1", "liburcu8": "usr/share/doc/liburcu8",
}

// CSIPrograms makes sure that the programs of CSI are there, and returns their folder: a
// driver for tests, csidriver; what Kubernetes runs beside a driver, built from its Go
// modules: csi-provisioner, csi-attacher, csi-resizer, csi-snapshotter and
// snapshot-controller; and csi-sanity, which tests drivers.
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

// CSIEnvironment is what the driver needs of [CSIPrograms] in its environment.
func CSIEnvironment(programs string) []string {
	root := filepath.Join(programs, "root")
	libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu")) // the pattern is right
	return []string{
		"PATH=" + os.Getenv("PATH") + ":" + filepath.Join(root, "sbin") + ":" + filepath.Join(root, "usr/sbin"),
		"LD_LIBRARY_PATH=" + strings.Join(libraries, ":"),
	}
}
