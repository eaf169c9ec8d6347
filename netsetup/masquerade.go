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

// MasqueradeConfig describes a private subnet with one machine in it.
type MasqueradeConfig struct {
	// Name is the tap's name, 1 to 15 bytes. It also names the rules.
	Name string
	// Owner identifies the owner of the network; see TapConfig.Owner.
	Owner string
	// Queues is how many queues the tap has; see TapConfig.Queues.
	Queues int
	// MAC is the machine's hardware address, the only one that gets an
	// address.
	MAC net.HardwareAddr
	// Subnet is an IPv4 prefix of 8 to 30 bits. Its first address is the
	// gateway's, its second the machine's. Zero: 10.0.2.0/24, or, where that
	// is in use, the next one that is free.
	Subnet netip.Prefix
	// Hostname is the machine's name, for its DHCP lease; may be empty.
	Hostname string
	// DNS are the name servers of the machine's DHCP lease, IPv4. Empty: those of
	// /etc/resolv.conf that it can reach.
	DNS []netip.Addr
	// Search are the domains for names without a dot. Empty: those of
	// /etc/resolv.conf.
	Search []string
	// Forwards are the ports that lead to the machine.
	Forwards []Forward
	// AllPorts hands all ports of the namespace's addresses to the machine; nil: those of
	// Forwards only. The loopback addresses keep theirs.
	AllPorts *AllPorts
}

// Masquerade is a tap with a private subnet behind the namespace's addresses.
type Masquerade struct {
	tap     *Tap
	rules   *table
	guest   netip.Prefix
	gateway netip.Addr
	closers []func() error // in the order in which things were made
}

