package config

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"vmop/cloudinit"
	"vmop/internal/printable"
	"vmop/internal/yamlfile"
	"vmop/vmspec"
)

// DefaultFile is read if no other file is given.
const DefaultFile = "/etc/opt/vmrunner/config.yaml"

// DefaultVMType is the VM type of a configuration without a VM type.
const DefaultVMType = "standard"

// Config is the section "/Runner" of a configuration file: the configuration of one runner.
type Config struct {
	// DataDir is the directory for data that must survive a restart; see [Config.DataDirectory].
	DataDir string `yaml:"dataDir"`
	// RuntimeDir is the directory for files of the current run; see [Config.RuntimeDirectory].
	RuntimeDir string `yaml:"runtimeDir"`
	// ImageRepository is the only folder with files that vm.options may name; empty means that they may name any
	// file.
	ImageRepository string `yaml:"imageRepository"`
	// NBDCertificates is a folder with certificates for drives of NBD servers that are attached while the VM is
	// running: QEMU may read the folder that was configured when the VM started. If it is empty, such drives can
	// only use the folders of drives in the configuration at the start.
	NBDCertificates string `yaml:"nbdCertificates"`
	// DrivesRevision is the revision of the drives of NBD servers. The runner reports it together with the drives
	// when it knows which of them the machine has.
	DrivesRevision int64 `yaml:"drivesRevision" min:"0"`
	// Namespace of the VM's custom resource. Empty means the namespace of the pod, if the runner is in a pod.
	Namespace string `yaml:"namespace"`
	// Generation is the metadata.generation of the custom resource that the configuration was created from; 0 if
	// it wasn't created from a resource.
	Generation int64 `yaml:"generation" min:"0"`
	// Resource is the metadata.uid of that custom resource. When it changes, the complete status is reported
	// again, because the new resource has no status yet.
	Resource string `yaml:"resource"`
	// CloudInit, if not nil, requests a cloud-init disk, even if it is empty.
	CloudInit *cloudinit.Config `yaml:"cloudInit"`
	// Provisioned means that CloudInit comes from spec.provisioning of the custom resource instead of
	// spec.cloudInit. The paths in errors and changes therefore begin with "provisioning".
	Provisioned bool `yaml:"provisioned"`
	// Sysprep, if not nil, requests a disk with answer files of Windows Setup.
	Sysprep *Sysprep `yaml:"sysprep"`
	// GuestShutdownStops makes a shutdown by the guest final: the VM's desired state becomes Stopped.
	GuestShutdownStops bool `yaml:"guestShutdownStops"`
	// CrashStops does the same for a crash of the guest or of QEMU.
	CrashStops bool `yaml:"crashStops"`
	// ResetCounter resets the VM whenever it increases; the first value that a runner sees has no effect.
	ResetCounter *int64 `yaml:"resetCounter"`
	// VMType names the program that converts the vm section into a launch plan.
	VMType string `yaml:"vmType"`
	// UpdateVMType uses the current VM type instead of the copy that was kept at the VM's first start.
	UpdateVMType bool `yaml:"updateVmType"`
	// VM is the vm section, without defaults.
	VM vmspec.Spec `yaml:"vm"`

	document *yamlfile.Document
	text     []byte
}

// Sysprep is the location of the answer files of Windows Setup.
type Sysprep struct {
	// Directory contains unattend.xml, autounattend.xml, or both.
	Directory string `yaml:"directory"`
}

// DataPath returns the path of CloudInit that its author knows.
func (c *Config) DataPath() string {
	if c.Provisioned {
		return "provisioning"
	}
	return "cloudInit"
}

// Text returns the text of the configuration, for Parse to read again. Don't change it.
func (c *Config) Text() []byte { return c.text }

// Locate returns errors of the vm section as yamlfile.Faults with their places in the configuration file; nil if
// there are no errors. Use it for checks that go beyond what Load can know, such as vmspec.ResolveResources.
func (c *Config) Locate(faults []vmspec.Fault) error {
	problems := make([]yamlfile.Problem, len(faults))
	for i, f := range faults {
		problems[i] = yamlfile.Problem{Path: f.Path, Message: f.Message, Hint: f.Hint, Key: f.Key}
	}
	return c.document.Locate(problems)
}

