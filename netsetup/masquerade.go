package netsetup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"

	"github.com/containernetworking/plugins/pkg/utils/sysctl"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// MasqueradeConfig describes a private subnet with one VM in it.
type MasqueradeConfig struct {
	// Name is the tap's name, 1 to 15 bytes. It is also part of the name of the nftables table.
	Name string
	// Owner identifies the owner of the network; see TapConfig.Owner.
	Owner string
	// Queues is the tap's number of queues; see TapConfig.Queues.
	Queues int
	// MAC is the VM's hardware address. Only this hardware address receives an IP address.
	MAC net.HardwareAddr
	// Subnet is an IPv4 prefix of 8 to 30 bits. Its first address belongs to the gateway, its second to the VM. The
	// zero value means 10.0.2.0/24 or, if that is in use, the next free subnet.
	Subnet netip.Prefix
	// Hostname is the VM's name in its DHCP lease; may be empty.
	Hostname string
	// DNS lists the IPv4 name servers in the VM's DHCP lease. If it is empty, the lease contains the name servers of
	// /etc/resolv.conf that the VM can reach.
	DNS []netip.Addr
	// Search lists the domains for names without a dot. If it is empty, the lease contains the search domains of
	// /etc/resolv.conf.
	Search []string
	// Forwards lists the ports that lead to the VM.
	Forwards []Forward
	// AllPorts forwards all ports of the namespace's addresses, except its loopback addresses, to the VM. nil
	// forwards only Forwards.
	AllPorts *AllPorts
}

// Masquerade is a tap with a private subnet behind the namespace's addresses.
type Masquerade struct {
	tap     *Tap
	rules   *table
	guest   netip.Prefix
	gateway netip.Addr
	closers []func() error // in order of creation
}

// OpenMasquerade creates the tap, assigns the gateway address to it, sets the rules and starts the DHCP server,
// which answers until Close. ctx covers the setup only. The tap has the MTU of the default route, which is also part
// of the VM's DHCP lease.
//
// OpenMasquerade enables IPv4 forwarding in the namespace. It cannot override a firewall of the namespace that drops
// forwarded packets, because a rule cannot accept a packet that another table drops. It logs a warning about such a
// firewall.
func OpenMasquerade(ctx context.Context, cfg MasqueradeConfig, logger *slog.Logger) (*Masquerade, error) {
	doing := "open masquerade network " + cfg.Name
	plan, err := checkMasquerade(doing, cfg)
	if err != nil {
		return nil, err
	}
	m := &Masquerade{}
	if err := m.setUp(ctx, doing, plan, logger); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// checkMasquerade returns the configuration with its defaults, or an error for the first invalid setting.
func checkMasquerade(doing string, cfg MasqueradeConfig) (MasqueradeConfig, error) {
	if err := checkName(doing, cfg.Name); err != nil {
		return cfg, err
	}
	if len(cfg.MAC) != 6 || cfg.MAC[0]&1 != 0 {
		return cfg, &Error{
			Doing: doing, Fault: MACInvalid,
			Detail: fmt.Sprintf("%q is not the hardware address of one machine", cfg.MAC),
			Remedy: "give six bytes, the first of them even, like 02:00:00:00:00:01",
		}
	}
	var err error
	if cfg.Subnet.IsValid() {
		if cfg.Subnet, err = checkSubnet(doing, cfg.Subnet); err != nil {
			return cfg, err
		}
	}
	if cfg.Forwards, err = checkForwards(doing, cfg.Forwards); err != nil {
		return cfg, err
	}
	if len(cfg.DNS) > 0 && len(cfg.Search) > 0 {
		return cfg, nil
	}
	found, err := readResolver(os.DirFS("/"))
	if err != nil {
		return cfg, fmt.Errorf("%s: %w", doing, err)
	}
	if len(cfg.DNS) == 0 {
		cfg.DNS = found.servers
	}
	if len(cfg.Search) == 0 {
		cfg.Search = found.search
	}
	return cfg, nil
}

// setUp creates everything, beginning with the steps that the kernel may refuse.
func (m *Masquerade) setUp(ctx context.Context, doing string, cfg MasqueradeConfig, logger *slog.Logger) error {
	table, err := openTable(doing, cfg.Name, tableOwned, nftables.TableFamilyINet)
	if err != nil {
		return err
	}
	m.rules = table
	m.closers = append(m.closers, table.Close)
	if err := enableForwarding(doing, logger); err != nil {
		return err
	}
	ports, err := reservePorts(doing, cfg.Forwards)
	if err != nil {
		return err
	}
	m.closers = append(m.closers, ports.Close)
	if err := m.openTap(doing, cfg); err != nil {
		return err
	}
	if err := cfg.AllPorts.leaveOut(doing, cfg, logger); err != nil {
		return err
	}
	all := masqueradeChains(cfg.Name, m.Guest(), cfg.Forwards, cfg.AllPorts)
	if err := table.addChains(doing, nftables.TableFamilyINet, "", all...); err != nil {
		return err
	}
	allowLoopback(cfg, logger)
	if err := warnOfBarriers(table, cfg, logger); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return m.serveAddress(ctx, doing, cfg, logger)
}

// serveAddress starts the DHCP server.
func (m *Masquerade) serveAddress(ctx context.Context, doing string, cfg MasqueradeConfig, logger *slog.Logger) error {
	server, err := startDHCP(ctx, cfg.Name, lease{
		mac: cfg.MAC, guest: m.guest, server: m.gateway, gateway: m.gateway, mtu: m.tap.mtu,
		dns: cfg.DNS, search: cfg.Search, hostname: cfg.Hostname,
	}, logger)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	m.closers = append(m.closers, server.Close)
	return nil
}

// warnOfBarriers logs conditions that may keep the network from working.
func warnOfBarriers(table *table, cfg MasqueradeConfig, logger *slog.Logger) error {
	if len(cfg.DNS) == 0 {
		logger.Warn("guest gets no name servers")
	}
	barriers, err := table.findBarriers()
	for _, chain := range barriers {
		logger.Warn("firewall drops forwarded packets that it has no rule for", "chain", chain, "interface", cfg.Name)
	}
	return err
}

// openTap creates the tap and assigns the gateway's address to it. It creates no bridge: with one VM in the subnet,
// the bridge would have a single port and, unlike the tap, would outlive a killed process.
func (m *Masquerade) openTap(doing string, cfg MasqueradeConfig) error {
	tap, link, err := createTap(doing, cfg.Name, cfg.Owner, cfg.Queues)
	if err != nil {
		return err
	}
	m.tap = tap
	m.closers = append(m.closers, tap.tearDown)
	around, err := readSurroundings(link)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	tap.mtu = around.mtu
	if err := tap.prepareLink(doing, link, gatewayAddress(cfg.MAC)); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return noAdmin(doing+": bring the tap up", err)
	}
	subnet, err := chooseSubnet(doing, link, cfg, around)
	if err != nil {
		return err
	}
	m.settleIn(subnet)
	return nil
}

