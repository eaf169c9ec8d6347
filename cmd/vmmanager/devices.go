package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"vmop/cmd/vmmanager/devices"
	"vmop/internal/cli"
	"vmop/runner/prepare"
)

// deviceFlags are the flags of devices.
type deviceFlags struct {
	log     *cli.LogFlags
	devices []string
	slots   int
	folder  string
	health  string
}

func newDevices(log *cli.LogFlags) *cobra.Command {
	f := deviceFlags{log: log}
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "Offer /dev/kvm and /dev/vhost-net to pods of a node",
		Long: "Run a device plugin for the kubelet of this node until a signal arrives. Pods request a\n" +
			"device with a resource limit, and need no privileges to use it. It offers these devices\n" +
			"if their drivers are loaded:\n\n" +
			"  vmop/kvm        /dev/kvm, if the CPU can run ordinary guests with it\n" +
			"  vmop/vhost-net  /dev/vhost-net\n\n" +
			"The manifests in deploy/device-plugin run it on each node.",
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return f.offerDevices(cmd) },
	}
	p := cmd.Flags()
	p.StringArrayVar(&f.devices, "device", nil,
		"device to offer instead of the default devices, `RESOURCE=PATH`; may be repeated")
	p.IntVar(&f.slots, "slots", devices.DefaultSlots,
		"`NUMBER` of pods that can use a device at the same time, 1 to 100000")
	p.StringVar(&f.folder, "folder", devices.DefaultFolder, "`DIR` of the kubelet's device plugins")
	p.StringVar(&f.health, "health-address", ":8081", "`ADDRESS` of /readyz, HOST:PORT; \"\" for none")
	return cmd
}

// offeredDevices returns the devices from the flags, or this program's default devices.
func (f *deviceFlags) offeredDevices() ([]devices.Device, error) {
	if len(f.devices) == 0 {
		return []devices.Device{
			{Resource: "vmop/kvm", Path: "/dev/kvm", Unusable: prepare.CPUWithoutKVM},
			{Resource: "vmop/vhost-net", Path: "/dev/vhost-net"},
		}, nil
	}
	var all []devices.Device
	for _, text := range f.devices {
		resource, path, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--device %s: it must be RESOURCE=PATH", text)
		}
		all = append(all, devices.Device{Resource: resource, Path: path})
	}
	return all, nil
}

// offerDevices offers the devices until a signal arrives.
func (f *deviceFlags) offerDevices(cmd *cobra.Command) error {
	level, err := f.log.ParseLevel()
	if err != nil {
		return err
	}
	handler, err := f.log.Handler(level, os.Stderr)
	if err != nil {
		return err
	}
	all, err := f.offeredDevices()
	var plugin *devices.Plugin
	if err == nil {
		plugin, err = devices.New(devices.Options{
			Devices: all, Slots: f.slots, Folder: f.folder, Sys: "/sys", Log: slog.New(handler),
		})
	}
	if err != nil {
		return cli.UsageError{Err: err}
	}
	err = f.servePlugin(cmd.Context(), plugin)
	if f.log.Form == "json" && err != nil {
		slog.New(handler).Error("stopped", "err", err.Error())
		return loggedError{err}
	}
	return err
}

func (f *deviceFlags) servePlugin(ctx context.Context, plugin *devices.Plugin) error {
	if f.health == "" {
		return plugin.Run(ctx)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.health)
	if err != nil {
		return fmt.Errorf("serve /readyz: %w", err)
	}
	return serveUntil(ctx, netutil.LimitListener(listener, mostAsking), plugin, plugin.Run)
}

// mostAsking is the maximum number of concurrent connections to /readyz, so that clients can't use up the node's
// memory.
const mostAsking = 16
