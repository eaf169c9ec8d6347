package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/vmtypes"
)

// draft is a short description of a new VM.
type draft struct {
	name, vmType, ram, class, cd, network, display, user, keyFile, firmware, policy, vmClass string
	cpus                                                                                     int32
	disks, options                                                                           []string
	start                                                                                    bool
}

func newCreate(f *flags) *cobra.Command {
	var form, dryRun string
	var d draft
	var w waiting
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a VM", GroupID: groupChange,
		Long: "Create a VM of a VM type. Its disks are new claims. --option sets options of the type\n" +
			"(vmrunner vmtype explain TYPE lists them). For Windows from a CD, set virtioDrivers;\n" +
			"otherwise the VM has SATA disks and an e1000e card, which setup supports.\n" +
			"--dry-run=client -o yaml prints the definition for kubectl apply.",
		Example: "  kubectl vmop create web --cpus 2 --ram 4Gi --disk 20Gi --cd debian.iso --start\n" +
			"  kubectl vmop create win --type windows --option virtioDrivers=virtio-win.iso --dry-run=client -o yaml",
	}
	f.oneVM(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	doneFlag(cmd, &form)
	d.addFlags(cmd)
	dryRunFlag(cmd, &dryRun)
	w.addFlags(cmd, "the guest is running; needs --start")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.name, _ = splitName(args)
		if dryRun != "none" && dryRun != "client" && dryRun != "server" {
			return cli.UsageError{Err: fmt.Errorf("--dry-run %s: must be none, server or client", dryRun)}
		}
		vm, err := d.draftVM(cmd.Context())
		switch {
		case err != nil:
			return cli.UsageError{Err: err}
		case w.wait && vm.Spec.DesiredState() != v1.Running:
			return cli.UsageError{Err: errors.New("--wait needs --start")}
		}
		if dryRun == "client" {
			return printDone(cmd, form, vm, vmKind, vm.Name, "created (dry run)")
		}
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil:
			return m.createVM(cmd, vm, dryRun == "server", form, w)
		}
		c, err := f.connectTo(cmd)
		if err != nil {
			return err
		}
		if vm, err = c.createVM(cmd.Context(), vm, dryRun == "server", w); err != nil {
			return err
		}
		done := strings.TrimSuffix("created ("+dryRun+" dry run)", " (none dry run)")
		return printDone(cmd, form, withKind(vm), vmKind, vm.Name, done)
	}
	return cmd
}

// createVM creates a VM, unless it is a dry run, and waits for the guest if requested.
func (c *cluster) createVM(ctx context.Context, vm *v1.VirtualMachine, dry bool, w waiting) (*v1.VirtualMachine,
	error,
) {
	ctx, cancel := w.waitContext(ctx)
	defer cancel()
	options := metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	vm, err := c.vms.Create(ctx, vm, options)
	if err != nil || dry || !w.wait {
		return vm, err
	}
	return c.awaitVM(ctx, vm.Name, isSettled(vm.Generation, v1.Running))
}

