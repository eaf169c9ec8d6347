// Command kvmplugin is a device plugin: it offers a KVM device to the pods of a node,
// as the resource "example.test/kvm". Its argument is the device.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "example.test/kvm"
	socket   = "kvm.sock"
	// shares is how many pods can have the device at a time.
	shares = 100
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "kvmplugin:", err)
		os.Exit(1)
	}
}

// run offers the device for ever.
func run(ctx context.Context, device string) error {
	listener, err := net.Listen("unix", filepath.Join(plugin.DevicePluginPath, socket))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	plugin.RegisterDevicePluginServer(server, offer{device: device})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if err := register(ctx); err != nil {
		return err
	}
	return <-ended
}

// register makes the plugin known to the kubelet, once that listens.
func register(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+plugin.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = plugin.NewRegistrationClient(conn).Register(ctx, &plugin.RegisterRequest{
		Version: plugin.Version, Endpoint: socket, ResourceName: resource,
	}, grpc.WaitForReady(true))
	return err
}

// offer answers the kubelet.
type offer struct {
	plugin.UnimplementedDevicePluginServer
	device string
}

func (offer) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (offer) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	list := &plugin.ListAndWatchResponse{}
	for n := range shares {
		list.Devices = append(list.Devices, &plugin.Device{ID: fmt.Sprint(n), Health: plugin.Healthy})
	}
	if err := stream.Send(list); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (o offer) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	response := &plugin.AllocateResponse{}
	for range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &plugin.ContainerAllocateResponse{
			Devices: []*plugin.DeviceSpec{{ContainerPath: "/dev/kvm", HostPath: o.device, Permissions: "rw"}},
		})
	}
	return response, nil
}
