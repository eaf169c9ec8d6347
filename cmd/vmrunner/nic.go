package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/spelling"
	"vmop/runner/hardware"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

func newNICCommand(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "nic", Short: "Manage the network cards of VMs", Args: cli.NoArguments,
		Long: "Manage the network cards of VMs. NIC is a hardware address, a name in the guest such as\n" +
			"eth1, or a place in the configuration such as network[1]. \"vmrunner nic list\" shows them.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNICList(f), newNICAttach(f), newNICDetach(f), newNICSet(f))
	return cmd
}

func newNICList(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "list [NAME]", Short: "List the network cards of all VMs, or of one", Args: oneName,
		Long: "List the network cards of all VMs, or of one VM. GUEST and PCI are the name and the address\n" +
			"in a running guest. PENDING shows what a card waits for.",
		ValidArgsFunction: f.completeConfigured,
	}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		all, err := f.checkingInventory(cmd)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			if names, err = all.Configured(); err != nil {
				return err
			}
		}
		list := []inventory.NIC{}
		for _, name := range names {
			some, e := all.NICs(cmd.Context(), name)
			list, err = append(list, some...), errors.Join(err, e)
		}
		if form != "table" {
			return errors.Join(cli.PrintValue(cmd.OutOrStdout(), form, list), err)
		}
		rows := [][]string{{"VM", "MAC", "NETWORK", "LINK", "DEVICE", "GUEST", "PCI", "PENDING"}}
		for _, c := range list {
			network := strings.TrimSpace(string(c.Network) + " " + c.Bridge)
			rows = append(rows, []string{
				c.VM, cmp.Or(c.MAC, "-"), cmp.Or(network, "-"), cmp.Or(string(c.Link), "-"), cmp.Or(c.Device, "-"),
				cmp.Or(strings.Join(c.Names, " "), "-"), cmp.Or(hardware.ShortPCI(c.PCI), "-"), cmp.Or(c.Pending, "-"),
			})
		}
		return errors.Join(cli.Table(cmd.OutOrStdout(), rows), err)
	}
	cli.OutputFlag(cmd, &form, "table", "json", "yaml")
	return cmd
}

// nicChange contains the flags of the verbs that change a network card.
type nicChange struct {
	*flags
	limit  time.Duration
	dryRun bool
}

func (c *nicChange) addFlags(cmd *cobra.Command, what string) {
	cmd.Flags().DurationVar(&c.limit, "timeout", attachTime, "`DURATION` that the guest may take to "+what)
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "print the changed configuration without saving it")
}

// changeNIC changes a network card, and prints the result.
func (c *nicChange) changeNIC(
	cmd *cobra.Command, vm string, do func(*inventory.Inventory, inventory.NICRequest) (inventory.NICChange, error),
	done string,
) error {
	if c.limit <= 0 {
		return cli.UsageError{Err: fmt.Errorf("--timeout %s: must be more than 0", c.limit)}
	}
	all, err := c.checkingInventory(cmd)
	if err != nil {
		return err
	}
	shown := cli.NewProgress(cmd)
	got, err := do(all, inventory.NICRequest{VM: vm, Limit: c.limit, DryRun: c.dryRun, Tell: shown.Show})
	shown.End()
	printWarnings(cmd, got.Warnings)
	if err != nil {
		return err
	}
	saved := "saved: "
	switch {
	case got.Unchanged:
		saved = "the configuration is already as requested: "
	case c.dryRun:
		saved = "would be saved: "
		if err := cli.WriteLine(cmd.OutOrStdout(), string(got.Text)); err != nil {
			return err
		}
	}
	what := firstNonEmpty(got.NIC.MAC, fmt.Sprintf("network[%d]", got.NIC.Place))
	cmd.PrintErrf("%sthe network card %s, %s\n", saved, cli.Printable(what), got.NIC.Network)
	switch {
	case !got.Running:
		cmd.PrintErrln("the change applies when the VM starts")
	case got.Later != "":
		cmd.PrintErrln("the running guest is unchanged:", cli.Printable(got.Later)+"; to restart: vmrunner restart "+vm)
	case c.dryRun:
		cmd.PrintErrln("the change would apply to the running guest")
	default:
		cmd.PrintErrln(done)
	}
	return nil
}

