package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	// ErrExists means that a VM with this name exists.
	ErrExists = errors.New("there is a VM of this name")
	// ErrChanged means that someone else has changed the definition in the meantime.
	ErrChanged = errors.New("the definition has been changed meanwhile")
)

// Data is what to do with the data of a deleted VM of the same name. In a cluster there is no such data.
type Data string

// Choices for leftover data. Without a choice, a VM that would get such data isn't created.
const (
	// KeepData gives the data to the new VM, FreshData removes it.
	KeepData  Data = "keep"
	FreshData Data = "fresh"
)

// Leftover is the error for data of a deleted VM of the same name. It contains the folder and a description.
type Leftover string

func (l Leftover) Error() string {
	return "there are data of a deleted VM of this name, in " + string(l) + "; choose whether the new VM gets them (data=keep) " +
		"or whether they are removed (data=fresh)"
}

const (
	// Kept replaces a secret in a definition. If the saved definition still contains it, the secret stays unchanged.
	Kept = "(kept as it is)"
	// NewPassword is the placeholder for the password hash in the definition from Draft. It is replaced by the result
	// of cloudinit.HashPassword before the VM is created.
	NewPassword = "(hash of the password)"
)

// Definitions creates and changes VMs, with the fields of a form or as YAML. In a cluster a definition is the resource,
// on one computer the configuration file. The name argument must match the definition. Errors are those that Fleet
// describes, and Faults, which lists all problems in a definition.
//
// See docs/decisions/0070-definitions.md.
type Definitions interface {
	// Offer returns the choices for a new VM.
	Offer(ctx context.Context) (*Offer, error)
	// VMType returns a VM type. A Refusal contains the errors in the type.
	VMType(ctx context.Context, name string) (*VMType, error)
	// Draft returns the definition of a new VM, for Check. It accepts invalid values, so that Check can report all
	// problems together.
	Draft(ctx context.Context, d *Draft) (string, error)

	// Definition returns the definition of a VM, without secrets.
	Definition(ctx context.Context, name string) (*Definition, error)
	// Check returns what saving a definition would do, without saving it. An empty version means a new VM.
	Check(ctx context.Context, name string, d *Definition) (*Check, error)
	// Create creates a new VM, without starting it. Afterwards Get returns the VM. In a cluster the text may also
	// define disks before the VM; the VM and its disks are created together or not at all. The error is ErrExists if
	// the name is taken, and has type Leftover if a choice of data is needed.
	Create(ctx context.Context, user, name, text string, data Data) error
	// Replace changes the definition of a VM. The error is ErrChanged if the VM no longer has the version that was
	// edited.
	Replace(ctx context.Context, user, name string, d *Definition) error
	// Left returns what stays when the VM is deleted, such as its disks, as names or paths.
	Left(ctx context.Context, name string) ([]string, error)
}

// An Offer contains the choices for a new VM.
type Offer struct {
	// Types are the names of the VM types. Type is the suggested type.
	Types []string
	Type  string
	// Networks are the types of networks, including NoNetwork. The first is suggested.
	Networks []string
	// Images reports whether a disk can use an existing image file.
	Images bool
	// Known are the images with names that the first disk can be a copy of, sorted by name; nil if there are none.
	Known []KnownImage
	// Media are the uploaded images that the VM can start from, or that a CD drive can contain; nil if there are none.
	Media []Medium
	// User and Keys are suggested for the log-in of a VM from such an image: a user name, and public SSH keys.
	User string
	Keys []string
	// CDs are files of this computer that are known to be images of CDs, sorted.
	CDs []string
	// RunPolicies are the possible run policies; nil if VMs have none.
	RunPolicies []string
	// Classes are the storage classes for disks; nil if disks have none.
	Classes *Classes
	// Sources are the sources for disks that outlive the VM; nil if there are no such disks.
	Sources *Sources
	// VMClasses are the possible VM classes, sorted by name; nil if there are none.
	VMClasses []VMClass
}

// A KnownImage is an image with a name, such as debian/12.
type KnownImage struct {
	Name string
	// Host is the web server with the image.
	Host string
	// Size of a disk with the image in bytes; 0 if the image is not downloaded yet.
	Size int64
}

// A VMClass provides defaults for the definitions of its VMs.
type VMClass struct {
	Name string
	// Preset reports whether it is the class of new VMs that name none.
	Preset bool
	// Sizes describes the allowed sizes, in English; nil means any.
	Sizes []string
	// Type and Network are the defaults of its VMs; "" if the class has no default.
	Type, Network string
	// Options are the names of the options that the class sets, and Locked of the options that VMs can't set.
	Options, Locked []string
	// Fractions are the guaranteed CPU fractions that its VMs can have, by number of CPUs.
	Fractions []Fractions
}

// Fractions are the CPU fractions, from "1%" to "100%", that can be guaranteed to a VM with Least to Most CPUs.
type Fractions struct {
	Least, Most int64
	// Allowed is in ascending order; nil means any. Preset is the default; "" means no guarantee.
	Allowed []string
	Preset  string
}

// Classes are the storage classes for disks.
type Classes struct {
	// Names of all storage classes, sorted; nil if they are unknown.
	Names []string
	// Default is the default storage class; "" if there is none.
	Default string
}

// Sources are the existing images and disks that a new VM can use, sorted by name.
type Sources struct {
	// Images are the ready images, without CD images. Disks are the disks that no VM uses or names.
	Images, Disks []Volume
}