// OpenMasquerade makes the tap, gives it the gateway address, sets the rules
// and starts the DHCP server, which answers until Close; ctx is for the set-up
// only. The tap has the MTU of the default route, which is also in the machine's DHCP
// lease.
//
// IPv4 forwarding of the namespace is enabled if it is not. A firewall of
// the namespace that drops forwarded packets still does so: a rule of another
// table cannot let pass what it refuses. A warning about it is logged.
func OpenMasquerade(ctx context.Context, cfg MasqueradeConfig, logger *slog.Logger) (*Masquerade, error) {
	doing := "open masquerade network " + cfg.Name
	plan, err := check(doing, cfg)
	if err != nil {
		return nil, err
	}
	m := &Masquerade{}
	if err := m.open(ctx, doing, plan, logger); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// check returns the configuration with its defaults, or its first fault.
func check(doing string, cfg MasqueradeConfig) (MasqueradeConfig, error) {
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

// open makes everything, what can be refused first.
func (m *Masquerade) open(ctx context.Context, doing string, cfg MasqueradeConfig, logger *slog.Logger) error {
	table, err := openTable(doing, cfg.Name, tableOwned, nftables.TableFamilyINet)
	if err != nil {
		return err
	}
	m.rules = table
	m.closers = append(m.closers, table.Close)
	if err := enableForwarding(doing, logger); err != nil {
		return err
	}
	ports, err := reserve(doing, cfg.Forwards)
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
	all := chains(cfg.Name, m.Guest(), cfg.Forwards, cfg.AllPorts)
	if err := table.fill(doing, nftables.TableFamilyINet, "", all...); err != nil {
		return err
	}
	allowLoopback(cfg, logger)
	if err := warn(table, cfg, logger); err != nil {
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

// warn logs what may keep the network from working.
func warn(table *table, cfg MasqueradeConfig, logger *slog.Logger) error {
	if len(cfg.DNS) == 0 {
		logger.Warn("guest gets no name servers")
	}
	barriers, err := table.barriers()
	for _, chain := range barriers {
		logger.Warn("firewall drops forwarded packets that it has no rule for", "chain", chain, "interface", cfg.Name)
	}
	return err
}

// openTap makes the tap with the gateway's address. There is no bridge: with
// one machine in the subnet it would have a single port, and unlike the tap it
// would outlive a killed process.
func (m *Masquerade) openTap(doing string, cfg MasqueradeConfig) error {
	tap, link, err := createTap(doing, cfg.Name, cfg.Owner, cfg.Queues)
	if err != nil {
		return err
	}
	m.tap = tap
	m.closers = append(m.closers, tap.close)
	around, err := query(link)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	tap.mtu = around.mtu
	if err := tap.prepare(doing, link, gatewayAddress(cfg.MAC)); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return noAdmin(doing+": bring the tap up", err)
	}
	subnet, err := settle(doing, link, cfg, around)
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

// gatewayAddress derives the gateway's hardware address from the machine's, so
// that it is the same in every run and wherever the machine runs.
func gatewayAddress(machine net.HardwareAddr) net.HardwareAddr {
	gateway := highAddress(machine)
	if machine[0] == gateway[0] {
		gateway[0] = 0xfa
	}
	return gateway
}

// settle takes a subnet for the tap.
func settle(doing string, link netlink.Link, cfg MasqueradeConfig, around surroundings) (netip.Prefix, error) {
	if cfg.Subnet.IsValid() {
		if u, taken := firstOverlap(cfg.Subnet, around.addresses); taken {
			return cfg.Subnet, subnetTaken(doing, cfg.Subnet, "overlaps with "+u.by)
		}
		free, err := claim(doing, link, cfg.Subnet)
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
		if free, err := claim(doing, link, subnet); free || err != nil {
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
		Remedy: "choose another subnet, or none to have a free one taken",
	}
}

// claim gives the link the gateway's address and the route to the subnet. The
// kernel refuses a second route to the same subnet, which decides between
// processes that found it free at the same time; therefore the route is not
// left to come with the address.
func claim(doing string, link netlink.Link, subnet netip.Prefix) (bool, error) {
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

// enableForwarding makes the namespace a router.
func enableForwarding(doing string, logger *slog.Logger) error {
	const setting = "net/ipv4/ip_forward"
	if value, err := sysctl.Sysctl(setting); err == nil && value != "0" {
		return nil
	}
	if _, err := sysctl.Sysctl(setting, "1"); err != nil {
		return &Error{
			Doing: doing, Fault: ForwardingOff, Err: err,
			Detail: "IPv4 forwarding is disabled and cannot be enabled from here",
			Remedy: "run `sysctl -w net.ipv4.ip_forward=1` as root (in Kubernetes: on the node, whose value new " +
				"pods take over)",
		}
	}
	logger.Warn("IPv4 forwarding was off; it has been switched on, and stays on", "setting", "net.ipv4.ip_forward")
	return nil
}

// allowLoopback lets packets from 127.0.0.1 leave by the tap, for forwarded
// ports (and for kubectl port-forward, which connects to them there). Where
// /proc/sys is read-only the ports are reachable by the other addresses only.
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

// Files returns the descriptors for QEMU, as Tap.Files does. They stay the property of the
// network.
func (m *Masquerade) Files() []*os.File { return m.tap.Files() }

// Inherit returns descriptors that QEMU should inherit besides, without knowing:
// what hangs on them lasts as long as QEMU then. That is the rules, so that a
// machine whose caller is killed is still guarded and keeps its connections. They
// stay the property of the network. An adopted one has none.
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

// Guest returns the machine's address.
func (m *Masquerade) Guest() netip.Addr { return m.guest.Addr() }

// Gateway returns the namespace's own address in the subnet.
func (m *Masquerade) Gateway() netip.Addr { return m.gateway }

// Close removes everything. The tap itself is removed when QEMU has ended too.
func (m *Masquerade) Close() error { return unforked(m.close) }

func (m *Masquerade) close() error {
	var errs []error
	for i := len(m.closers) - 1; i >= 0; i-- {
		errs = append(errs, m.closers[i]())
	}
	m.closers = nil
	return errors.Join(errs...)
}