func newNICAttach(f *flags) *cobra.Command {
	c := nicChange{flags: f}
	var n vmspec.Network
	var ports []string
	cmd := &cobra.Command{
		Use: "attach NAME NETWORK", Short: "Attach a network card to a VM", SuggestFor: []string{"add", "plug"},
		Long: "Attach a network card. NETWORK is the type of its network: tap, user, passt or masquerade.\n" +
			"The network is added to the configuration, which keeps its comments.\n\n" +
			"If the VM is running, the machine has the card when the command returns. If it cannot be\n" +
			"plugged in, the configuration is restored. Some networks need a restart; the command\n" +
			"shows the reason.",
		Example: "  vmrunner nic attach web tap --bridge br1\n" +
			"  vmrunner nic attach web user --net 10.3.0.0/24 --port 8080:80\n" +
			"  vmrunner nic attach web masquerade --dry-run",
		Args: cli.Arguments(2, 2), ValidArgsFunction: f.completeNameAndWords(vmspec.Choices("vm.network[].type")...),
	}
	p := cmd.Flags()
	p.StringVar(&n.Bridge, "bridge", "", "`BRIDGE` of a tap (default "+vmspec.DefaultBridge+")")
	p.StringVar(&n.MAC, "mac", "", "hardware `ADDRESS` (default derived from the VM's uuid)")
	p.StringVar(&n.Device, "device", "", "`MODEL` of the card (default virtio-net-pci)")
	p.StringVar(&n.Net, "net", "", "`SUBNET` of the guest in a user or masquerade network, such as 10.3.0.0/24")
	p.StringArrayVar(&ports, "port", nil, "forward a port, as `HOST:GUEST` or HOST:GUEST/udp; may be repeated")
	p.StringVar((*string)(&n.Link), "link", "", "`STATE` of the link: up or down (default up)")
	c.addFlags(cmd, "attach the card")
	cli.CompleteFlag(cmd, "link", vmspec.Choices("vm.network[].link")...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneWord("NETWORK", args[1], vmspec.Choices("vm.network[].type")); err != nil {
			return err
		}
		n.Type, n.Ports = vmspec.NetworkType(args[1]), nil
		for _, text := range ports {
			port, err := parsePort(text)
			if err != nil {
				return err
			}
			n.Ports = append(n.Ports, port)
		}
		if n.Link != "" {
			if err := oneWord("--link", string(n.Link), vmspec.Choices("vm.network[].link")); err != nil {
				return err
			}
		}
		return c.changeNIC(cmd, args[0], func(
			all *inventory.Inventory, r inventory.NICRequest,
		) (inventory.NICChange, error) {
			return all.AttachNIC(cmd.Context(), r, n)
		}, "the card is plugged in; see its name in the guest by: vmrunner nic list "+args[0])
	}
	return cmd
}

// parsePort returns the forwarded port of HOST:GUEST or HOST:GUEST/PROTOCOL.
func parsePort(text string) (p vmspec.PortForward, err error) {
	numbers, protocol, given := strings.Cut(text, "/")
	host, guest, both := strings.Cut(numbers, ":")
	p.Host, err = strconv.Atoi(host)
	if err == nil && both {
		p.Guest, err = strconv.Atoi(guest)
	}
	if err != nil || !both || given && protocol != "udp" && protocol != "tcp" {
		return p, cli.UsageError{Err: fmt.Errorf("--port %s: must be HOST:GUEST or HOST:GUEST/udp, such as 8080:80",
			cli.Printable(text))}
	}
	if protocol == "udp" {
		p.Protocol = protocol
	}
	return p, nil
}

// oneWord refuses a value that is not one of the words.
func oneWord(what, value string, words []string) error {
	hint := "must be " + strings.Join(words, ", ")
	switch near := spelling.Nearest(value, words); near {
	case value:
		return nil
	case "":
	default:
		hint = "did you mean " + near + "?"
	}
	return cli.UsageError{Err: fmt.Errorf("%s %s: %s", what, cli.Printable(value), hint)}
}

func newNICDetach(f *flags) *cobra.Command {
	c := nicChange{flags: f}
	cmd := &cobra.Command{
		Use: "detach NAME NIC", Short: "Detach a network card from a VM",
		SuggestFor: []string{"remove", "rm", "delete", "unplug"},
		Long: "Detach a network card, and remove its network from the configuration, which keeps its\n" +
			"comments. The other networks keep their hardware addresses.\n\n" +
			"If the VM is running, the guest has released the card when the command returns. Cards\n" +
			"that were present when the VM started stay in the guest until a restart.",
		Args: cli.Arguments(2, 2), ValidArgsFunction: f.completeNIC,
	}
	c.addFlags(cmd, "release the card")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.changeNIC(cmd, args[0], func(
			all *inventory.Inventory, r inventory.NICRequest,
		) (inventory.NICChange, error) {
			return all.DetachNIC(cmd.Context(), r, args[1])
		}, "the guest has released the card")
	}
	return cmd
}

func newNICSet(f *flags) *cobra.Command {
	c := nicChange{flags: f}
	var link string
	cmd := &cobra.Command{
		Use: "set NAME NIC --link up|down", Short: "Connect or disconnect a network card",
		Long: "Set the state of a network card's link, in the configuration and in a running VM. For the\n" +
			"guest, down is a card with its cable pulled out.",
		Example: "  vmrunner nic set web eth1 --link down",
		Args:    cli.Arguments(2, 2), ValidArgsFunction: f.completeNIC,
	}
	cmd.Flags().StringVar(&link, "link", "", "`STATE` of the link: up or down")
	c.addFlags(cmd, "change the link")
	cli.CompleteFlag(cmd, "link", vmspec.Choices("vm.network[].link")...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if link == "" {
			return cli.UsageError{Err: errors.New("which state? Specify --link up or --link down")}
		}
		if err := oneWord("--link", link, vmspec.Choices("vm.network[].link")); err != nil {
			return err
		}
		return c.changeNIC(cmd, args[0], func(
			all *inventory.Inventory, r inventory.NICRequest,
		) (inventory.NICChange, error) {
			return all.SetLink(cmd.Context(), r, args[1], vmspec.LinkState(link))
		}, "the link is "+link)
	}
	return cmd
}

// completeNameAndWords completes NAME and one of the words.
func (f *flags) completeNameAndWords(words ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return words, cobra.ShellCompDirectiveNoFileComp
		}
		return f.completeConfigured(cmd, args, word)
	}
}

// completeNIC completes NAME NIC.
func (f *flags) completeNIC(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return f.completeConfigured(cmd, args, word)
	}
	all, err := f.checkingInventory(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	list, _ := all.NICs(cmd.Context(), args[0]) // the verb itself reports the error
	for _, c := range list {
		if c.MAC != "" {
			about := strings.Join(append(c.Names, string(c.Network)), " ")
			names = append(names, cobra.CompletionWithDesc(c.MAC, about))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
