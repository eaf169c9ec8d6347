package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"vmop/runner/config"
	"vmop/runner/prepare/images"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
)

// A Draft is the short description of a new VM.
type Draft struct {
	// Name of the VM. System makes it a VM of the computer instead of the user.
	Name   string
	System bool
	// Type is the VM type; empty means config.DefaultVMType.
	Type string
	// CPUs is the number of CPUs at the start; the guest can get as many as the computer has. RAM has the syntax of
	// vm.maximumRam. 0 and "" mean the configuration's defaults; see Suggest for better ones.
	CPUs int
	RAM  string
	// Disks are sizes of new disks in the data directory, "20 GiB", or absolute paths of existing images. NoDisk
	// alone means no disk or, with an image, a disk of its size.
	Disks []string
	// Image is the source of the first disk, in the syntax of a drive's source (vmspec.SourceKindOf). The size of
	// the disk is the first of Disks, or the image's size. Empty means no image.
	Image string
	// CD is the absolute path or URL of a medium, or EmptyCD for a drive without a medium; empty means no drive.
	CD string
	// Drivers is the absolute path of a CD with drivers for the setup of the guest; see SuggestDrivers.
	Drivers string
	// Network is the type of the network: tap, user, passt, masquerade or none; empty means the default.
	Network string
	// Display is vnc, on a unix socket, or empty for no screen.
	Display string
	// User, if not empty, is a user that cloud-init creates in the guest, with the right to become root. The user
	// logs in with the public SSHKeys and, if PasswordHash isn't empty, with the hashed password
	// (cloudinit.HashPassword).
	User         string
	SSHKeys      []string
	PasswordHash string
	// Agent makes cloud-init install the QEMU guest agent, if there is a User.
	Agent bool
	// Settings have the form path=value as in config.Load, and are applied last.
	Settings []string
}

// Types returns the names of the VM types that a new VM can use.
func (inv *Inventory) Types() ([]string, error) {
	library, err := vmtypes.Open(inv.opts.Prepare.VMTypes)
	if err != nil {
		return nil, err
	}
	return library.Names(), library.Close()
}

// DescribeType returns the description of a VM type, for example its options.
func (inv *Inventory) DescribeType(ctx context.Context, name string) (vmtypes.Description, error) {
	found, err := evaluate.Find(inv.opts.Prepare.VMTypes, name)
	if err != nil {
		return vmtypes.Description{}, err
	}
	return found.Describe(ctx)
}

// EmptyCD is a CD drive without a medium.
const EmptyCD = "-"

// Draft returns the configuration of a new VM. The error is of type yamlfile.Faults; the index in an error about
// a setting counts all settings, including those created from the draft.
func (inv *Inventory) Draft(d Draft) ([]byte, error) {
	if err := checkNewName(d.Name); err != nil {
		return nil, err
	}
	place, err := inv.Place(d.System)
	if err != nil {
		return nil, err
	}
	if err := d.checkImageSize(place.Env); err != nil {
		return nil, err
	}
	unset := config.Config{VM: vmspec.Spec{Name: d.Name}}
	dataDir, err := unset.DataDirectory(place.Env)
	if err != nil {
		return nil, err
	}
	cfg, _, err := config.Parse(d.Name+suffix, []byte("\"/Runner\":\n  vm:\n    name: x\n"),
		d.draftSettings(dataDir)...)
	if err != nil {
		return nil, err
	}
	return cfg.Format()
}

// SmallDisk is the error of a draft with a first disk that is smaller than its image.
type SmallDisk struct {
	Disk, Image string       // as in the draft
	Needs       vmspec.Bytes // size of the image
}

func (s SmallDisk) Error() string {
	return fmt.Sprintf("disk %s: the image %s needs %s; use at least that size", s.Disk, images.Shown(s.Image), s.Needs)
}

// checkImageSize returns a [SmallDisk] if the image is on this computer and larger than the disk. A size that
// can't be read is reported with the configuration.
func (d *Draft) checkImageSize(env config.Env) error {
	if d.Image == "" || len(d.Disks) == 0 {
		return nil
	}
	size, err := vmspec.ParseBytes(d.Disks[0])
	if err != nil {
		return nil //nolint:nilerr // the configuration's check reports it
	}
	cache, err := images.NewCache(env)
	if err != nil {
		return err
	}
	if needs := vmspec.Bytes(cache.SizeOf(images.Source{Text: d.Image})); size < needs {
		return SmallDisk{d.Disks[0], d.Image, needs}
	}
	return nil
}

