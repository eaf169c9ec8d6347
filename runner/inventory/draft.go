package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"vmop/runner/config"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
)

// A Draft is a new VM in a few words.
type Draft struct {
	// Name of the VM; System says that it is the computer's, not the user's.
	Name   string
	System bool
	// Type is the VM type; empty means config.DefaultVMType.
	Type string
	// CPUs and RAM are as vm.maximumCpus and vm.maximumRam; 0 and "" mean what the
	// configuration has by default.
	CPUs int
	RAM  string
	// Disks are sizes of new disks in the data directory, "20 GiB", or absolute paths of
	// images that are there.
	Disks []string
	// Image is what the first disk is made of, as a drive's source (vmspec.SourceKindOf); its size is
	// the first of Disks, or that of the image. Empty: there is none.
	Image string
	// CD is the absolute path or URL of a medium, EmptyCD for a drive without one; empty means no
	// drive.
	CD string
	// Network is the type of the network: tap, user, passt or masquerade; none; or empty, the
	// default.
	Network string
	// Display is vnc, on a unix socket, or empty: no screen.
	Display string
	// User, if not empty, is made by cloud-init in the guest, with the right to become
	// root, and logs in by the public SSHKeys, and, if not empty, by the password of a hash
	// (cloudinit.HashPassword).
	User         string
	SSHKeys      []string
	PasswordHash string
	// Settings, path=value as in config.Load, are made last.
	Settings []string
}

// Types returns the names of the VM types from which a VM can be made.
func (inv *Inventory) Types() ([]string, error) {
	library, err := vmtypes.Open(inv.opts.Prepare.VMTypes)
	if err != nil {
		return nil, err
	}
	return library.Names(), library.Close()
}

// DescribeType returns what a VM type says of itself, such as its options.
func (inv *Inventory) DescribeType(ctx context.Context, name string) (vmtypes.Description, error) {
	found, err := evaluate.Find(inv.opts.Prepare.VMTypes, name)
	if err != nil {
		return vmtypes.Description{}, err
	}
	return found.Describe(ctx)
}

// EmptyCD is a CD drive without a medium.
const EmptyCD = "-"

// Draft returns the configuration of a new VM. The error is of type yamlfile.Faults;
// those that are about settings count all of them, also those that are made of the draft.
func (inv *Inventory) Draft(d Draft) ([]byte, error) {
	if err := checkNewName(d.Name); err != nil {
		return nil, err
	}
	place, err := inv.Place(d.System)
	if err != nil {
		return nil, err
	}
	unset := config.Config{VM: vmspec.Spec{Name: d.Name}}
	dataDir, err := unset.DataDirectory(place.Env)
	if err != nil {
		return nil, err
	}
	cfg, _, err := config.Parse(d.Name+suffix, []byte("\"/Runner\":\n  vm:\n    name: x\n"), d.settings(dataDir)...)
	if err != nil {
		return nil, err
	}
	return cfg.Format()
}

// settings returns the draft as path=value.
func (d *Draft) settings(dataDir string) (list []string) {
	text := func(path, value string) {
		list = append(list, path+"="+quoted(value))
	}
	optional := func(path, value string) {
		if value != "" {
			text(path, value)
		}
	}
	text("vm.name", d.Name)
	optional("vmType", d.Type)
	if d.CPUs != 0 {
		list = append(list, "vm.maximumCpus="+strconv.Itoa(d.CPUs))
	}
	optional("vm.maximumRam", d.RAM)
	switch d.Network {
	case "":
	case "none":
		list = append(list, "vm.network=[]")
	default:
		text("vm.network[0].type", d.Network)
	}
	drives := 0
	sizes := d.Disks
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
		optional(at+".size", disk)
		if i == 0 {
			optional(at+".source", d.Image)
		}
	}
	if d.CD != "" {
		at := fmt.Sprintf("vm.drives[%d]", drives)
		text(at+".type", string(vmspec.DriveIDECD))
		if d.CD != EmptyCD {
			text(at+".file", d.CD)
		}
	}
	if d.Display != "" {
		list = append(list, "vm.display."+d.Display+"={}")
	}
	list = append(list, d.userSettings()...)
	return append(list, d.Settings...)
}

// userSettings returns what makes the user in the guest, as path=value.
func (d *Draft) userSettings() (list []string) {
	if d.User == "" {
		return nil
	}
	const user = "cloudInit.userData.users[0]"
	for _, s := range [][2]string{
		{".name", d.User}, {".sudo", "ALL=(ALL) NOPASSWD:ALL"}, {".shell", "/bin/bash"},
	} {
		list = append(list, user+s[0]+"="+quoted(s[1]))
	}
	for i, key := range d.SSHKeys {
		list = append(list, fmt.Sprintf("%s.ssh_authorized_keys[%d]=%s", user, i, quoted(key)))
	}
	if d.PasswordHash != "" {
		list = append(list, user+".passwd="+quoted(d.PasswordHash), user+".lock_passwd=false")
	}
	return list
}

// quoted returns a text as YAML.
func quoted(text string) string {
	value, _ := json.Marshal(text) // a text can be encoded
	return string(value)
}

// Copy returns a configuration from a file as that of another VM, with settings: relative
// paths mean the same files, and the directories are those of the new VM. A file that needs
// no change for that is returned as it is, with its comments.
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
