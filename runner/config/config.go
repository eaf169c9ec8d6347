package config

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"vmop/cloudinit"
	"vmop/spelling"
	"vmop/vmspec"
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
	// GuestShutdownStops makes a shutdown by the guest final: the VM's desired
	// state becomes Stopped.
	GuestShutdownStops bool `yaml:"guestShutdownStops"`
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

	places *places
}

// Text returns what the configuration was read from, for Parse to read again.
// It isn't changed.
func (c *Config) Text() []byte {
	if c.places == nil {
		return nil
	}
	return c.places.text
}

// section is Config with the keys of the original that became others.
type section struct {
	Config         `yaml:",inline"`
	Template       string `yaml:"template" former:"vmType"`
	UpdateTemplate bool   `yaml:"updateTemplate" former:"updateVmType"`
}

// Load reads the configuration file at a path. What is wrong with its content
// is an error of type Faults; all faults are reported at once.
//
// Config.VM is as the user wrote it, but known to be without fault once
// WithDefaults has been applied.
//
// Settings, path=value, change what is in the file before it is looked at:
// "vm.maximumCpus=8", "vm.drives[0].file=/x.img". The path begins in the section
// "/Runner", the value is YAML, and nothing at all takes a key away.
func Load(file string, settings ...string) (*Config, []Warning, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, nil, err
	}
	return Parse(file, data, settings...)
}

// Parse reads the content of a configuration file, at most 1 MiB; name is what
// it is called in messages. See Load.
func Parse(name string, data []byte, settings ...string) (*Config, []Warning, error) {
	config, warnings, err := interpret(name, data, settings...)
	if err != nil {
		return nil, warnings, err
	}
	return config, warnings, nil
}

// interpret is Parse, and returns what could be read of a configuration with faults.
func interpret(name string, data []byte, settings ...string) (*Config, []Warning, error) {
	r := &report{file: name}
	root := r.parse(data)
	if root == nil {
		return nil, nil, r.err()
	}
	r.inFile = len(r.lines)
	for _, setting := range settings {
		r.set(root, setting)
	}
	d := newDecoder(r)
	var s section
	if d.root(root, &s) {
		d.vmType(&s)
		d.cloudInit(&s)
		d.vm(&s)
	}
	if err := r.err(); err != nil {
		return &s.Config, r.warnings, err
	}
	s.places = d.places
	s.places.text = data
	return &s.Config, r.warnings, nil
}

// root finds and decodes the section "/Runner". Sections of other components
// ("/Other", "_Other") are none of our business.
func (d *decoder) root(root *yaml.Node, s *section) bool {
	if root.Kind != yaml.MappingNode {
		d.refuse(root, "", "got "+describe(root)+`, want the section "/Runner"`, "")
		return false
	}
	var found []entry
	faults := len(d.faults)
	for _, e := range d.entries("", root) {
		switch key := e.key.Value; {
		case key == "/Runner" || key == "_Runner":
			found = append(found, e)
		case strings.HasPrefix(key, "/") || strings.HasPrefix(key, "_"):
			d.warn(e.key.Line, e.key.Column, "", "the section "+strconv.Quote(clip(key))+" is ignored", "a runner reads /Runner")
		default:
			d.refuse(e.key, clip(key), "unknown section", suggestSection(key))
		}
	}
	switch {
	case len(found) == 0:
		if len(d.faults) == faults {
			d.refuse(root, "", `there is no section "/Runner"`, "")
		}
		return false
	case isEmpty(found[0].value):
		d.refuse(found[0].key, "", "the section "+found[0].key.Value+" is empty", "its key vm describes the VM")
		return false
	}
	for _, e := range found[1:] {
		d.refuse(e.key, "", "the section is here twice", fmt.Sprintf("first on line %d, as %s", found[0].key.Line, found[0].key.Value))
	}
	d.decode("", found[0].key, found[0].value, reflect.ValueOf(s).Elem())
	return true
}

func suggestSection(key string) string {
	if strings.EqualFold(key, "Runner") || spelling.Nearest(key, []string{"/Runner"}) != "" {
		return `did you mean "/Runner"?`
	}
	for known := range keysOf("", reflect.TypeFor[section]()) {
		if known == key {
			return `it belongs into the section "/Runner": indent it`
		}
	}
	return `the section of a runner is "/Runner"`
}

// refuseAt notes a fault at a path of the file, or of what is there of it. It
// is left out if it may only be a consequence of another fault.
func (d *decoder) refuseAt(path string, also []string, message, hint string) {
	if d.consequence(path) || d.consequence(also...) {
		return
	}
	at := d.nearest(path)
	d.add(at.line, at.column, path, message, hint)
}

// vmType settles which VM type is used, and understands the template that the
// original calls its standard.
func (d *decoder) vmType(s *section) {
	if d.given("template") {
		const moved = "VM types, written in Starlark, take the place of FreeMarker templates; see docs/vm-types"
		at := d.nearest("template")
		switch {
		case d.given("vmType"):
			d.refuseAt("template", []string{"vmType"}, "vmType is given as well", "leave template out: "+moved)
		case path.Base(s.Template) == "Standard-VM-latest.ftl.yaml":
			d.warn(at.line, at.column, "template", "is understood as vmType: "+DefaultVMType, moved)
			s.VMType = DefaultVMType
		default:
			d.refuseAt("template", nil, strconv.Quote(clip(s.Template))+" can't be used", moved)
		}
	}
	if d.given("updateTemplate") {
		at := d.nearest("updateTemplate")
		if d.given("updateVmType") {
			d.refuseAt("updateTemplate", nil, "updateVmType is given as well", "leave updateTemplate out")
		} else {
			d.warn(at.line, at.column, "updateTemplate", "is understood as updateVmType", "use the new name")
			s.UpdateVMType = s.UpdateTemplate
		}
	}
	if strings.HasSuffix(s.VMType, ".ftl.yaml") {
		d.refuseAt("vmType", nil, strconv.Quote(clip(s.VMType))+" is a FreeMarker template", "a VM type such as standard; see docs/vm-types")
	}
	if s.VMType == "" {
		s.VMType = DefaultVMType
	}
}

// cloudInit has the data rendered once, so that what is wrong with them is said
// with everything else.
func (d *decoder) cloudInit(s *section) {
	if s.CloudInit == nil {
		return
	}
	_, err := s.CloudInit.Seed(s.VM.Name)
	for _, err := range split(err) {
		var wrong *cloudinit.KeyError
		switch {
		case errors.As(err, &wrong) && wrong.Line > 0:
			d.add(wrong.Line, wrong.Column, "cloudInit."+wrong.Key, wrong.Problem, "")
		case err != nil:
			d.refuseAt("cloudInit", nil, err.Error(), "")
		}
	}
}

// split returns the errors that were joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// vm checks the vm section as it will be used.
func (d *decoder) vm(s *section) {
	for _, fault := range s.VM.WithDefaults().Check() {
		d.refuseAt(fault.Path, fault.Also, fault.Message, fault.Hint)
	}
}