// draftSettings returns the draft as path=value.
func (d *Draft) draftSettings(dataDir string) (list []string) {
	text := func(path, value string) {
		list = append(list, path+"="+quoteYAML(value))
	}
	optional := func(path, value string) {
		if value != "" {
			text(path, value)
		}
	}
	text("vm.name", d.Name)
	optional("vmType", d.Type)
	if d.CPUs != 0 {
		list = append(list, "vm.currentCpus="+strconv.Itoa(d.CPUs),
			"vm.maximumCpus="+strconv.Itoa(max(d.CPUs, min(runtime.NumCPU(), mostPluggable))))
	}
	optional("vm.maximumRam", d.RAM)
	switch d.Network {
	case "":
	case "none":
		list = append(list, "vm.network=[]")
	default:
		text("vm.network[0].type", d.Network)
	}
	list = append(list, d.driveSettings(dataDir)...)
	if d.Display != "" {
		list = append(list, "vm.display."+d.Display+"={}")
	}
	list = append(list, d.userSettings()...)
	return append(list, d.Settings...)
}

// driveSettings returns the settings of the disks and the CD drive, as path=value.
func (d *Draft) driveSettings(dataDir string) (list []string) {
	text := func(path, value string) {
		list = append(list, path+"="+quoteYAML(value))
	}
	drives := 0
	sizes := d.Disks
	if slices.Equal(sizes, []string{NoDisk}) {
		sizes = nil
	}
	if d.Image != "" && len(sizes) == 0 {
		sizes = []string{""}
	}
	for i, disk := range sizes {
		at := fmt.Sprintf("vm.drives[%d]", drives)
		drives++
		if filepath.IsAbs(disk) {
			text(at+".file", disk)
			if filepath.Ext(disk) == ".qcow2" {
				text(at+".format", "qcow2")
			}
			continue
		}
		name := "disk.img"
		if i > 0 {
			name = fmt.Sprintf("disk%d.img", i+1)
		}
		text(at+".file", filepath.Join(dataDir, name))
		if disk != "" {
			text(at+".size", disk)
		}
		if i == 0 && d.Image != "" {
			text(at+".source", d.Image)
		}
	}
	if d.CD != "" {
		at := fmt.Sprintf("vm.drives[%d]", drives)
		text(at+".type", string(vmspec.DriveIDECD))
		if d.CD != EmptyCD {
			text(at+".file", d.CD)
		}
	}
	return list
}

// userSettings returns the settings that create the user in the guest, as path=value.
func (d *Draft) userSettings() (list []string) {
	if d.User == "" {
		return nil
	}
	const user = "cloudInit.userData.users[0]"
	for _, s := range [][2]string{
		{".name", d.User}, {".sudo", "ALL=(ALL) NOPASSWD:ALL"}, {".shell", "/bin/bash"},
	} {
		list = append(list, user+s[0]+"="+quoteYAML(s[1]))
	}
	for i, key := range d.SSHKeys {
		list = append(list, fmt.Sprintf("%s.ssh_authorized_keys[%d]=%s", user, i, quoteYAML(key)))
	}
	if d.Agent {
		list = append(list, "cloudInit.userData.packages[0]=qemu-guest-agent",
			"cloudInit.userData.runcmd[0]="+quoteYAML(startAgent))
	}
	if d.PasswordHash != "" {
		list = append(list, user+".passwd="+quoteYAML(d.PasswordHash), user+".lock_passwd=false")
	}
	return list
}

// startAgent starts the agent after its installation, with systemd or OpenRC. It also succeeds without the agent, so
// that cloud-init reports no second error.
const startAgent = "systemctl start qemu-guest-agent || rc-service qemu-guest-agent start || true"

// quoteYAML returns a text as YAML.
func quoteYAML(text string) string {
	value, _ := json.Marshal(text) // strings can always be encoded
	return string(value)
}

// Copy returns the configuration in a file as the configuration of another VM, with settings applied. Relative
// paths still lead to the same files, and the directories are the new VM's. If the copy needs no changes, Copy
// returns the text as it is, with its comments.
func Copy(file string, text []byte, name string, settings ...string) ([]byte, error) {
	whole, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("folder of %s: %w", file, err)
	}
	cfg, _, err := config.Parse(file, text, settings...)
	if err != nil {
		return nil, err
	}
	own := *cfg
	own.DataDir, own.RuntimeDir, own.VM.Name = "", "", name
	if own.ImageRepository != "" {
		own.ImageRepository = vmspec.Within(filepath.Dir(whole), own.ImageRepository)
	}
	own.VM = own.VM.Within(filepath.Dir(whole))
	made, err := own.Format()
	if err != nil {
		return nil, err
	}
	same, err := cfg.Format()
	if err == nil && len(settings) == 0 && string(made) == string(same) {
		return text, nil
	}
	return made, err
}
