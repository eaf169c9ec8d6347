package netsetup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

// AdoptTap takes over the tap of a running VM after the process that opened it was killed. Only QEMU holds the tap's
// descriptors, so Files returns an empty list. AdoptTap restores the rest:
//
//   - It answers DHCP requests again until Close, if there is a lease.
//   - It recreates the rules, unless QEMU has inherited them.
//   - It attaches the tap again if the tap has been detached from its bridge, for example because the bridge was
//     recreated.
//
// AdoptTap returns an *Error if the interface no longer exists or belongs to another owner.
func AdoptTap(cfg TapConfig, logger *slog.Logger) (*Tap, error) {
	doing := "adopt tap " + cfg.Name
	link, err := findOwn(doing, cfg.Name, cfg.Owner)
	if err != nil {
		return nil, err
	}
	tap := &Tap{name: cfg.Name, mtu: link.Attrs().MTU}
	if err := tap.adoptTap(doing, link, cfg, logger); err != nil {
		return nil, errors.Join(err, tap.Close())
	}
	return tap, nil
}

func (t *Tap) adoptTap(doing string, link netlink.Link, cfg TapConfig, logger *slog.Logger) error {
	if cfg.isGuarded() {
		switch err := t.guardTap(doing, link, cfg); {
		case FaultOf(err) == NameTaken: // QEMU has inherited them
		case err != nil:
			return err
		default:
			logger.Info("rules of the network created again", "interface", cfg.Name)
		}
	}
	if link.Attrs().MasterIndex == 0 {
		bridge, err := findBridge(doing, cfg.Bridge)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(link, bridge); err != nil {
			return noAdmin(fmt.Sprintf("%s: attach it to bridge %s", doing, cfg.Bridge), err)
		}
	}
	return t.serveLease(doing, link, cfg, logger)
}

// AdoptMasquerade takes over the network of a running VM after the process that opened it was killed. The caller
// must make sure that this process has ended. ctx covers the setup only.
//
// AdoptMasquerade recreates what ended with that process: the DHCP server, the reservation of the forwarded ports,
// and the rules unless QEMU has inherited them (Inherit). The tap, its addresses and inherited rules stay as they
// are, so cfg.Subnet is unused.
//
// A forwarded port that another program uses by now causes a warning, not an error: connections reach the VM, not
// that program. Files returns an empty list. After Close, the tap and inherited rules remain until QEMU has ended.
//
// AdoptMasquerade returns an *Error if the interface no longer exists or belongs to another owner.
func AdoptMasquerade(ctx context.Context, cfg MasqueradeConfig, logger *slog.Logger) (*Masquerade, error) {
	doing := "adopt masquerade network " + cfg.Name
	cfg, err := checkMasquerade(doing, cfg)
	if err != nil {
		return nil, err
	}
	m := &Masquerade{}
	if err := m.adoptMasquerade(ctx, doing, cfg, logger); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Masquerade) adoptMasquerade(ctx context.Context, doing string, cfg MasqueradeConfig,
	logger *slog.Logger,
) error {
	link, err := findOwn(doing, cfg.Name, cfg.Owner)
	if err != nil {
		return err
	}
	m.tap = &Tap{name: cfg.Name, mtu: link.Attrs().MTU}
	subnet, err := subnetOf(doing, link)
	if err != nil {
		return err
	}
	m.settleIn(subnet)
	if err := m.adoptRules(doing, cfg, logger); err != nil {
		return err
	}
	if err := enableForwarding(doing, logger); err != nil {
		return err
	}
	for _, f := range cfg.Forwards {
		port, err := reservePorts(doing, []Forward{f})
		if FaultOf(err) == PortTaken {
			logger.Warn("forwarded port leads to the guest, but another program uses it too", "forward", f.String())
			continue
		}
		if err != nil {
			return err
		}
		m.closers = append(m.closers, port.Close)
	}
	return m.serveAddress(ctx, doing, cfg, logger)
}

// adoptRules creates the rules unless QEMU has inherited them.
func (m *Masquerade) adoptRules(doing string, cfg MasqueradeConfig, logger *slog.Logger) error {
	table, err := openTable(doing, cfg.Name, tableOwned, nftables.TableFamilyINet)
	if FaultOf(err) == NameTaken {
		return nil // QEMU has inherited them
	}
	if err != nil {
		return err
	}
	m.closers = append(m.closers, table.Close)
	logger.Info("rules of the network created again", "interface", cfg.Name)
	if err := cfg.AllPorts.leaveOut(doing, cfg, logger); err != nil {
		return err
	}
	return table.addChains(doing, nftables.TableFamilyINet, "",
		masqueradeChains(cfg.Name, m.Guest(), cfg.Forwards, cfg.AllPorts)...)
}

// findOwn returns the tap that belongs to the owner.
func findOwn(doing, name, owner string) (netlink.Link, error) {
	if err := checkName(doing, name); err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, goneError(doing, fmt.Sprintf("interface %s of the running machine is gone", name), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: look it up: %w", doing, err)
	}
	if !isOwn(link, owner) {
		return nil, nameTaken(doing, name, nil)
	}
	return link, nil
}

// subnetOf returns the private subnet of a tap.
func subnetOf(doing string, link netlink.Link) (netip.Prefix, error) {
	addresses, err := netlinksafe.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%s: list its addresses: %w", doing, err)
	}
	for _, a := range addresses {
		subnet, ok := toPrefix(a.IPNet)
		if ok && a.IP.Equal(gatewayOf(subnet).AsSlice()) {
			return subnet, nil
		}
	}
	return netip.Prefix{}, goneError(doing, fmt.Sprintf("interface %s of the running machine has lost its address",
		link.Attrs().Name), nil)
}

func goneError(doing, detail string, err error) error {
	return &Error{
		Doing: doing, Fault: Gone, Err: err, Detail: detail,
		Remedy: "restart the machine to create its network again",
	}
}