func (d *draft) addFlags(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVar(&d.vmType, "type", "",
		"VM `TYPE`: standard, cloud, windows, microvm, pc, arm64 or yours (default the class's, otherwise standard)")
	p.StringArrayVar(&d.options, "option", nil, "set an option of the VM type, `NAME=VALUE`; may be repeated")
	p.Int32Var(&d.cpus, "cpus", 1, "`NUMBER` of CPUs")
	p.StringVar(&d.ram, "ram", "1Gi", "`SIZE` of memory, such as 4Gi")
	p.StringArrayVar(&d.disks, "disk", nil, "`SIZE` of a new disk, such as 20Gi; may be repeated")
	p.StringVar(&d.class, "storage-class", "", "storage `CLASS` of new volumes (default the cluster's default class)")
	p.StringVar(&d.cd, "cd", "", "`IMAGE` in a CD drive: a file of the image repository, or a URL")
	p.StringVar(&d.vmClass, "class", "", "`NAME` of the VirtualMachineClass with the VM's defaults")
	p.StringVar(&d.network, "network", "",
		"kind of `NETWORK`: user, masquerade, none or tap:BRIDGE (default the class's, otherwise user)")
	p.StringVar(&d.display, "display", "",
		"kind of `DISPLAY`: spice, vnc or none (default the class's, otherwise spice)")
	p.StringVar(&d.firmware, "firmware", "",
		"kind of `FIRMWARE`: uefi, uefi-4m, secure, secure-4m or bios (default the class's, otherwise uefi)")
	p.StringVar(&d.user, "user", "", "`NAME` of a user that cloud-init creates in the guest")
	p.StringVar(&d.keyFile, "ssh-key", "",
		"`FILE` with the public key of that user (default ~/.ssh/id_ed25519.pub, then id_ecdsa.pub)")
	p.BoolVar(&d.start, "start", false, "start the VM")
	p.StringVar(&d.policy, "run-policy", "",
		"run `POLICY`: AlwaysOn, AlwaysOnUnlessStoppedManually, Manual or AlwaysOff")
	cli.CompleteFlag(cmd, "run-policy", "AlwaysOn", "AlwaysOnUnlessStoppedManually", "Manual", "AlwaysOff")
	cli.CompleteFlag(cmd, "type", "standard", "cloud", "windows", "microvm", "pc", "arm64")
	cli.CompleteFlag(cmd, "network", "user", "masquerade", "none", "tap:br0")
	cli.CompleteFlag(cmd, "display", "spice", "vnc", "none")
	cli.CompleteFlag(cmd, "firmware", "uefi", "uefi-4m", "secure", "secure-4m", "bios")
	cli.CompleteFile(cmd, "ssh-key", "pub")
}

// draftVM returns the VM for the draft.
func (d *draft) draftVM(ctx context.Context) (*v1.VirtualMachine, error) {
	ram, err := resource.ParseQuantity(d.ram)
	if err != nil {
		return nil, fmt.Errorf("--ram %s: must be a size such as 4Gi", d.ram)
	}
	vm := withKind(&v1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: d.name},
		Spec: v1.VirtualMachineSpec{
			VMType: v1.VMType{Source: d.vmType}, RunPolicy: v1.RunPolicy(d.policy), VirtualMachineClassName: d.vmClass,
			VM: v1.VM{MaximumCPUs: &d.cpus, MaximumRAM: &ram, Firmware: d.firmware},
		},
	})
	m := &vm.Spec.VM
	switch {
	case d.start && vm.Spec.RunPolicy == v1.AlwaysOff:
		return nil, errors.New("--start contradicts --run-policy AlwaysOff: leave out one of them")
	case d.start:
		m.State = v1.Running
	case d.policy == "":
		m.State = v1.Stopped
	}
	if err := d.addDisks(m); err != nil {
		return nil, err
	}
	if d.network == "" && d.vmClass == "" {
		d.network = "user"
	}
	switch kind, bridge, _ := strings.Cut(d.network, ":"); kind {
	case "user":
		m.Networks = []v1.Network{{User: &v1.UserNetwork{}}}
	case "masquerade":
		m.Networks = []v1.Network{{Masquerade: &v1.PrivateNetwork{}}}
	case "tap":
		m.Networks = []v1.Network{{Tap: &v1.Tap{Bridge: bridge}}}
	case "none":
		m.Networks = []v1.Network{} // unlike nil, this replaces the class's networks
	case "":
	default:
		return nil, fmt.Errorf("--network %s: must be user, masquerade, none or tap:BRIDGE", d.network)
	}
	switch d.display {
	case "": // of the class, otherwise SPICE
	case "spice":
		m.Display = &v1.Display{Spice: &v1.Spice{}}
	case "vnc":
		m.Display = &v1.Display{VNC: &v1.VNC{}}
	case "none":
		m.Display = &v1.Display{}
	default:
		return nil, fmt.Errorf("--display %s: must be spice, vnc or none", d.display)
	}
	if err := d.addOptions(ctx, m); err != nil {
		return nil, err
	}
	vm.Spec.CloudInit, err = d.cloudInitUser()
	return vm, err
}

