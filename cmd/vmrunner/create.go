package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/cloudinit"
	"vmop/internal/cli"
	"vmop/internal/cli/attach"
	"vmop/internal/readfile"
	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/runner/inventory"
	"vmop/runner/prepare/images"
	"vmop/vmspec"
)

// creation contains the flags of create.
type creation struct {
	*flags
	draft       inventory.Draft
	from        string
	keyFile     string
	yes, dryRun bool
	keep, fresh bool
	agent       bool
}

const createText = "Create the configuration ~/.config/vmrunner/NAME.yaml, or /etc/opt/vmrunner/NAME.yaml as\n" +
	"root or with --system. The configuration is checked, saved and shown. New disks are created\n" +
	"at the first start, in the VM's data directory.\n\n" +
	"Without flags that name an image, a CD, a disk or a configuration to copy, create prompts\n" +
	"for missing values on a terminal: press Return to accept the default, or type - to leave a\n" +
	"value empty.\n\n" +
	"--from copies an existing configuration instead. Relative paths still refer to the same\n" +
	"files.\n\n" +
	"If a deleted VM of this name left data behind, use --keep-data or --fresh."

const createExamples = `  vmrunner create web --image debian/12
  vmrunner create web --cpus 2 --ram 4GiB --disk 40GiB --cd ~/debian-12.iso
  vmrunner create win --type windows --cd ~/win11.iso --virtio-drivers ~/virtio-win.iso
  vmrunner create db --from ~/.config/vmrunner/web.yaml --set vm.maximumCpus=4`

func newCreate(f *flags) *cobra.Command {
	c := &creation{flags: f}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a VM", Long: createText, Example: createExamples,
	}
	f.oneVM(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	c.addFlags(cmd)
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "print the configuration without saving it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.draft.Name = args[0]
		return c.runCreation(cmd)
	}
	return cmd
}

// addFlags adds the flags that describe a new VM.
func (c *creation) addFlags(cmd *cobra.Command) {
	d := &c.draft
	p := cmd.Flags()
	p.StringVar(&d.Type, "type", config.DefaultVMType, "VM `TYPE`, such as windows (see vmrunner vmtype list)\n")
	p.IntVar(&d.CPUs, "cpus", 0, "`NUMBER` of CPUs (default as many as the computer has, at most 4)")
	p.StringVar(&d.RAM, "ram", "", "`SIZE` of memory, such as 4GiB (default a quarter of the computer's RAM,\nat most 4GiB)")
	p.StringArrayVar(&d.Disks, "disk", nil,
		"`SIZE` of a new disk, path of an existing image, or none; may be\nrepeated (default 20GiB)")
	p.StringVar(&d.Image, "image", "",
		"`SOURCE` of the first disk: a URL, a path, or a name such as debian/12\n(see vmrunner image list --known)")
	p.StringVar(&d.CD, "cd", "", "`MEDIUM` in a CD drive: a path or a URL")
	p.StringVar(&d.Drivers, "virtio-drivers", "",
		"`FILE` of the CD with virtio drivers for the setup of Windows,\nvirtio-win.iso (default SATA and an e1000e card instead of virtio)")
	p.StringVar(&d.Network, "network", "",
		"kind of `NETWORK`: user, passt, tap, masquerade or none (default tap, or\nuser without a bridge br0)")
	p.StringVar(&d.Display, "display", "vnc", "kind of `DISPLAY`: vnc (on a Unix socket) or none")
	p.StringVar(&d.User, "user", "",
		"`NAME` of a user that cloud-init creates in the guest (default with\n--image your name, or admin for root)")
	p.StringVar(&c.keyFile, "ssh-key", "", "`FILE` with the public key of that user (default ~/.ssh/id_*.pub, or\na new key for vmrunner)")
	p.BoolVar(&c.agent, "agent", true, "with --image, let cloud-init install the QEMU guest agent, which needs\nthe image's package repositories")
	p.StringArrayVar(&d.Settings, "set", nil,
		"set `PATH=VALUE` in the configuration, such as vm.bootMenu=true; may be\nrepeated")
	p.StringVar(&c.from, "from", "", "configuration `FILE` to copy; - is standard input")
	p.BoolVar(&d.System, "system", os.Geteuid() == 0, "create a VM of the computer, not of this user")
	p.BoolVar(&c.keep, "keep-data", false, "use the data of a deleted VM with this name")
	p.BoolVar(&c.fresh, "fresh", false, "delete the data of a deleted VM with this name")
	cmd.MarkFlagsMutuallyExclusive("keep-data", "fresh")
	yesFlag(cmd, &c.yes)
	c.completeTypes(cmd)
	cli.CompleteFlag(cmd, "network", "user", "passt", "tap", "masquerade", "none")
	cli.CompleteFlag(cmd, "display", "vnc", "none")
	cli.CompleteFile(cmd, "from", "yaml", "yml")
	cli.CompleteFile(cmd, "cd", "iso")
	cli.CompleteFile(cmd, "virtio-drivers", "iso")
	if err := cmd.RegisterFlagCompletionFunc("image", completeImages); err != nil {
		panic(err) // cannot happen: the flag exists
	}
	cli.CompleteFile(cmd, "ssh-key", "pub")
}

