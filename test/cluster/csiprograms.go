package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"vmop/test/program"
)

// csiModule is the module of the programs of CSI, in the project.
const csiModule = "tools/csi"

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
	unlock, err := lock(ctx, filepath.Join(dir, "lock"), log)
	if err != nil {
		return "", err
	}
	defer unlock()
	return dir, compile(ctx, log, "the programs of CSI", filepath.Join(root, csiModule), "-ldflags", "-s -w", "-o",
		dir+"/", "tool", "./csidriver")
}
