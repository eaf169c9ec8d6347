package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Volumes is the number of available volumes in a cluster with storage.
const Volumes = 24

//go:embed storage.yaml
var storageClass string

// volume is a folder of this machine that all nodes can reach.
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

// Images returns the folder of the volume with the storage class "images", for CD images and kernels.
func (c *Cluster) Images() string { return filepath.Join(c.Dir, "images") }

// Block returns a new block device. Its data is in a file in the cluster's folder, which may already exist.
// [Cluster.Down] removes both.
func (c *Cluster) Block(ctx context.Context, name string, size int64) (device string, err error) {
	path := filepath.Join(c.Dir, "volumes", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("make a block device: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("make a block device: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return "", fmt.Errorf("make a block device: %w", err)
	}
	if device, err = runLosetup(ctx, "--find", "--show", path); err != nil {
		return "", err
	}
	// Where udev runs, block devices belong to the group "disk".
	return device, errors.Join(os.Chown(device, 0, 6), os.Chmod(device, 0o660))
}

// detachLoops detaches all block devices, after all nodes have ended.
func (c *Cluster) detachLoops(ctx context.Context) error {
	list, err := runLosetup(ctx, "--noheadings", "--raw", "--output", "NAME,BACK-FILE")
	if err != nil {
		return err
	}
	for _, line := range strings.Split(list, "\n") {
		device, file, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(file, c.Dir+"/") {
			continue
		}
		// A kubelet holds a device through another loop device, which survives a power cut.
		held, err := runLosetup(ctx, "--noheadings", "--output", "NAME", "--associated", device)
		if err != nil {
			return err
		}
		for _, device := range append(strings.Fields(held), device) {
			if _, err := runLosetup(ctx, "--detach", device); err != nil {
				return err
			}
		}
	}
	return nil
}

func runLosetup(ctx context.Context, args ...string) (string, error) {
	out, err := outputOf(exec.CommandContext(ctx, "losetup", args...))
	return strings.TrimSpace(out), err
}

// AddStorage adds a default storage class, "folders", with Volumes volumes, and a volume for images.
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
		if err := os.Chmod(folder, 0o755); err != nil { // so that a pod without root can read its volume
			return fmt.Errorf("make a volume: %w", err)
		}
	}
	cmd := c.KubectlCommand(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.Join(documents, ""))
	_, err := outputOf(cmd)
	return err
}