func (c *creation) runCreation(cmd *cobra.Command) error {
	all, err := c.checkingInventory(cmd)
	if err != nil {
		return err
	}
	if slices.Contains(all.Names(), c.draft.Name) {
		err := fmt.Errorf("create %s: %w", c.draft.Name, inventory.ErrExists)
		if vm, e := all.Find(cmd.Context(), c.draft.Name); e == nil && vm.Place == nil {
			return fmt.Errorf("%w; it runs, or has run, with a configuration outside the folders: %s", err, vm.RuntimeDir)
		}
		return fmt.Errorf("%w; edit it by: vmrunner edit %s", err, c.draft.Name)
	}
	if err := c.createVM(cmd, all); err != nil || c.dryRun {
		return err
	}
	cmd.PrintErrln("start it by: vmrunner start " + c.draft.Name)
	return nil
}

// createVM creates the VM, or prints its configuration.
func (c *creation) createVM(cmd *cobra.Command, all *inventory.Inventory) error {
	text, err := c.configurationText(cmd, all)
	if err != nil {
		return err
	}
	if c.dryRun {
		review, err := all.ReviewNew(cmd.Context(), c.draft.Name, c.draft.System, text)
		if err != nil {
			return err
		}
		printWarnings(cmd, review.Warnings)
		return cli.WriteLine(cmd.OutOrStdout(), string(text))
	}
	data, err := c.chooseData(cmd, all, text)
	if err != nil {
		return err
	}
	file, _, err := all.Create(cmd.Context(), c.draft.Name, c.draft.System, text, data)
	if err != nil {
		return err
	}
	cmd.PrintErrf("%s:\n%s", file, text)
	return nil
}

func printWarnings(cmd *cobra.Command, warnings []string) {
	for _, w := range warnings {
		cmd.PrintErrln("warning:", w)
	}
}

// chooseData shows the warnings about a configuration, and returns what to do with the data of a deleted VM of the same
// name. It shows the data before they are removed.
func (c *creation) chooseData(cmd *cobra.Command, all *inventory.Inventory, text []byte) (inventory.Data, error) {
	review, err := all.ReviewNew(cmd.Context(), c.draft.Name, c.draft.System, text)
	if err != nil {
		return "", err
	}
	printWarnings(cmd, review.Warnings)
	left := review.Leftover
	switch {
	case left == nil:
		return "", nil
	case c.keep:
		return inventory.KeepData, nil
	case !c.fresh:
		return "", fmt.Errorf("cannot create %s: %s contains the data of a deleted VM: %s; give them to the new VM (--keep-data), or "+
			"remove them (--fresh)", c.draft.Name, cli.Printable(left.Dir), cli.Printable(left.String()))
	}
	if err := c.mayRemove(cmd, left, c.yes); err != nil {
		return "", err
	}
	return inventory.FreshData, nil
}