// settleIn records the addresses of the subnet.
func (m *Masquerade) settleIn(subnet netip.Prefix) {
	m.gateway = gatewayOf(subnet)
	m.guest = netip.PrefixFrom(guestOf(subnet), subnet.Bits())
}

// gatewayAddress derives the gateway's hardware address from the VM's, so it stays the same in every run and on
// every computer.
func gatewayAddress(machine net.HardwareAddr) net.HardwareAddr {
	gateway := highAddress(machine)
	if machine[0] == gateway[0] {
		gateway[0] = 0xfa
	}
	return gateway
}

// chooseSubnet chooses a subnet and assigns it to the tap.
func chooseSubnet(doing string, link netlink.Link, cfg MasqueradeConfig, around surroundings) (netip.Prefix, error) {
	if cfg.Subnet.IsValid() {
		if u, taken := firstOverlap(cfg.Subnet, around.addresses); taken {
			return cfg.Subnet, subnetTaken(doing, cfg.Subnet, "overlaps with "+u.by)
		}
		free, err := claimSubnet(doing, link, cfg.Subnet)
		if err == nil && !free {
			err = subnetTaken(doing, cfg.Subnet, "has a route already")
		}
		return cfg.Subnet, err
	}
	used := append(around.addresses, around.routes...)
	for _, server := range cfg.DNS {
		used = append(used, usedPrefix{netip.PrefixFrom(server, server.BitLen()), "a name server"})
	}
	for subnet := range defaultSubnets() {
		if _, taken := firstOverlap(subnet, used); taken {
			continue
		}
		if free, err := claimSubnet(doing, link, subnet); free || err != nil {
			return subnet, err
		}
	}
	return netip.Prefix{}, &Error{
		Doing: doing, Fault: SubnetTaken, Detail: "none of the usual private subnets is free",
		Remedy: "name one as subnet",
	}
}

