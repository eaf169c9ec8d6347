package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Volumes is how many folders there are to claim in a cluster with storage.
const Volumes = 24

//go:embed storage.yaml
var storageClass string

// volume is a folder of this machine, which all nodes can reach.
const volume = `---
apiVersion: v1
kind: PersistentVolume
metadata:
  name: %[1]s
spec:
  storageClassName: %[2]s
  accessModes: [ReadWriteOnce, ReadOnlyMany]
  capacity: {storage: 100Gi}
  local: {path: %[3]s}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]
`

// Images is the folder of the volume of the storage class "images", for CD images
// and kernels.
func (c *Cluster) Images() string { return filepath.Join(c.Dir, "images") }

// AddStorage gives the cluster a default storage class, "folders", with Volumes
// volumes, and a volume for images.
func (c *Cluster) AddStorage(ctx context.Context) error {
	documents := []string{storageClass, fmt.Sprintf(volume, "images", "images", c.Images())}
	folders := []string{c.Images()}
	for i := range Volumes {
		name := fmt.Sprintf("folder%d", i+1)
		folder := filepath.Join(c.Dir, "volumes", name)
		folders = append(folders, folder)
		documents = append(documents, fmt.Sprintf(volume, name, "folders", folder))
	}
	for _, folder := range append([]string{c.Dir}, folders...) {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("make a volume: %w", err)
		}
		if err := os.Chmod(folder, 0o755); err != nil { // so that a pod that is not root reads its own
			return fmt.Errorf("make a volume: %w", err)
		}
	}
	cmd := c.KubectlCommand(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.Join(documents, ""))
	_, err := output(cmd)
	return err
}