func (d *draft) addDisks(m *v1.VM) error {
	for i, text := range d.disks {
		size, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("--disk %s: must be a size such as 20Gi", text)
		}
		claim := &v1.VolumeClaimTemplate{Spec: v1.ClaimSpec{Resources: v1.Resources{
			Requests: corev1.ResourceList{corev1.ResourceStorage: size},
		}}}
		claim.Metadata.Name = "system"
		if i > 0 {
			claim.Metadata.Name = fmt.Sprintf("data%d", i)
		}
		if d.class != "" {
			claim.Spec.StorageClassName = &d.class
		}
		m.Disks = append(m.Disks, v1.Disk{VolumeClaimTemplate: claim})
	}
	if d.cd != "" {
		m.Disks = append(m.Disks, v1.Disk{CDROM: &v1.CDROM{Image: d.cd}})
	}
	return nil
}

// addOptions sets options of the VM type, and options for a setup that lacks drivers. The values are YAML.
func (d *draft) addOptions(ctx context.Context, m *v1.VM) error {
	options := map[string]any{}
	for _, text := range d.options {
		name, value, two := strings.Cut(text, "=")
		if !two || name == "" {
			return fmt.Errorf("--option %s: must be NAME=VALUE", text)
		}
		var decoded any
		if err := yaml.Unmarshal([]byte(value), &decoded); err != nil {
			return fmt.Errorf("--option %s: %w", text, err)
		}
		options[name] = decoded
	}
	if err := d.addDriverOptions(ctx, options); err != nil {
		return err
	}
	if len(options) == 0 {
		return nil
	}
	raw, err := json.Marshal(options)
	m.Options = &runtime.RawExtension{Raw: raw}
	return err
}

// addDriverOptions adds the options of a stock type for a setup from a CD that lacks drivers, unless options sets them.
// It leaves a VM of a class to the class.
func (d *draft) addDriverOptions(ctx context.Context, options map[string]any) error {
	if d.cd == "" || d.vmClass != "" || !vmtypes.IsStock(d.vmType) {
		return nil
	}
	t, err := vmtypes.Source{}.Library().Load(ctx, d.vmType)
	if err != nil {
		return err
	}
	missing := t.Describe().Drivers.Missing(func(name string) bool {
		_, set := options[name]
		return set
	})
	for name, value := range missing {
		options[name] = value
	}
	return nil
}

// longestKey is the maximum size of a public key, in bytes.
const longestKey = 16 << 10

// cloudInitUser returns the data that create the user, or nil for no user.
func (d *draft) cloudInitUser() (*v1.CloudInit, error) {
	if d.user == "" {
		if d.keyFile != "" {
			return nil, errors.New("--ssh-key needs --user")
		}
		return nil, nil
	}
	user := map[string]any{"name": d.user, "sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash"}
	file := d.keyFile
	if home, err := os.UserHomeDir(); file == "" && err == nil {
		for _, name := range []string{"id_ecdsa.pub", "id_ed25519.pub"} {
			if own := filepath.Join(home, ".ssh", name); fileExists(own) {
				file = own
			}
		}
	}
	if file != "" {
		text, err := readfile.ReadFile(file, longestKey)
		if err != nil {
			return nil, fmt.Errorf("read the public key: %w", err)
		}
		key := strings.TrimSpace(string(text))
		if strings.Contains(key, "PRIVATE KEY") || strings.Contains(key, "\n") {
			return nil, fmt.Errorf("%s is not a public key; use one line, as in ~/.ssh/id_ed25519.pub", file)
		}
		user["ssh_authorized_keys"] = []string{key}
	}
	raw, err := json.Marshal(map[string]any{"users": []any{"default", user}})
	return &v1.CloudInit{UserData: &runtime.RawExtension{Raw: raw}}, err
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
