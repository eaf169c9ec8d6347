// Command csidriver is a CSI driver for tests. Volumes are sparse files in a folder that all nodes can reach. A node
// attaches a volume as a loop device (mode Block), or mounts an XFS on the loop device (Filesystem). Volumes can grow
// while they are used. Snapshots and clones share blocks if the folder's file system can; otherwise the driver copies
// the data and keeps the holes.
//
//	csidriver -endpoint csi.sock -folder /srv/volumes
//	csidriver -endpoint csi.sock -folder /srv/volumes -node node1 -registration /var/lib/kubelet/plugins_registry/x.sock
//
// Without -node, the process serves the controller's requests. The folder contains all records, so any number of
// processes can serve it. A killed process leaves at most one loop device.
//
// A copy contains the data that was written before the request. Without shared blocks it may also contain later
// writes, in any order: stop the writer for a consistent copy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// driverName is the provisioner in storage classes.
const driverName = "csi.example.test"

func main() {
	endpoint := flag.String("endpoint", "", "the `socket` to serve")
	folder := flag.String("folder", "", "the `folder` of the volumes")
	node := flag.String("node", "", "the `name` of the node; none: serve the controller only")
	register := flag.String("registration", "", "a `socket` by which a kubelet finds the driver")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *endpoint, *folder, *node, *register); err != nil {
		log.Fatal("csidriver: ", err)
	}
}

// run serves until ctx is done.
func run(ctx context.Context, endpoint, folder, node, register string) error {
	s := store{folder}
	if err := s.prepare(node); err != nil {
		return err
	}
	ended := make(chan error, 2)
	driver := grpc.NewServer(grpc.UnaryInterceptor(s.serve))
	csi.RegisterIdentityServer(driver, identity{})
	csi.RegisterControllerServer(driver, controller{store: s})
	if node != "" {
		csi.RegisterNodeServer(driver, nodeServer{store: s, name: node})
	}
	if err := listen(driver, endpoint, ended); err != nil {
		return err
	}
	defer driver.Stop()
	if register != "" {
		registrar := grpc.NewServer()
		registration.RegisterRegistrationServer(registrar, registrant{endpoint: endpoint})
		if err := listen(registrar, register, ended); err != nil {
			return err
		}
		defer registrar.Stop()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// listen serves at a socket, of which one of an earlier process may be left.
func listen(server *grpc.Server, socket string, ended chan<- error) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() { ended <- server.Serve(listener) }()
	return nil
}

// serve answers one call after another, of all processes of the folder.
func (s store) serve(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if strings.HasPrefix(info.FullMethod, "/csi.v1.Identity/") {
		return handle(ctx, request)
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	defer unlock()
	response, err := handle(ctx, request)
	if err == nil {
		return response, nil
	}
	if _, ok := status.FromError(err); !ok {
		err = status.Error(codes.Internal, err.Error())
	}
	log.Printf("%s: %v", info.FullMethod, err)
	return nil, err
}

// registrant tells a kubelet of the driver.
type registrant struct {
	registration.UnimplementedRegistrationServer
	endpoint string
}

func (r registrant) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: driverName, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (registrant) NotifyRegistrationStatus(_ context.Context, is *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !is.PluginRegistered {
		log.Printf("the kubelet doesn't take the driver: %s", is.Error) // it tries again
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// identity says what the driver is.
type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "test"}, nil
}

func (identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
			Type: csi.PluginCapability_Service_CONTROLLER_SERVICE,
		}}},
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{
			Type: csi.PluginCapability_VolumeExpansion_ONLINE,
		}}},
	}}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// invalid is the answer to a request that lacks something.
func invalid(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf(format, args...))
}
