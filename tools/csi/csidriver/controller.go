package main

import (
	"context"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	unit        = 1 << 20  // sizes are multiples of it
	leastFiles  = 32 << 20 // there is no xfs that is much smaller
	defaultSize = 64 << 20
	maximumSize = 16 << 40
)

// controller makes volumes, and says which node may have which.
type controller struct {
	csi.UnimplementedControllerServer
	store
}

func (controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, what := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: what}},
		})
	}
	return response, nil
}

// unsupported returns the reason that a volume can't be used in one of the ways, or "".
func unsupported(ways []*csi.VolumeCapability) string {
	for _, way := range ways {
		mount := way.GetMount()
		switch {
		case mount == nil && way.GetBlock() == nil:
			return "volumes are had as block devices or mounted"
		case mount != nil && mount.FsType != "" && mount.FsType != fileSystem:
			return "the file system is " + fileSystem
		case mount != nil && shared(way) && way.AccessMode.Mode != csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:
			return "nodes that write share block devices only"
		}
	}
	return ""
}

// shared says whether several nodes are to have the volume.
func shared(way *csi.VolumeCapability) bool {
	switch way.GetAccessMode().GetMode() {
	case csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return true
	}
	return false
}

// sizeOf chooses the size of a volume that must have at least so many bytes.
func sizeOf(wanted *csi.CapacityRange, least int64) (int64, error) {
	size := max(wanted.GetRequiredBytes(), least)
	if size == 0 {
		size = defaultSize
		if limit := wanted.GetLimitBytes(); limit > 0 {
			size = min(size, limit)
		}
	}
	size = (size + unit - 1) / unit * unit
	if limit := wanted.GetLimitBytes(); limit > 0 && size > limit || size > maximumSize {
		return 0, status.Errorf(codes.OutOfRange, "the volume would have %d bytes, which is too large", size)
	}
	return size, nil
}

// source returns the record and the file of what a volume is copied from, if it is.
func (c controller) source(from *csi.VolumeContentSource) (r record, file string, err error) {
	switch {
	case from.GetSnapshot() != nil:
		r, err = c.get(snapshots, from.GetSnapshot().SnapshotId)
		return r, c.image(snapshots, r.ID), err
	case from.GetVolume() != nil:
		if r, err = c.get(volumes, from.GetVolume().VolumeId); err == nil {
			err = c.flush(r.ID)
		}
		return r, c.image(volumes, r.ID), err
	case from != nil:
		return r, "", invalid("volumes are copied from snapshots and volumes")
	}
	return record{}, "", nil
}

func (c controller) CreateVolume(_ context.Context, q *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if q.Name == "" || len(q.VolumeCapabilities) == 0 {
		return nil, invalid("a volume needs a name and capabilities")
	}
	if why := unsupported(q.VolumeCapabilities); why != "" {
		return nil, invalid("%s", why)
	}
	from, file, err := c.source(q.VolumeContentSource)
	if err != nil {
		return nil, err
	}
	least := from.Size
	if slices.ContainsFunc(q.VolumeCapabilities, func(way *csi.VolumeCapability) bool { return way.GetMount() != nil }) {
		least = max(least, leastFiles)
	}
	size, err := sizeOf(q.CapacityRange, least)
	if err != nil {
		return nil, err
	}
	r, err := c.get(volumes, idOf(volumes, q.Name))
	switch {
	case err == nil:
		if r.Size < size || q.CapacityRange.GetLimitBytes() > 0 && r.Size > q.CapacityRange.LimitBytes ||
			r.Size > size && q.CapacityRange.GetRequiredBytes() > 0 || r.From != from.ID {
			return nil, status.Errorf(codes.AlreadyExists, "%s exists, with %d bytes, from %q", q.Name, r.Size, r.From)
		}
	case status.Code(err) == codes.NotFound:
		r = record{ID: idOf(volumes, q.Name), Name: q.Name, Size: size, From: from.ID, Made: time.Now()}
		r.Shared = slices.ContainsFunc(q.VolumeCapabilities, shared)
		if err := c.create(volumes, r.ID, file, size); err != nil {
			return nil, err
		}
		if err := c.put(volumes, r); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: r.ID, CapacityBytes: r.Size, ContentSource: q.VolumeContentSource,
	}}, nil
}

func (c controller) DeleteVolume(_ context.Context, q *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if q.VolumeId == "" {
		return nil, invalid("which volume?")
	}
	r, err := c.get(volumes, q.VolumeId)
	if err == nil && len(r.Nodes) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is had by %v", r.ID, r.Nodes)
	}
	return &csi.DeleteVolumeResponse{}, c.remove(volumes, q.VolumeId)
}

func (c controller) ControllerPublishVolume(_ context.Context, q *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	if q.VolumeId == "" || q.NodeId == "" || q.VolumeCapability == nil {
		return nil, invalid("a volume, a node and a capability are needed")
	}
	r, err := c.get(volumes, q.VolumeId)
	if err != nil {
		return nil, err
	}
	if !c.knows(q.NodeId) {
		return nil, status.Errorf(codes.NotFound, "there is no node %s", q.NodeId)
	}
	if others := slices.DeleteFunc(slices.Clone(r.Nodes), func(n string) bool { return n == q.NodeId }); len(others) > 0 &&
		!(r.Shared && shared(q.VolumeCapability)) {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is had by %v", r.ID, others)
	}
	return &csi.ControllerPublishVolumeResponse{}, c.allow(r, q.NodeId, true)
}

