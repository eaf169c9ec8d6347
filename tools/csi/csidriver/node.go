package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fileSystem is what volumes of the mode Filesystem have.
// To grow an ext4 in use needs CAP_SYS_RESOURCE,
// which not even root has everywhere.
const fileSystem = "xfs"

// small has mkfs.xfs make file systems of less than 300 MiB, as its authors' tests do.
func small() []string { return []string{"TEST_DIR=small", "TEST_DEV=small", "QA_CHECK_FS=small"} }

// nodeServer brings volumes to the pods of a node, in whose mount namespace it runs.
type nodeServer struct {
	csi.UnimplementedNodeServer
	store
	name string
}

func (n nodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.name}, nil
}

func (nodeServer) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, what := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: what}},
		})
	}
	return response, nil
}

// NodeStageVolume makes the volume's loop device, and mounts it if it is to be mounted.
func (n nodeServer) NodeStageVolume(ctx context.Context, q *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if q.VolumeId == "" || q.StagingTargetPath == "" || q.VolumeCapability == nil {
		return nil, invalid("a volume, a path and a capability are needed")
	}
	if _, err := n.get(volumes, q.VolumeId); err != nil {
		return nil, err
	}
	device, err := n.attach(ctx, q.VolumeId)
	if err != nil || q.VolumeCapability.GetBlock() != nil {
		return &csi.NodeStageVolumeResponse{}, err
	}
	if is, err := mounted(q.StagingTargetPath); err != nil || is {
		return &csi.NodeStageVolumeResponse{}, err
	}
	if _, err := output(ctx, "blkid", device); err != nil { // nothing is known to be on it
		if _, err := output(ctx, "mkfs.xfs", "-q", device); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(q.StagingTargetPath, 0o750); err != nil {
		return nil, err
	}
	// A copy has the UUID of what it was copied from, and may be larger.
	if err := unix.Mount(device, q.StagingTargetPath, fileSystem, 0, "nouuid"); err != nil {
		return nil, fmt.Errorf("mount %s: %w", device, err)
	}
	_, err = output(ctx, "xfs_growfs", "-d", q.StagingTargetPath)
	return &csi.NodeStageVolumeResponse{}, err
}

func (n nodeServer) NodeUnstageVolume(ctx context.Context, q *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	if q.VolumeId == "" || q.StagingTargetPath == "" {
		return nil, invalid("a volume and a path are needed")
	}
	if err := unmount(q.StagingTargetPath); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, n.detach(ctx, q.VolumeId)
}

func (n nodeServer) NodePublishVolume(_ context.Context, q *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if q.VolumeId == "" || q.TargetPath == "" || q.VolumeCapability == nil {
		return nil, invalid("a volume, a path and a capability are needed")
	}
	if q.StagingTargetPath == "" {
		return nil, status.Error(codes.FailedPrecondition, "the volume is to be staged first")
	}
	if _, err := n.get(volumes, q.VolumeId); err != nil {
		return nil, err
	}
	if is, err := mounted(q.TargetPath); err != nil || is {
		return &csi.NodePublishVolumeResponse{}, err
	}
	from := q.StagingTargetPath
	if q.VolumeCapability.GetBlock() != nil {
		device, err := n.device(q.VolumeId)
		if err != nil {
			return nil, err
		}
		if from = device; device == "" {
			return nil, status.Error(codes.FailedPrecondition, "the volume is to be staged first")
		}
		f, err := os.OpenFile(q.TargetPath, os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		_ = f.Close()
	} else if err := os.MkdirAll(q.TargetPath, 0o750); err != nil {
		return nil, err
	}
	if err := unix.Mount(from, q.TargetPath, "", unix.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("mount %s: %w", from, err)
	}
	if q.Readonly && q.VolumeCapability.GetMount() != nil {
		if err := unix.Mount("", q.TargetPath, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return nil, errors.Join(fmt.Errorf("mount %s: %w", from, err), unmount(q.TargetPath))
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (nodeServer) NodeUnpublishVolume(_ context.Context, q *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if q.VolumeId == "" || q.TargetPath == "" {
		return nil, invalid("a volume and a path are needed")
	}
	if err := unmount(q.TargetPath); err != nil {
		return nil, err
	}
	if err := os.Remove(q.TargetPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (n nodeServer) NodeExpandVolume(ctx context.Context, q *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if q.VolumeId == "" || q.VolumePath == "" {
		return nil, invalid("a volume and a path are needed")
	}
	r, err := n.get(volumes, q.VolumeId)
	if err != nil {
		return nil, err
	}
	device, err := n.device(q.VolumeId)
	if err != nil {
		return nil, err
	}
	if device == "" {
		return nil, status.Errorf(codes.NotFound, "%s is not on this node", q.VolumeId)
	}
	if _, err := output(ctx, "losetup", "--set-capacity", device); err != nil {
		return nil, err
	}
	if is, err := os.Stat(q.VolumePath); err == nil && is.IsDir() {
		if _, err := output(ctx, "xfs_growfs", "-d", q.VolumePath); err != nil {
			return nil, err
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: r.Size}, nil
}

// note is the file that has the name of a volume's loop device.
func (n nodeServer) note(id string) string { return filepath.Join(n.dir, "nodes", n.name, id) }

// device returns the loop device by which this node has a volume, or "".
func (n nodeServer) device(id string) (string, error) {
	device, err := os.ReadFile(n.note(id))
	if errors.Is(err, os.ErrNotExist) || err == nil && !backs(string(device), n.image(volumes, id)) {
		return "", nil
	}
	return string(device), err
}

// backs says whether a loop device has a file's bytes. Another one may have had the name before.
func backs(device, file string) bool {
	is, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file"))
	return err == nil && strings.TrimSuffix(string(is), "\n") == file
}

// attach returns the loop device of a volume, which it makes if there is none.
func (n nodeServer) attach(ctx context.Context, id string) (string, error) {
	device, err := n.device(id)
	if err != nil || device != "" {
		return device, err
	}
	if device, err = output(ctx, "losetup", "--find", "--show", n.image(volumes, id)); err != nil {
		return "", err
	}
	// Where udev runs, block devices belong to the group "disk".
	if err := errors.Join(os.WriteFile(n.note(id), []byte(device), 0o600), os.Chown(device, 0, 6),
		os.Chmod(device, 0o660)); err != nil {
		_, left := output(ctx, "losetup", "--detach", device)
		return "", errors.Join(err, left)
	}
	return device, nil
}

func (n nodeServer) detach(ctx context.Context, id string) error {
	if !wellFormed.MatchString(id) {
		return nil
	}
	device, err := n.device(id)
	if err != nil {
		return err
	}
	if device != "" {
		if _, err := output(ctx, "losetup", "--detach", device); err != nil {
			return err
		}
	}
	if err := os.Remove(n.note(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// mounted says whether something is mounted at a path.
func mounted(path string) (bool, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	for _, line := range strings.Split(string(table), "\n") {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == filepath.Clean(path) {
			return true, nil
		}
	}
	return false, nil
}

// unmount unmounts what is mounted at a path, if there is something.
func unmount(path string) error {
	if is, err := mounted(path); err != nil || !is {
		return err
	}
	if err := unix.Unmount(path, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// output runs a program, and returns what it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), small()...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, complaints.String())
	}
	return strings.TrimSpace(string(out)), nil
}
