package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	// ErrExists means that there is a VM of that name.
	ErrExists = errors.New("there is a VM of this name")
	// ErrChanged means that a definition has been changed by someone else meanwhile.
	ErrChanged = errors.New("the definition has been changed meanwhile")
)

// Data is what happens to the data that a deleted VM of the same name has left. In a cluster there are none.
type Data string

// The choices. Without one, a VM that would get such data isn't created.
const (
	// KeepData gives them to the new VM, FreshData removes them.
	KeepData  Data = "keep"
	FreshData Data = "fresh"
)

// Leftover is the error for data of a deleted VM of the same name: where they are, and what.
type Leftover string

func (l Leftover) Error() string {
	return "there are data of a deleted VM of this name, in " + string(l) + "; choose whether the new VM gets them (data=keep) " +
		"or whether they are removed (data=fresh)"
}

const (
	// Kept stands in a definition for a secret that is not shown. Where it still stands when
	// the definition is saved, the secret stays as it is.
	Kept = "(kept as it is)"
	// NewPassword stands in the definition that a Draft makes for the hash of the password
	// (cloudinit.HashPassword), by which it is replaced before the VM is created.
	NewPassword = "(hash of the password)"
)

// Definitions are how VMs are made and changed, with the form's fields or as YAML. In a
// cluster a definition is the resource, on one computer the configuration file. Names must
// be those in the definition. Errors are those of Fleet, and Faults: all that is wrong with
// a definition at once.
//
// See docs/decisions/0070-definitions.md.
type Definitions interface {
	// Offer returns from what a VM can be made.
	Offer(ctx context.Context) (*Offer, error)
	// VMType returns a VM type; a Refusal says what is wrong with it.
	VMType(ctx context.Context, name string) (*VMType, error)
	// Draft returns the definition of a new VM, for a Check. It is made of wrong values, too, so that all
	// faults are found at once.
	Draft(ctx context.Context, d *Draft) (string, error)

	// Definition returns a VM's definition, without secrets.
	Definition(ctx context.Context, name string) (*Definition, error)
	// Check returns what saving a definition would do, and changes nothing. A definition
	// without a version is that of a new VM.
	Check(ctx context.Context, name string, d *Definition) (*Check, error)
	// Create makes a new VM, which Get returns from then on; it is not started. Disks whose definitions precede that of
	// the VM, in a cluster, are made with it, all or none. The error is ErrExists if there is a VM of that name, and of
	// type Leftover if data must be chosen.
	Create(ctx context.Context, user, name, text string, data Data) error
	// Replace gives a VM another definition. The error is ErrChanged if it is no longer the
	// version that was edited.
	Replace(ctx context.Context, user, name string, d *Definition) error
	// Left returns what stays when the VM is deleted, such as its disks, by the names or
	// paths that the user needs to find it.
	Left(ctx context.Context, name string) ([]string, error)
}

// An Offer is from what a VM can be made.
type Offer struct {
	// Types are the names of the VM types, Type is the suggested one.
	Types []string
	Type  string
	// Networks are the types of networks, the suggested one first; NoNetwork is one of them.
	Networks []string
	// Images reports whether a disk can be an image that is there.
	Images bool
	// RunPolicies are those that a new VM can have; nil if VMs have none.
	RunPolicies []string
	// Classes are the storage classes of disks; nil if disks have none.
	Classes *Classes
	// Sources are what disks that outlive the VM can be made of; nil if there are no such disks.
	Sources *Sources
	// VMClasses are the classes that a VM can have, sorted; nil if there are none.
	VMClasses []VMClass
}

// A VMClass is a kind of VM that says what a definition leaves out.
type VMClass struct {
	Name string
	// Preset reports that new VMs have it that name none.
	Preset bool
	// Sizes are those that its VMs may have, in English; nil means any.
	Sizes []string
	// Type and Network are those of VMs that name none; "" if the class says nothing of them.
	Type, Network string
	// Options are the names of those that the class gives.
	Options []string
	// Fractions are the parts of their CPUs that its VMs can be sure to get, by how many CPUs they have.
	Fractions []Fractions
}