func (c controller) ControllerUnpublishVolume(_ context.Context, q *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	if q.VolumeId == "" {
		return nil, invalid("which volume?")
	}
	r, err := c.get(volumes, q.VolumeId)
	if status.Code(err) == codes.NotFound {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if q.NodeId == "" {
		r.Nodes = nil
	}
	return &csi.ControllerUnpublishVolumeResponse{}, c.allow(r, q.NodeId, false)
}

func (c controller) ValidateVolumeCapabilities(_ context.Context, q *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if q.VolumeId == "" || len(q.VolumeCapabilities) == 0 {
		return nil, invalid("a volume and capabilities are needed")
	}
	if _, err := c.get(volumes, q.VolumeId); err != nil {
		return nil, err
	}
	if why := unsupported(q.VolumeCapabilities); why != "" {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: why}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeContext: q.VolumeContext, VolumeCapabilities: q.VolumeCapabilities, Parameters: q.Parameters,
		},
	}, nil
}

func (c controller) ControllerExpandVolume(_ context.Context, q *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	if q.VolumeId == "" || q.CapacityRange == nil {
		return nil, invalid("a volume and a size are needed")
	}
	r, err := c.get(volumes, q.VolumeId)
	if err != nil {
		return nil, err
	}
	if r.Size, err = sizeOf(q.CapacityRange, r.Size); err != nil {
		return nil, err
	}
	if err := os.Truncate(c.image(volumes, r.ID), r.Size); err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.Size, NodeExpansionRequired: true}, c.put(volumes, r)
}

func (c controller) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	var is unix.Statfs_t
	if err := unix.Statfs(c.dir, &is); err != nil {
		return nil, err
	}
	return &csi.GetCapacityResponse{AvailableCapacity: int64(is.Bavail) * is.Bsize}, nil
}

func (c controller) ListVolumes(_ context.Context, q *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	all, err := c.list(volumes)
	if err != nil {
		return nil, err
	}
	all, next, err := page(all, q.StartingToken, int(q.MaxEntries))
	response := &csi.ListVolumesResponse{NextToken: next}
	for _, r := range all {
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: r.ID, CapacityBytes: r.Size},
		})
	}
	return response, err
}

// page returns a part of a list, and where the next begins: how many came before.
func page(all []record, token string, most int) (part []record, next string, err error) {
	begin := 0
	if token != "" {
		if begin, err = strconv.Atoi(token); err != nil || begin < 0 || begin > len(all) {
			return nil, "", status.Errorf(codes.Aborted, "no list goes on at %q", token)
		}
	}
	end := len(all)
	if most > 0 && begin+most < end {
		end = begin + most
		next = strconv.Itoa(end)
	}
	return all[begin:end], next, nil
}

func described(r record) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: r.ID, SourceVolumeId: r.From, SizeBytes: r.Size, CreationTime: timestamppb.New(r.Made), ReadyToUse: true,
	}
}

func (c controller) CreateSnapshot(_ context.Context, q *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if q.Name == "" || q.SourceVolumeId == "" {
		return nil, invalid("a snapshot needs a name and a volume")
	}
	r, err := c.get(snapshots, idOf(snapshots, q.Name))
	switch {
	case err == nil:
		if r.From != q.SourceVolumeId {
			return nil, status.Errorf(codes.AlreadyExists, "%s exists, from the volume %s", q.Name, r.From)
		}
	case status.Code(err) == codes.NotFound:
		volume, err := c.get(volumes, q.SourceVolumeId)
		if err != nil {
			return nil, err
		}
		if err := c.flush(volume.ID); err != nil {
			return nil, err
		}
		r = record{ID: idOf(snapshots, q.Name), Name: q.Name, Size: volume.Size, From: volume.ID, Made: time.Now()}
		if err := c.create(snapshots, r.ID, c.image(volumes, volume.ID), r.Size); err != nil {
			return nil, err
		}
		if err := c.put(snapshots, r); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: described(r)}, nil
}

func (c controller) DeleteSnapshot(_ context.Context, q *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if q.SnapshotId == "" {
		return nil, invalid("which snapshot?")
	}
	return &csi.DeleteSnapshotResponse{}, c.remove(snapshots, q.SnapshotId)
}

func (c controller) ListSnapshots(_ context.Context, q *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	all, err := c.list(snapshots)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r record) bool {
		return q.SnapshotId != "" && r.ID != q.SnapshotId || q.SourceVolumeId != "" && r.From != q.SourceVolumeId
	})
	all, next, err := page(all, q.StartingToken, int(q.MaxEntries))
	response := &csi.ListSnapshotsResponse{NextToken: next}
	for _, r := range all {
		response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: described(r)})
	}
	return response, err
}
