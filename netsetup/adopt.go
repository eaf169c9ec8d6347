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

// AdoptTap takes over the tap of a machine that runs, after the process that
// opened it was killed. QEMU has the only descriptors: Files returns none. DHCP requests are
// answered again until Close, if there is a lease; its rules are made anew if QEMU has not
// inherited them. If the tap has been detached from its bridge, because the bridge was made
// anew for example, it is attached again; else nothing is changed.
//
// An interface that is gone, or was not made for the owner, is an *Error.
func AdoptTap(cfg TapConfig, logger *slog.Logger) (*Tap, error) {
	doing := "adopt tap " + cfg.Name
	link, err := findOwn(doing, cfg.Name, cfg.Owner)
	if err != nil {
		return nil, err
	}
	tap := &Tap{name: cfg.Name, mtu: link.Attrs().MTU}
	if err := tap.adopt(doing, link, cfg, logger); err != nil {
		return nil, errors.Join(err, tap.Close())
	}
	return tap, nil
}

func (t *Tap) adopt(doing string, link netlink.Link, cfg TapConfig, logger *slog.Logger) error {
	if cfg.guarded() {
		switch err := t.guard(doing, link, cfg); {
		case FaultOf(err) == NameTaken: // QEMU has them
		case err != nil:
			return err
		default:
			logger.Info("rules of the network made anew", "interface", cfg.Name)
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
	return t.serve(doing, link, cfg, logger)
}

// AdoptMasquerade takes over the network of a machine that runs, after the process
// that opened it was killed; the caller has made sure that this process is gone.
// It recreates what ended with that process: the DHCP server, the reservation of
// the forwarded ports, and the rules, if QEMU has not inherited them (Inherit).
// The tap and its addresses stay as they are, so cfg.Subnet is not used, and so do
// inherited rules. ctx is for the set-up only.
//
// A forwarded port that another program uses by now is logged, and not an error:
// connections reach the machine, not that program. Files returns none. After Close the
// tap, and rules that QEMU has inherited, go when QEMU has ended.
//
// An interface that is gone, or was not made for the owner, is an *Error.
func AdoptMasquerade(ctx context.Context, cfg MasqueradeConfig, logger *slog.Logger) (*Masquerade, error) {
	doing := "adopt masquerade network " + cfg.Name
	cfg, err := check(doing, cfg)
	if err != nil {
		return nil, err
	}
	m := &Masquerade{}
	if err := m.adopt(ctx, doing, cfg, logger); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Masquerade) adopt(ctx context.Context, doing string, cfg MasqueradeConfig, logger *slog.Logger) error {
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
		port, err := reserve(doing, []Forward{f})
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
		return nil // QEMU has them
	}
	if err != nil {
		return err
	}
	m.closers = append(m.closers, table.Close)
	logger.Info("rules of the network made anew", "interface", cfg.Name)
	if err := cfg.AllPorts.leaveOut(doing, cfg, logger); err != nil {
		return err
	}
	return table.fill(doing, nftables.TableFamilyINet, "", chains(cfg.Name, m.Guest(), cfg.Forwards, cfg.AllPorts)...)
}

// findOwn returns the tap that was made for the owner.
func findOwn(doing, name, owner string) (netlink.Link, error) {
	if err := checkName(doing, name); err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, gone(doing, fmt.Sprintf("interface %s of the running machine is gone", name), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: look it up: %w", doing, err)
	}
	if !isOwn(link, owner) {
		return nil, nameTaken(doing, name, nil)
	}
	return link, nil
}

// subnetOf returns the private subnet that a tap was given.
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
	return netip.Prefix{}, gone(doing, fmt.Sprintf("interface %s of the running machine has lost its address",
		link.Attrs().Name), nil)
}

func gone(doing, detail string, err error) error {
	return &Error{
		Doing: doing, Fault: Gone, Err: err, Detail: detail,
		Remedy: "restart the machine to have its network made anew",
	}
}
