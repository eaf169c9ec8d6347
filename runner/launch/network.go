package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"

	"vmop/netsetup"
	"vmop/vmtypes/plan"
)

// A Network is an open tap, with or without a private subnet behind it.
type Network interface {
	io.Closer
	Files() []*os.File
	// Inherit returns descriptors that keep the network alive as long as QEMU holds them.
	Inherit() []*os.File
}

// OpenTap creates a tap as planned. owner is the VM's UUID, which identifies the leftovers of a killed runner.
func OpenTap(ctx context.Context, t plan.Tap, owner string, log *slog.Logger) (Network, error) {
	if t.Subnet == "" {
		cfg, err := bridgedConfig(t, owner)
		if err != nil {
			return nil, err
		}
		return netsetup.OpenTap(cfg, log)
	}
	cfg, err := masqueradeConfig(t, owner)
	if err != nil {
		return nil, err
	}
	return netsetup.OpenMasquerade(ctx, cfg, log)
}

// AdoptTap restores the runner's part of a tap that a running QEMU has open, after the earlier runner was killed.
func AdoptTap(ctx context.Context, t plan.Tap, owner string, log *slog.Logger) (io.Closer, error) {
	if t.Subnet == "" {
		cfg, err := bridgedConfig(t, owner)
		if err != nil {
			return nil, err
		}
		return netsetup.AdoptTap(cfg, log)
	}
	cfg, err := masqueradeConfig(t, owner)
	if err != nil {
		return nil, err
	}
	return netsetup.AdoptMasquerade(ctx, cfg, log)
}

// bridgedConfig returns the configuration of a tap on a bridge.
func bridgedConfig(t plan.Tap, owner string) (netsetup.TapConfig, error) {
	cfg := netsetup.TapConfig{Name: t.Name, Bridge: t.Bridge, Owner: owner, Queues: t.Queues}
	if t.Lease == nil {
		var err error
		if t.Filter {
			cfg.MAC, err = net.ParseMAC(t.MAC)
		}
		return cfg, err
	}
	l := &netsetup.Lease{Search: t.Lease.Search, Hostname: t.Hostname, Filter: t.Filter}
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	address := func(text string) netip.Addr {
		a, err := netip.ParseAddr(text)
		note(err)
		return a
	}
	subnet := func(text string) netip.Prefix {
		p, err := netip.ParsePrefix(text)
		note(err)
		return p
	}
	mac, err := net.ParseMAC(t.MAC)
	note(err)
	l.MAC, l.Address = mac, subnet(t.Lease.Address)
	if t.Lease.Gateway != "" {
		l.Gateway = address(t.Lease.Gateway)
	}
	for _, server := range t.Lease.Nameservers {
		l.DNS = append(l.DNS, address(server))
	}
	for _, r := range t.Lease.Routes {
		l.Routes = append(l.Routes, netsetup.Route{To: subnet(r.To), Via: address(r.Via)})
	}
	if err := errors.Join(errs...); err != nil {
		return cfg, fmt.Errorf("tap %s: lease: %w", t.Name, err)
	}
	cfg.Lease = l
	return cfg, nil
}

// masqueradeConfig returns the configuration of a tap with a private subnet.
func masqueradeConfig(t plan.Tap, owner string) (cfg netsetup.MasqueradeConfig, err error) {
	var subnet netip.Prefix // the zero value selects a free subnet
	if t.Subnet != plan.AutoSubnet {
		if subnet, err = netip.ParsePrefix(t.Subnet); err != nil {
			return cfg, fmt.Errorf("tap %s: subnet: %w", t.Name, err)
		}
	}
	mac, err := net.ParseMAC(t.MAC)
	if err != nil {
		return cfg, fmt.Errorf("tap %s: %w", t.Name, err)
	}
	cfg = netsetup.MasqueradeConfig{
		Name: t.Name, Owner: owner, Queues: t.Queues, MAC: mac, Subnet: subnet, Hostname: t.Hostname,
	}
	if t.AllPorts != nil {
		cfg.AllPorts = &netsetup.AllPorts{Keep: t.AllPorts.Keep}
	}
	for _, f := range t.Forwards {
		forward := netsetup.Forward{Protocol: f.Protocol, HostPort: uint16(f.Host), GuestPort: uint16(f.Guest)}
		if f.Address != "" {
			if forward.Address, err = netip.ParseAddr(f.Address); err != nil {
				return cfg, fmt.Errorf("tap %s: forward: %w", t.Name, err)
			}
		}
		cfg.Forwards = append(cfg.Forwards, forward)
	}
	return cfg, nil
}