// mayRemove shows a deleted VM's data that are about to be removed. On a terminal, it asks for confirmation.
func (f *flags) mayRemove(cmd *cobra.Command, l *inventory.Leftover, yes bool) error {
	what := cli.Printable(l.Dir) + ": " + cli.Printable(l.String())
	if yes || !onTerminal() {
		cmd.PrintErrln("removing", what)
		return nil
	}
	ok, err := newQuestions(cmd).askYesNo("Remove "+what+"?", false)
	if err != nil || !ok {
		return errors.Join(err, errors.New("nothing is removed"))
	}
	return nil
}

// asksNothing reports whether the flags suffice to create a VM, or there is no terminal for questions.
func (c *creation) asksNothing(cmd *cobra.Command) bool {
	return c.yes || !onTerminal() || slices.ContainsFunc([]string{"image", "cd", "disk", "from"}, cmd.Flags().Changed)
}

// configurationText returns the requested configuration.
func (c *creation) configurationText(cmd *cobra.Command, all *inventory.Inventory) ([]byte, error) {
	if cmd.Flags().Changed("cpus") && c.draft.CPUs < 1 {
		return nil, cli.UsageError{Err: fmt.Errorf("--cpus %d: must be at least 1", c.draft.CPUs)}
	}
	if c.from != "" {
		for _, flag := range []string{
			"type", "cpus", "ram", "disk", "image", "cd", "virtio-drivers", "network", "display", "user", "ssh-key",
		} {
			if cmd.Flags().Changed(flag) {
				return nil, cli.UsageError{Err: fmt.Errorf("--from and --%s are mutually exclusive; use --set", flag)}
			}
		}
		return c.copyConfiguration(cmd)
	}
	user := ""
	if c.draft.Image != "" && !cmd.Flags().Changed("user") { // an image has no password
		user = ownName()
	}
	if c.asksNothing(cmd) {
		c.draft.User = cmp.Or(c.draft.User, user)
	} else {
		if err := c.askMissing(cmd, all); err != nil {
			return nil, err
		}
	}
	if err := c.completeDraft(cmd, all); err != nil {
		return nil, cli.UsageError{Err: err}
	}
	c.draft.Agent = c.agent && c.draft.Image != "" && c.draft.Network != "none"
	if err := all.Suggest(cmd.Context(), &c.draft); err != nil {
		return nil, err
	}
	if err := errors.Join(c.warnOfSize(cmd), c.suggestDrivers(cmd, all)); err != nil {
		return nil, err
	}
	text, err := all.Draft(c.draft)
	return text, flagError(err, &c.draft)
}

// suggestDrivers completes a draft for a setup that lacks drivers, and shows the result.
func (c *creation) suggestDrivers(cmd *cobra.Command, all *inventory.Inventory) error {
	without, err := all.SuggestDrivers(cmd.Context(), &c.draft)
	if err != nil && c.draft.Drivers != "" {
		return cli.UsageError{Err: fmt.Errorf("--virtio-drivers: %w", err)}
	}
	if len(without) > 0 {
		cmd.PrintErrf("note: the setup of this guest lacks drivers for virtio, so the VM has %s; for virtio, which is "+
			"faster, use --virtio-drivers\n", strings.Join(without, " and "))
	}
	return err
}

func (c *creation) copyConfiguration(cmd *cobra.Command) (text []byte, err error) {
	if c.from == "-" {
		text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), yamlfile.LargestFile))
	} else {
		text, err = readfile.ReadFile(c.from, yamlfile.LargestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration to copy: %w", err)
	}
	return inventory.Copy(c.from, text, c.draft.Name, c.draft.Settings...)
}