// Fractions are the parts of its CPUs, from "1%" to "100%", that a VM can be sure to get that has at least Least
// and at most Most CPUs.
type Fractions struct {
	Least, Most int64
	// Allowed, in ascending order; nil means any. Preset is that of VMs that say none; "" if they are sure of none.
	Allowed []string
	Preset  string
}

// Classes are the storage classes that disks can have.
type Classes struct {
	// Names of all that there are, sorted; nil if they are not known.
	Names []string
	// Default is that of a disk without one; "" if there is none.
	Default string
}

// Sources are what a disk of a VM can be made of, or can be, sorted by their names.
type Sources struct {
	// Images that are ready, without those of CDs; Disks that no VM has or names.
	Images, Disks []Volume
}

// NoNetwork is the type of network of a VM without one.
const NoNetwork = "none"

// A VMType is one from which a VM can be made.
type VMType struct {
	Name string
	// Doc is what it is for, in a line of English.
	Doc     string
	Options []Option
}

// An Option is one that a VM type declares.
type Option struct {
	Name, Doc string
	// Kind is string, file, int, bool, size; or another, whose values are given as YAML.
	Kind      string
	Mandatory bool
	// Default is used without a value; "" if there is none.
	Default string
	// Values are all that are allowed; nil means any.
	Values []string
	// Minimum and Maximum bound an int, or a size in bytes; nil means no bound.
	Minimum, Maximum *int64
}

// A Draft is a new VM in a few fields. What is zero is left out of the definition.
type Draft struct {
	Name, Type string
	RunPolicy  string
	Class      string
	// Fraction is the part of its CPUs that the VM is sure to get; "" leaves it to the class.
	Fraction string
	CPUs     int64
	RAM      int64 // bytes
	Disks    []Disk
	// CD reports that there is a drive, with the image Medium (a file or URL) if not "".
	CD      bool
	Medium  string
	Network string
	// Screen reports that the VM has one.
	Screen bool
	// User is made by cloud-init in the guest and may become root. It logs in by the public
	// Keys, and, if Password, by one that is NewPassword in the definition.
	User     string
	Keys     []string
	Password bool
	// Options of the VM type: YAML, by name.
	Options map[string]string
}

// A Disk is a new one of a Size, or an Image that is there.
type Disk struct {
	Size  int64 // bytes
	Image string
	Class string
	// From says what kind of disk it is; Of is the name of the image or of the disk, or the URL. Checksum is that of
	// what is transferred from a URL (sha256:HEX), "" for none.
	From         DiskFrom
	Of, Checksum string
}

// DiskFrom says what kind of disk a new VM has.
type DiskFrom string

// The kinds. All but FromVM outlive the VM, and all of these but FromDisk are made with it.
const (
	FromVM    DiskFrom = ""      // the VM's own
	FromBlank DiskFrom = "blank" // a blank one
	FromImage DiskFrom = "image" // a copy of an image
	FromURL   DiskFrom = "url"   // an image on a web server
	FromDisk  DiskFrom = "disk"  // one that is there
)

// DiskName returns the name in the VM of the disk at a place; that of one that outlives it begins with the VM's.
func (d *Draft) DiskName(place int) string {
	name := "system"
	if place > 0 {
		name = fmt.Sprintf("disk%d", place+1)
	}
	if from := d.Disks[place].From; from != FromVM {
		return d.Name + "-" + name
	}
	return name
}

// The fields of a Draft, as Draft.Field returns them: of a disk and an option with its number
// or name behind a point.
const (
	FieldName    = "name"
	FieldType    = "type"
	FieldPolicy  = "policy"
	FieldClass   = "vmclass"
	FieldShare   = "share"
	FieldCPUs    = "cpus"
	FieldRAM     = "ram"
	FieldDisk    = "disk"
	FieldCD      = "cd"
	FieldNetwork = "network"
	FieldScreen  = "screen"
	FieldUser    = "user"
	FieldOption  = "option"
)

