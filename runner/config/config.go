package config

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"vmop/cloudinit"
	"vmop/printable"
	"vmop/vmspec"
	"vmop/yamlfile"
)

// DefaultFile is read when no other file is asked for.
const DefaultFile = "/etc/opt/vmrunner/config.yaml"

// DefaultVMType is the VM type of a configuration that names none.
const DefaultVMType = "standard"

// Config is the section "/Runner" of a configuration file: what one runner is
// to do.
type Config struct {
	// DataDir holds what must survive a restart; see [Config.DataDirectory].
	DataDir string `yaml:"dataDir"`
	// RuntimeDir holds what lives as long as the run; see
	// [Config.RuntimeDirectory].
	RuntimeDir string `yaml:"runtimeDir"`
	// ImageRepository is the folder of the only files that vm.options may name; empty
	// means that they may name any.
	ImageRepository string `yaml:"imageRepository"`
	// NBDCertificates is a folder with certificates for drives of NBD servers that come while the
	// VM runs: QEMU may read the folder that the VM is started with. Empty means that such drives
	// can only have the folders of those that the configuration has at the start.
	NBDCertificates string `yaml:"nbdCertificates"`
	// DrivesRevision is that of the drives of NBD servers. The runner reports it with the drives when it
	// knows which of them the machine has.
	DrivesRevision int64 `yaml:"drivesRevision" min:"0"`
	// Namespace of the VM's custom resource. Empty means that of the pod, if
	// the runner is in one.
	Namespace string `yaml:"namespace"`
	// Generation is the metadata.generation of the custom resource that the
	// configuration was made of; 0 means that it was made of none.
	Generation int64 `yaml:"generation" min:"0"`
	// Resource is the metadata.uid of that custom resource. When it is another,
	// the status is reported anew: that resource knows nothing yet.
	Resource string `yaml:"resource"`
	// CloudInit, if not nil, asks for a cloud-init disk, even if it is empty.
	CloudInit *cloudinit.Config `yaml:"cloudInit"`
	// Provisioned means that CloudInit is what spec.provisioning of the custom resource
	// says, not its spec.cloudInit: so the paths in faults and changes begin with
	// "provisioning".
	Provisioned bool `yaml:"provisioned"`
	// Sysprep, if not nil, asks for a disk with answer files of Windows Setup.
	Sysprep *Sysprep `yaml:"sysprep"`
	// GuestShutdownStops makes a shutdown by the guest final: the VM's desired
	// state becomes Stopped.
	GuestShutdownStops bool `yaml:"guestShutdownStops"`
	// CrashStops does the same for a crash of the guest or of QEMU.
	CrashStops bool `yaml:"crashStops"`
	// ResetCounter resets the VM whenever it becomes larger than it was; the
	// first value that a runner sees does nothing.
	ResetCounter *int64 `yaml:"resetCounter"`
	// VMType names the program that turns the vm section into a launch plan.
	VMType string `yaml:"vmType"`
	// UpdateVMType takes the VM type as it is now, instead of the copy that was
	// kept at the VM's first start.
	UpdateVMType bool `yaml:"updateVmType"`
	// VM is the vm section, without defaults.
	VM vmspec.Spec `yaml:"vm"`

	document *yamlfile.Document
	text     []byte
}

// Sysprep is where the answer files of Windows Setup are.
type Sysprep struct {
	// Directory has unattend.xml, autounattend.xml, or both.
	Directory string `yaml:"directory"`
}

// DataPath returns the path of CloudInit, as who wrote it knows it.
func (c *Config) DataPath() string {
	if c.Provisioned {
		return "provisioning"
	}
	return "cloudInit"
}

// Text returns what the configuration was read from, for Parse to read again.
// It isn't changed.
func (c *Config) Text() []byte { return c.text }

// Locate returns faults of the vm section as yamlfile.Faults with their places in the
// file that the configuration was read from; nil if there are none. It serves
// checks that go beyond what Load can know, such as vmspec.ResolveResources.
func (c *Config) Locate(faults []vmspec.Fault) error {
	problems := make([]yamlfile.Problem, len(faults))
	for i, f := range faults {
		problems[i] = yamlfile.Problem{Path: f.Path, Message: f.Message, Hint: f.Hint, Key: f.Key}
	}
	return c.document.Locate(problems)
}

// Format returns the text of a file that Parse reads as this configuration.
// What has its zero value is left out; an empty list stays, as it means none.
func (c *Config) Format() ([]byte, error) {
	text, err := yamlfile.Write(struct {
		Runner *Config `yaml:"/Runner"`
	}{c})
	if err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", c.VM.Name, err)
	}
	return text, nil
}

// section is Config with the keys of the original that became others.
type section struct {
	Config         `yaml:",inline"`
	Template       string `yaml:"template" former:"vmType"`
	UpdateTemplate bool   `yaml:"updateTemplate" former:"updateVmType"`
}