// completeDraft makes paths absolute and reads the SSH key.
func (c *creation) completeDraft(cmd *cobra.Command, all *inventory.Inventory) (err error) {
	d := &c.draft
	if err := c.completeImage(); err != nil {
		return err
	}
	for i, disk := range d.Disks {
		if isSize(disk) != nil && !slices.Equal(d.Disks, []string{inventory.NoDisk}) {
			if d.Disks[i], err = existingFile(disk); err != nil {
				return fmt.Errorf("--disk %s is neither a size such as 20GiB nor an image: %w", disk, err)
			}
		}
	}
	if d.CD != "" {
		if d.CD, err = absoluteMedium(d.CD); err != nil {
			return fmt.Errorf("--cd: %w", err)
		}
	}
	if d.Drivers != "" {
		if d.Drivers, err = existingFile(d.Drivers); err != nil {
			return fmt.Errorf("--virtio-drivers: %w", err)
		}
	}
	switch d.Display {
	case "none":
		d.Display = ""
	case "vnc", "spice":
	default:
		return fmt.Errorf("--display %s: must be vnc or none", d.Display)
	}
	if d.User == "" && c.keyFile != "" {
		return errors.New("--ssh-key needs --user")
	}
	if d.User == "" {
		return nil
	}
	return c.readKey(cmd, all)
}

// readKey reads the public key of the guest's user. A user without a key gets one.
func (c *creation) readKey(cmd *cobra.Command, all *inventory.Inventory) (err error) {
	file := cmp.Or(c.keyFile, publicKey())
	switch {
	case file == "" && c.dryRun:
		return nil
	case file == "":
		if file, err = all.NewKey(c.draft.System); err != nil {
			return err
		}
		if file, err = attach.MakeKey(cmd.Context(), file); err != nil {
			return err
		}
		cmd.PrintErrf("note: you have no ~/.ssh/id_*.pub, so %s is for logging in; --ssh-key names another key\n", file)
	}
	text, err := readfile.ReadFile(file, longestKey)
	if err != nil {
		return fmt.Errorf("read the public key: %w", err)
	}
	if c.draft.SSHKeys, err = cloudinit.PublicKeys(string(text)); err != nil {
		return fmt.Errorf("read the public key %s: %w", file, err)
	}
	return nil
}

// ownName returns the name for a user in the guest: this user's name, unless that is root.
func ownName() string {
	if name := config.HostEnv().UserName; name != "root" {
		return name
	}
	return "admin"
}

// completeImage checks the image before any file is written.
func (c *creation) completeImage() error {
	d := &c.draft
	if d.Image == "" {
		return nil
	}
	source, err := sourceOf(d.Image, "")
	if err != nil {
		return fmt.Errorf("--image: %w", err)
	}
	if vmspec.SourceKindOf(d.Image) == vmspec.SourceName {
		list, err := images.Read(images.Lists(config.HostEnv())...)
		if err != nil {
			return err
		}
		if _, err := list.Find(d.Image); err != nil {
			return fmt.Errorf("--image: %w", err)
		}
	}
	d.Image = source.Text
	if len(d.Disks) > 0 && isSize(d.Disks[0]) != nil && d.Disks[0] != inventory.NoDisk {
		return fmt.Errorf("--disk %s: the first disk is created from --image, so use its size", d.Disks[0])
	}
	return nil
}

// absoluteMedium returns the URL of a medium, or its absolute path if the file exists.
func absoluteMedium(medium string) (string, error) {
	if u, err := url.Parse(medium); err == nil && u.Scheme != "" {
		return medium, nil
	}
	return existingFile(medium)
}

// longestKey is the maximum size of a public key, in bytes.
const longestKey = 16 << 10

// existingFile returns the absolute path of an existing file.
func existingFile(file string) (string, error) {
	if _, err := readfile.Stat(file); err != nil {
		return "", err
	}
	return filepath.Abs(file)
}

// publicKey returns the file with the user's public key, or "".
func publicKey() string { return firstNonEmpty(inventory.PublicKeyFiles(config.HostEnv().HomeDir)...) }