// PathOfDisk begins the path of a field of a disk that is made with a VM, before the disk's name.
const PathOfDisk = "VirtualDisk "

// Field returns the field that has what is at a path of the definition, in a file or in a resource:
// "disk.0" for vm.drives[0].size or spec.vm.disks[0].volumeClaimTemplate; "" if none has.
func (d *Draft) Field(path string) string {
	path = strings.TrimPrefix(path, "spec.")
	for _, at := range []struct{ path, field string }{
		{"metadata.name", FieldName},
		{"vm.name", FieldName},
		{"vmType", FieldType},
		{"runPolicy", FieldPolicy},
		{"virtualMachineClassName", FieldClass},
		{"cpu", FieldShare},
		{"vm.maximumCpus", FieldCPUs},
		{"vm.currentCpus", FieldCPUs},
		{"vm.maximumRam", FieldRAM},
		{"vm.currentRam", FieldRAM},
		{"vm.network", FieldNetwork},
		{"vm.networks", FieldNetwork},
		{"vm.display", FieldScreen},
		{"cloudInit", FieldUser},
	} {
		if rest, is := strings.CutPrefix(path, at.path); is && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return at.field
		}
	}
	if rest, is := strings.CutPrefix(path, "vm.options."); is {
		if end := strings.IndexAny(rest, ".["); end >= 0 {
			rest = rest[:end]
		}
		return FieldOption + "." + rest
	}
	return d.diskField(path)
}

// diskField returns the field of a disk or of the CD drive that has what is at a path.
func (d *Draft) diskField(path string) string {
	if rest, is := strings.CutPrefix(path, PathOfDisk); is {
		for i := range d.Disks {
			if name := d.DiskName(i); rest == name || strings.HasPrefix(rest, name+".") {
				return FieldDisk + "." + strconv.Itoa(i)
			}
		}
	}
	var place int
	for format, own := range map[string]bool{
		"vm.drives[%d]": true, "vm.disks[%d]": true, "blockDeviceRefs[%d]": false,
	} {
		if _, err := fmt.Sscanf(path, format, &place); err != nil {
			continue
		}
		for i, disk := range d.Disks {
			if own != (disk.From == FromVM) {
				continue
			}
			if place == 0 {
				return FieldDisk + "." + strconv.Itoa(i)
			}
			place--
		}
		if own {
			return FieldCD
		}
	}
	return ""
}

// A Definition is a VM's as YAML.
type Definition struct {
	// Text has no secrets: Kept is in their place.
	Text string
	// Version changes with the definition; "" is that of a new VM.
	Version string
}

// A Check is what saving a definition would do.
type Check struct {
	// Faults keep it from being saved; everything else is empty then.
	Faults Faults `json:"-"`
	// Warnings don't.
	Warnings []string `json:"warnings,omitempty"`
	// Plan is what QEMU would get at the next start.
	Plan []Argument `json:"plan,omitempty"`
	// Leftover are data of a deleted VM that a new VM of its name would get: where, and what; "" for none.
	Leftover Leftover `json:"leftover,omitempty"`
	// Running reports whether the VM is. Now are the changes that it takes over at once,
	// Later those that await a restart.
	Running bool     `json:"running"`
	Now     []Change `json:"now,omitempty"`
	Later   []Change `json:"later,omitempty"`
}

// A Fault is something wrong with a definition.
type Fault struct {
	// Path of the field: vm.maximumCpus in a file, spec.vm.maximumCpus in a resource; "" if
	// it isn't about one.
	Path string `json:"path,omitempty"`
	// Line of the definition, from 1; 0 if it isn't known.
	Line int `json:"line,omitempty"`
	// Message says in English what is wrong, and what would be right.
	Message string `json:"message"`
}

// Faults are all that is wrong with a definition.
type Faults []Fault

// Error returns a line for each.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		if fault.Line > 0 {
			lines[i] = fmt.Sprintf("line %d: ", fault.Line)
		}
		if fault.Path != "" {
			lines[i] += fault.Path + ": "
		}
		lines[i] += fault.Message
	}
	return strings.Join(lines, "\n")
}