// Load reads the configuration file at a path. What is wrong with its content
// is an error of type yamlfile.Faults; all faults are reported at once.
//
// Config.VM is as the user wrote it, but known to be without fault once
// WithDefaults has been applied.
//
// Settings, path=value, change what is in the file before it is looked at:
// "vm.maximumCpus=8", "vm.drives[0].file=/x.img". The path begins in the section
// "/Runner", the value is YAML, and nothing at all takes a key away.
func Load(file string, settings ...string) (*Config, []yamlfile.Warning, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, nil, err
	}
	return Parse(file, data, settings...)
}

// Parse reads the content of a configuration file, at most 1 MiB; name is what
// it is called in messages. See Load.
func Parse(name string, data []byte, settings ...string) (*Config, []yamlfile.Warning, error) {
	config, warnings, err := interpret(name, data, settings...)
	if err != nil {
		return nil, warnings, err
	}
	return config, warnings, nil
}

// interpret is Parse, and returns what could be read of a configuration with faults.
func interpret(name string, data []byte, settings ...string) (*Config, []yamlfile.Warning, error) {
	r := &reader{yamlfile.NewReader(name, data, yamlfile.Dialect{
		Section: "/Runner", Content: "its key vm describes the VM", Renamed: foreignKey, Secret: "cloudInit",
	})}
	r.Set(settings...)
	var s section
	if r.Section(&s) {
		r.vmType(&s)
		r.cloudInit(&s)
		if s.Sysprep != nil && s.Sysprep.Directory == "" {
			r.Refuse("sysprep", nil, "directory is missing", "the folder with unattend.xml, autounattend.xml or both")
		}
		r.vm(&s)
	}
	if err := r.Err(); err != nil {
		return &s.Config, r.Warnings(), err
	}
	s.document, s.text = r.Document(), data
	return &s.Config, r.Warnings(), nil
}

// reader checks what a file says beyond its shape.
type reader struct{ *yamlfile.Reader }

// vmType settles which VM type is used, and understands the template that the
// original calls its standard.
func (r *reader) vmType(s *section) {
	if r.Document().Given("template") {
		const moved = "VM types, written in Starlark, take the place of FreeMarker templates; see docs/vm-types"
		switch {
		case r.Document().Given("vmType"):
			r.Refuse("template", []string{"vmType"}, "vmType is given as well", "leave template out: "+moved)
		case path.Base(s.Template) == "Standard-VM-latest.ftl.yaml":
			r.Warn("template", "is understood as vmType: "+DefaultVMType, moved)
			s.VMType = DefaultVMType
		default:
			r.Refuse("template", nil, quote(s.Template)+" can't be used", moved)
		}
	}
	if r.Document().Given("updateTemplate") {
		if r.Document().Given("updateVmType") {
			r.Refuse("updateTemplate", nil, "updateVmType is given as well", "leave updateTemplate out")
		} else {
			r.Warn("updateTemplate", "is understood as updateVmType", "use the new name")
			s.UpdateVMType = s.UpdateTemplate
		}
	}
	if strings.HasSuffix(s.VMType, ".ftl.yaml") {
		hint := "a VM type such as standard; see docs/vm-types"
		r.Refuse("vmType", nil, quote(s.VMType)+" is a FreeMarker template", hint)
	}
	if s.VMType == "" {
		s.VMType = DefaultVMType
	}
}

// cloudInit has the data rendered once, so that what is wrong with them is said
// with everything else.
func (r *reader) cloudInit(s *section) {
	if s.CloudInit == nil {
		return
	}
	for file, of := range map[string]string{"userDataFile": "userData", "networkConfigFile": "networkConfig"} {
		file, of = "cloudInit."+file, "cloudInit."+of
		if r.Document().Given(file) && r.Document().Given(of) {
			r.Refuse(file, []string{of}, of+" is given as well", "leave one of them out")
		}
	}
	_, err := s.CloudInit.Seed(s.VM.Name)
	for _, err := range Split(err) {
		var wrong *cloudinit.KeyError
		switch {
		case errors.As(err, &wrong) && wrong.Line > 0:
			r.RefuseAt(wrong.Line, wrong.Column, s.DataPath()+"."+wrong.Key, wrong.Problem, "")
		case err != nil:
			r.Refuse(s.DataPath(), nil, err.Error(), "")
		}
	}
}

// Split returns the errors that were joined.
func Split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// vm checks the vm section as it will be used.
func (r *reader) vm(s *section) {
	for _, fault := range s.VM.WithDefaults().Check() {
		r.Refuse(fault.Path, fault.Also, fault.Message, fault.Hint)
	}
}

// quote returns a word of a file fit for a message: short, and without what would
// disturb a terminal.
func quote(word string) string { return strconv.Quote(printable.Line(printable.Clip(word, 60))) }