// NoNetwork is the network type of a VM without a network.
const NoNetwork = "none"

// A VMType is a VM type as forms show it.
type VMType struct {
	Name string
	// Doc is its purpose in one line of English.
	Doc     string
	Options []Option
	// Drivers is the option for the CD with the drivers that the setup of its guests lacks; "" if the setup has all
	// drivers.
	// Without describes the options of a new VM without that CD.
	Drivers, Without string
	// CPUs, and RAM and Disk in bytes, are suggested for a new VM; 0 if there is no suggestion.
	CPUs, RAM, Disk int64
}

// An Option is an option that a VM type declares.
type Option struct {
	Name, Doc string
	// Label is the name for people; "" means Name. Group is the heading of the options with the same Group, or "".
	Label, Group string
	// Kind is string, file, int, bool, size, duration, percent or rate. Values of other kinds are given as YAML.
	Kind      string
	Mandatory bool
	// Default is the default value, or "". DefaultRule describes a default that depends on other options.
	Default, DefaultRule string
	// Deprecated explains what to use instead; "" if the option is not deprecated.
	Deprecated string
	// Example is an allowed string, or "".
	Example string
	// Values are the allowed values; nil means any.
	Values []string
	// Minimum and Maximum limit an int, or a size in bytes; nil means no limit.
	Minimum, Maximum *int64
	// Rules describes the other limits in English, such as "at least 8 characters"; "" if there are none.
	Rules string
}

// A Draft describes a new VM with a few fields. Zero values are omitted from the definition.
type Draft struct {
	Name, Type string
	RunPolicy  string
	Class      string
	// Fraction is the guaranteed fraction of its CPUs; "" leaves it to the class.
	Fraction string
	CPUs     int64
	RAM      int64 // bytes
	Disks    []Disk
	// Image is the name of a KnownImage, or the path or URL of an image, that the first disk is a copy of; "" means no
	// image. Without Disks the copy has the size of the image.
	Image string
	// CD reports whether the VM has a CD drive. Medium is the image in it, a file or URL; "" means an empty drive.
	CD      bool
	Medium  string
	Network string
	// Screen reports whether the VM has a screen.
	Screen bool
	// User is the user that cloud-init creates in the guest, with permission to become root. It logs in with the public
	// Keys and, if Password is set, with a password: the definition then contains NewPassword.
	User     string
	Keys     []string
	Password bool
	// Options of the VM type, as YAML by name.
	Options map[string]string
}

// A Disk is a new disk of a Size, or an existing Image.
type Disk struct {
	Size  int64 // bytes
	Image string
	Class string
	// From is the kind of disk. Field Of contains the name of the source image or disk, or the URL. Checksum is the
	// checksum of the download (sha256:HEX); "" means no check.
	From         DiskFrom
	Of, Checksum string
}

// DiskFrom is the kind of a new VM's disk.
type DiskFrom string

// The kinds. All except FromVM outlive the VM; of these, all except FromDisk are created with it.
const (
	FromVM    DiskFrom = ""      // the VM's own disk
	FromBlank DiskFrom = "blank" // a blank disk
	FromImage DiskFrom = "image" // a copy of an image
	FromURL   DiskFrom = "url"   // an image on a web server
	FromDisk  DiskFrom = "disk"  // an existing disk
)

// DiskName returns the name of the disk with this index. If the disk outlives the VM, its name begins with the VM's
// name.
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

// The fields of a Draft, as Field returns them. For a disk or option, a dot and its number or name follow.
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

// PathOfDisk begins the path of a field in a new disk of a new VM. The name of the disk follows.
const PathOfDisk = "VirtualDisk "

// Field returns the field for a path in the definition, a file or resource; "" if there is none. For example,
// vm.drives[0].size and spec.vm.disks[0].volumeClaimTemplate both belong to "disk.0".
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

// diskField returns the disk or CD field for a path; "" if there is none.
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

// A Definition is the definition of a VM as YAML.
type Definition struct {
	// Text contains Kept instead of secrets.
	Text string
	// Version changes with the definition; "" for a new VM.
	Version string
}

// A Check is the result of checking a definition.
type Check struct {
	// Faults are problems that prevent saving. All other fields are then empty.
	Faults Faults `json:"-"`
	// Warnings don't prevent saving.
	Warnings []string `json:"warnings,omitempty"`
	// Plan contains the arguments of QEMU at the next start.
	Plan []Argument `json:"plan,omitempty"`
	// Leftover describes data of a deleted VM that a new VM with this name would get; "" if there is none.
	Leftover Leftover `json:"leftover,omitempty"`
	// Running reports whether the VM is running. Now are the changes that take effect immediately; Later are the
	// changes that need a restart.
	Running bool     `json:"running"`
	Now     []Change `json:"now,omitempty"`
	Later   []Change `json:"later,omitempty"`
}

// A Fault is a problem in a definition.
type Fault struct {
	// Path is the field: vm.maximumCpus in a file, spec.vm.maximumCpus in a resource; "" if the problem concerns no
	// single field.
	Path string `json:"path,omitempty"`
	// Line in the definition, from 1; 0 if unknown.
	Line int `json:"line,omitempty"`
	// Message is the problem and how to fix it, in English.
	Message string `json:"message"`
}

// Faults are all problems in a definition.
type Faults []Fault

// Error returns one line per problem.
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