// Line returns the line, counted from 1, of a path in the vm section, or of the longest existing part of it.
func (c *Config) Line(path string) int {
	var faults yamlfile.Faults
	errors.As(c.Locate([]vmspec.Fault{{Path: path}}), &faults)
	return faults[0].Line
}

// LocateWarnings returns warnings about fields with their places in the configuration file.
func (c *Config) LocateWarnings(about []vmspec.Fault) []yamlfile.Warning {
	var faults yamlfile.Faults
	errors.As(c.Locate(about), &faults)
	warnings := make([]yamlfile.Warning, len(faults))
	for i, f := range faults {
		warnings[i] = yamlfile.Warning(f)
	}
	return warnings
}

// Format returns the text of a file that Parse reads as this configuration. It omits zero values but keeps empty
// lists, which have a meaning.
func (c *Config) Format() ([]byte, error) {
	text, err := yamlfile.Write(struct {
		Runner *Config `yaml:"/Runner"`
	}{c})
	if err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", c.VM.Name, err)
	}
	return text, nil
}

// section is Config with the original's keys that have been renamed.
type section struct {
	Config         `yaml:",inline"`
	Template       string `yaml:"template" former:"vmType"`
	UpdateTemplate bool   `yaml:"updateTemplate" former:"updateVmType"`
}

// Load reads the configuration file at a path. Errors in its content are of type yamlfile.Faults, which contains
// all errors of the file.
//
// Config.VM is as the user wrote it, but known to be valid once WithDefaults has been applied.
//
// Settings, path=value, change the content of the file before it is checked: "vm.maximumCpus=8",
// "vm.drives[0].file=/x.img". The path begins in the section "/Runner", and the value is YAML. An empty value
// removes a key.
func Load(file string, settings ...string) (*Config, []yamlfile.Warning, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, nil, err
	}
	return Parse(file, data, settings...)
}

// Parse reads the content of a configuration file, at most 1 MiB; name is its name in messages. See Load.
func Parse(name string, data []byte, settings ...string) (*Config, []yamlfile.Warning, error) {
	config, warnings, err := interpretFile(name, data, settings...)
	if err != nil {
		return nil, warnings, err
	}
	return config, warnings, nil
}

// interpretFile is like Parse, but returns the readable part of an invalid configuration.
func interpretFile(name string, data []byte, settings ...string) (*Config, []yamlfile.Warning, error) {
	r := &reader{yamlfile.NewReader(name, data, yamlfile.Dialect{
		Section: "/Runner", Content: "its key vm describes the VM", Renamed: foreignKey, Meant: vmspec.KeysMeantBy,
		Secret: "cloudInit",
	})}
	r.Set(settings...)
	var s section
	if r.Section(&s) {
		r.vmType(&s)
		r.checkCloudInit(&s)
		if s.Sysprep != nil && s.Sysprep.Directory == "" {
			r.Refuse("sysprep", nil, "directory is missing", "the folder with unattend.xml, autounattend.xml or both")
		}
		r.checkVM(&s)
	}
	if err := r.Err(); err != nil {
		return &s.Config, r.Warnings(), err
	}
	s.document, s.text = r.Document(), data
	return &s.Config, r.Warnings(), nil
}

// reader checks the meaning of a file beyond its structure.
type reader struct{ *yamlfile.Reader }

// vmType determines the VM type, and accepts the original's standard template.
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
			r.Refuse("template", nil, quoteWord(s.Template)+" can't be used", moved)
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
		r.Refuse("vmType", nil, quoteWord(s.VMType)+" is a FreeMarker template", hint)
	}
	if s.VMType == "" {
		s.VMType = DefaultVMType
	}
}

// checkCloudInit renders the data once, to report its errors together with the others.
func (r *reader) checkCloudInit(s *section) {
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

// checkVM checks the vm section with its defaults.
func (r *reader) checkVM(s *section) {
	for _, fault := range s.VM.WithDefaults().Check() {
		r.Refuse(fault.Path, fault.Also, fault.Message, fault.Hint)
	}
}

// quoteWord returns a word of a file for a message: short, and without characters that would disturb a terminal.
func quoteWord(word string) string { return strconv.Quote(printable.Line(printable.Clip(word, 60))) }