func subnetTaken(doing string, subnet netip.Prefix, why string) error {
	return &Error{
		Doing: doing, Fault: SubnetTaken, Detail: fmt.Sprintf("subnet %s %s", subnet, why),
		Remedy: "choose another subnet, or leave it out to use a free subnet",
	}
}

// claimSubnet assigns the gateway's address to the link and adds the route to the subnet. It reports false if another
// route to the subnet exists. It adds the route itself, not with the address, because the kernel refuses a second
// route to the same subnet: that decides between processes that find a subnet free at the same time.
func claimSubnet(doing string, link netlink.Link, subnet netip.Prefix) (bool, error) {
	own := netip.PrefixFrom(gatewayOf(subnet), subnet.Bits())
	address := &netlink.Addr{IPNet: toIPNet(own), Flags: unix.IFA_F_NOPREFIXROUTE}
	if err := netlink.AddrAdd(link, address); err != nil {
		return false, noAdmin(fmt.Sprintf("%s: add address %s", doing, own), err)
	}
	err := netlink.RouteAdd(&netlink.Route{
		LinkIndex: link.Attrs().Index, Dst: toIPNet(subnet), Scope: netlink.SCOPE_LINK,
		Src: gatewayOf(subnet).AsSlice(), Protocol: unix.RTPROT_KERNEL,
	})
	if err == nil {
		return true, nil
	}
	if err := netlink.AddrDel(link, address); err != nil {
		return false, noAdmin(fmt.Sprintf("%s: remove address %s", doing, own), err)
	}
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	return false, noAdmin(fmt.Sprintf("%s: add a route to %s", doing, subnet), err)
}

// enableForwarding turns the namespace into a router.
func enableForwarding(doing string, logger *slog.Logger) error {
	const setting = "net/ipv4/ip_forward"
	if value, err := sysctl.Sysctl(setting); err == nil && value != "0" {
		return nil
	}
	if _, err := sysctl.Sysctl(setting, "1"); err != nil {
		return &Error{
			Doing: doing, Fault: ForwardingOff, Err: err,
			Detail: "IPv4 forwarding is disabled and cannot be enabled from here",
			Remedy: "run `sysctl -w net.ipv4.ip_forward=1` as root (in Kubernetes: on the node; new " +
				"pods use its value)",
		}
	}
	logger.Warn("IPv4 forwarding was off; it has been switched on, and stays on", "setting", "net.ipv4.ip_forward")
	return nil
}

// allowLoopback lets packets from 127.0.0.1 leave through the tap, for forwarded ports and for kubectl port-forward,
// which connects to them at that address. If /proc/sys is read-only, the ports are reachable only at the other
// addresses.
func allowLoopback(cfg MasqueradeConfig, logger *slog.Logger) {
	for _, f := range cfg.Forwards {
		if !f.viaLoopback() {
			continue
		}
		if _, err := sysctl.Sysctl("net/ipv4/conf/"+cfg.Name+"/route_localnet", "1"); err != nil {
			logger.Warn("forwarded ports cannot be reached at the loopback address", "err", err)
		}
		return
	}
}

// Files returns the descriptors for QEMU, as Tap.Files does. The Masquerade still owns them.
func (m *Masquerade) Files() []*os.File { return m.tap.Files() }

// Inherit returns additional descriptors that QEMU should inherit without using them, so that the rules last as long
// as QEMU. If the caller is killed, the VM is still guarded and keeps its connections. The Masquerade still owns the
// descriptors. The list is empty for an adopted Masquerade.
func (m *Masquerade) Inherit() []*os.File {
	if m.rules == nil {
		return nil
	}
	return []*os.File{m.rules.handle}
}

// Name returns the tap's name.
func (m *Masquerade) Name() string { return m.tap.name }

// MTU returns the largest packet in bytes, as Tap.MTU does.
func (m *Masquerade) MTU() int { return m.tap.mtu }

// Guest returns the VM's address.
func (m *Masquerade) Guest() netip.Addr { return m.guest.Addr() }

// Gateway returns the namespace's own address in the subnet.
func (m *Masquerade) Gateway() netip.Addr { return m.gateway }

// Close removes everything except the tap, which the kernel removes after QEMU has ended.
func (m *Masquerade) Close() error { return runUnforked(m.tearDown) }

func (m *Masquerade) tearDown() error {
	var errs []error
	for i := len(m.closers) - 1; i >= 0; i-- {
		errs = append(errs, m.closers[i]())
	}
	m.closers = nil
	return errors.Join(errs...)
}
