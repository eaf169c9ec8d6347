package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"vmop/manager/access"
	"vmop/manager/addresses"
	"vmop/manager/login"
	"vmop/manager/objects"
	"vmop/regular"
	"vmop/spelling"
	"vmop/vmspec"
	"vmop/yamlfile"
)

// DefaultConfigFile is read if no other file is given.
const DefaultConfigFile = "/etc/opt/vmoperator/config.yaml"

// Config is the section "/Manager" of a configuration file.
type Config struct {
	// Namespace is the one to manage; "" stands for that of the pod.
	Namespace string
	// Settings are what the objects of VMs depend on. Version, and Image if the file
	// names none, are the program's.
	Settings objects.Settings
	// GUI, Login and Access are for the web pages and their users.
	GUI    GUI
	Login  login.Config
	Access access.Policy
	// Unused are the paths of keys that are known and do nothing yet.
	Unused []string
}

// Defaults returns the configuration without a file.
func Defaults() Config {
	return Config{Settings: objects.DefaultSettings(), GUI: defaultGUI()}
}

// file is the form of a configuration file.
type file struct {
	Manager struct {
		ClusterName string         `yaml:"clusterName"`
		Controller  controllerPart `yaml:"/Controller"`
		SocketGUI   socketPart     `yaml:"/GuiSocketServer"`
		WebGUI      webPart        `yaml:"/GuiHttpServer"`
		Access      accessPart     `yaml:"/Access"`
	} `yaml:"/Manager"`
}

type controllerPart struct {
	Namespace      string         `yaml:"namespace"`
	Reconciler     reconcilerPart `yaml:"/Reconciler"`
	PasswordFormer *secretPart    `yaml:"/DisplaySecretMonitor" former:"/Reconciler/DisplaySecretReconciler"`
}

type secretPart struct {
	PasswordValidity vmspec.Seconds `yaml:"passwordValidity" min:"0"`
}

type claimPart struct {
	StorageClassName *string `yaml:"storageClassName"`
}

type reconcilerPart struct {
	RunnerDataPVC     *claimPart  `yaml:"runnerDataPvc"`
	RunnerDataFormer  *claimPart  `yaml:"runnerData" former:"runnerDataPvc"`
	CPUOvercommit     *float64    `yaml:"cpuOvercommit"`
	RAMOvercommit     *float64    `yaml:"ramOvercommit"`
	LoadBalancer      any         `yaml:"loadBalancerService"`
	LoggingProperties string      `yaml:"loggingProperties"`
	DisplaySecret     *secretPart `yaml:"/DisplaySecretReconciler"`
	Image             struct {
		Source     string `yaml:"source"`
		PullPolicy string `yaml:"pullPolicy"`
	} `yaml:"image"`
	ImageRepository   *string      `yaml:"imageRepository"`
	VMTypesConfigMap  string       `yaml:"vmTypesConfigMap"`
	KVMResource       string       `yaml:"kvmResource"`
	VhostNetResource  string       `yaml:"vhostNetResource"`
	TrustedImages     []string     `yaml:"trustedImages"`
	TrustedVMTypes    []string     `yaml:"trustedVMTypes"`
	TrustedTypeImages []string     `yaml:"trustedVMTypeImages"`
	TrustedClaims     []string     `yaml:"trustedClaims"`
	TrustedURLs       []string     `yaml:"trustedURLs"`
	NoPrivate         bool         `yaml:"refusePrivateAddresses"`
	AllowedBridges    []string     `yaml:"allowedBridges"`
	UnfilteredBridges []string     `yaml:"unfilteredBridges"`
	Restarts          restartsPart `yaml:"automaticRestarts"`

	// Ranges and LeaseRetention are Deckhouse's virtualMachineCIDRs, and its
	// VIRTUAL_MACHINE_IP_LEASES_RETENTION_DURATION.
	Ranges         []addresses.Range `yaml:"virtualMachineCIDRs"`
	LeaseRetention *vmspec.Seconds   `yaml:"virtualMachineIPLeaseRetention"`

	OperationsKept    *int            `yaml:"operationsKept"`
	OperationsKeptFor *vmspec.Seconds `yaml:"operationsKeptFor"`
}

type restartsPart struct {
	AtOnce int            `yaml:"atOnce" min:"1"`
	Pause  vmspec.Seconds `yaml:"pause" min:"0"`
}

// Paths of sections.
const (
	controllerPath = "/Manager/Controller"
	reconcilerPath = controllerPath + "/Reconciler"
)

// Parse reads the content of a configuration file, at most 1 MiB; name is what it
// is called in messages. What is wrong is an error of type yamlfile.Faults, all at
// once. An empty file means Defaults.
func Parse(name string, data []byte) (Config, []yamlfile.Warning, error) {
	var f file
	restarts := Defaults().Settings.Restarts
	f.Manager.Controller.Reconciler.Restarts = restartsPart{
		restarts.AtOnce, vmspec.Seconds(restarts.Pause / time.Second),
	}
	document, err := yamlfile.DecodeSections(name, data, &f)
	if document == nil {
		return Config{}, nil, err
	}
	c := Defaults()
	c.Namespace = f.Manager.Controller.Namespace
	var faults faults
	faults.name(controllerPath+".namespace", c.Namespace, validation.IsDNS1123Label)
	fill(&c.Settings, f.Manager.Controller.Reconciler, &faults)

	for _, path := range []string{
		consolePath + "/ComponentCollector",
		reconcilerPath + "/DisplaySecretReconciler", controllerPath + "/DisplaySecretMonitor",
	} {
		if document.Given(path) {
			c.Unused = append(c.Unused, path)
		}
	}
	warnings := fillGUI(&c, f, document, &faults)
	if f.Manager.Controller.PasswordFormer != nil {
		warnings = append(warnings, document.Warning(controllerPath+"/DisplaySecretMonitor",
			"is understood as "+reconcilerPath+"/DisplaySecretReconciler", "use the new name"))
	}
	if document.Given(reconcilerPath + ".runnerData") {
		hint := "use the new name"
		if f.Manager.Controller.Reconciler.RunnerDataPVC != nil {
			hint = "which is given, too, and is used"
		}
		warnings = append(warnings,
			document.Warning(reconcilerPath+".runnerData", "is understood as runnerDataPvc", hint))
	}
	warnings = append(warnings, checkRunnersLevels(document, c.Settings.LoggingProperties, &faults)...)
	var shape yamlfile.Faults
	if errors.As(err, &shape) { // a value of the wrong shape has no meaning
		faults = slices.DeleteFunc(faults, func(f yamlfile.Problem) bool {
			return slices.ContainsFunc(shape, func(s yamlfile.Fault) bool { return s.Path == f.Path })
		})
	}
	if located := document.Locate(faults); located != nil {
		err = yamlfile.JoinFaults(err, located)
	}
	if err != nil {
		return Config{}, warnings, err
	}
	return c, warnings, nil
}

// fill sets what a file contains.
func fill(s *objects.Settings, p reconcilerPart, faults *faults) {
	at := func(key string) string { return reconcilerPath + "." + key }
	data, key := p.RunnerDataPVC, "runnerDataPvc"
	if data == nil {
		data, key = p.RunnerDataFormer, "runnerData"
	}
	if data != nil && data.StorageClassName != nil {
		s.DataStorageClass = data.StorageClassName
		faults.name(at(key+".storageClassName"), *s.DataStorageClass, validation.IsDNS1123Subdomain)
	}
	faults.factor(at("cpuOvercommit"), p.CPUOvercommit, &s.CPUOvercommit)
	faults.factor(at("ramOvercommit"), p.RAMOvercommit, &s.RAMOvercommit)
	s.LoadBalancer = faults.loadBalancer(at("loadBalancerService"), p.LoadBalancer)
	s.LoggingProperties = p.LoggingProperties
	if s.Image = p.Image.Source; strings.ContainsAny(s.Image, " \t\n") {
		faults.add(at("image.source"), "the name of an image has no spaces", "such as registry.example/vmop/runner:1.0")
	}
	s.ImagePullPolicy = corev1.PullPolicy(p.Image.PullPolicy)
	policies := []string{"Always", "IfNotPresent", "Never"}
	if policy := p.Image.PullPolicy; policy != "" && !slices.Contains(policies, policy) {
		faults.add(at("image.pullPolicy"), fmt.Sprintf("%q is not a pull policy", policy), choice(policy, policies))
	}
	if p.ImageRepository != nil { // "" means that there is none
		s.ImageRepository = *p.ImageRepository
	}
	faults.name(at("imageRepository"), s.ImageRepository, validation.IsDNS1123Subdomain)
	s.VMTypes = p.VMTypesConfigMap
	faults.name(at("vmTypesConfigMap"), s.VMTypes, validation.IsDNS1123Subdomain)
	s.KVMResource, s.VhostNetResource = p.KVMResource, p.VhostNetResource
	faults.resource(at("kvmResource"), s.KVMResource, "vmop/kvm")
	faults.resource(at("vhostNetResource"), s.VhostNetResource, "vmop/vhost-net")
	s.Restarts = objects.Restarts{AtOnce: p.Restarts.AtOnce, Pause: time.Duration(p.Restarts.Pause) * time.Second}
	s.Trust, s.NoPrivateAddresses = trust(p, faults), p.NoPrivate
	if n := p.OperationsKept; n != nil {
		if s.OperationsKept = *n; *n < 0 || *n > mostOperations {
			faults.add(at("operationsKept"), fmt.Sprintf("can't be %d", *n), fmt.Sprintf("0 to %d", mostOperations))
		}
	}
	if n := p.OperationsKeptFor; n != nil {
		if s.OperationsKeptFor = time.Duration(*n) * time.Second; *n < 0 || *n > longestKept {
			faults.add(at("operationsKeptFor"), fmt.Sprintf("can't be %d", *n),
				fmt.Sprintf("0 to %d seconds, a year", longestKept))
		}
	}
	s.Ranges = p.Ranges
	for _, fault := range s.Ranges.Check(at("virtualMachineCIDRs")) {
		faults.add(fault.Path, fault.Message, fault.Hint)
	}
	if p.LeaseRetention == nil {
		return
	}
	if s.LeaseRetention = time.Duration(*p.LeaseRetention) * time.Second; s.LeaseRetention < 0 {
		faults.add(at("virtualMachineIPLeaseRetention"), fmt.Sprintf("can't be %d", *p.LeaseRetention),
			"a number of seconds, such as 600; 0 keeps nothing")
	}
}

// Bounds of what is kept of the operations of each VM: how many, and for how many seconds.
const (
	mostOperations = 1000
	longestKept    = 365 * 24 * 60 * 60
)

// trust returns what the administrator trusts.
func trust(p reconcilerPart, faults *faults) (t objects.Trust) {
	at := func(key string, i int) string { return fmt.Sprintf("%s.%s[%d]", reconcilerPath, key, i) }
	patterns := func(key, example string, texts []string) (all []objects.ImagePattern) {
		for i, text := range texts {
			pattern := objects.ImagePattern(text)
			if err := pattern.Validate(); err != nil {
				faults.add(at(key, i), err.Error(),
					"such as "+example+", for all its tags and digests, or "+path.Dir(example)+"/*")
			}
			all = append(all, pattern)
		}
		return all
	}
	t.Images = patterns("trustedImages", "registry.example/vmop/runner", p.TrustedImages)
	t.TypeImages = patterns("trustedVMTypeImages", "registry.example/types/asset", p.TrustedTypeImages)
	names := func(key string, names []string) []string {
		for i, name := range names {
			if name != "*" {
				faults.name(at(key, i), name, validation.IsDNS1123Subdomain)
			}
		}
		return names
	}
	t.VMTypes, t.Claims = names("trustedVMTypes", p.TrustedVMTypes), names("trustedClaims", p.TrustedClaims)
	t.Bridges = bridges(p.AllowedBridges, "allowedBridges", at, faults)
	t.Unfiltered = bridges(p.UnfilteredBridges, "unfilteredBridges", at, faults)
	for i, text := range p.TrustedURLs {
		pattern := objects.URLPattern(text)
		if err := pattern.Validate(); err != nil {
			faults.add(at("trustedURLs", i), fmt.Sprintf("%q: %v", text, err), "such as https://images.example/iso/")
		}
		t.URLs = append(t.URLs, pattern)
	}
	return t
}

// bridges returns names of bridges.
func bridges(names []string, key string, at func(key string, i int) string, faults *faults) []string {
	const longest = 15 // of the name of an interface
	for i, name := range names {
		if name == "" || len(name) > longest || strings.ContainsAny(name, "/ ") {
			faults.add(at(key, i), fmt.Sprintf("%q is not the name of a bridge", name), `such as br0; "*" means all`)
		}
	}
	return names
}

// choice returns which of some words was meant, or all of them.
func choice(word string, words []string) string {
	if near := spelling.Nearest(word, words); near != "" {
		return "did you mean " + near + "?"
	}
	return "want " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// faults are those of values.
type faults []yamlfile.Problem

func (f *faults) add(path, message, hint string) {
	*f = append(*f, yamlfile.Problem{Path: path, Message: message, Hint: hint})
}

// addKey is add for a fault of the key itself.
func (f *faults) addKey(path, message, hint string) {
	*f = append(*f, yamlfile.Problem{Path: path, Message: message, Hint: hint, Key: true})
}

// name checks for a name that the API server accepts, or "".
func (f *faults) name(path, name string, check func(string) []string) {
	if wrong := check(name); name != "" && len(wrong) > 0 {
		f.add(path, fmt.Sprintf("%q is not a Kubernetes name", name),
			"lower case letters and digits, with - between them")
	}
}

// resource checks for the name of an extended resource, or "".
func (f *faults) resource(path, name, example string) {
	if name != "" && (len(validation.IsQualifiedName(name)) > 0 || !strings.Contains(name, "/")) {
		f.add(path, fmt.Sprintf("%q is not an extended resource", name), "such as "+example)
	}
}

// largestFactor bounds overcommitment: beyond it, requests are next to nothing.
const largestFactor = 1000

func (f *faults) factor(path string, given, to *float64) {
	switch {
	case given == nil:
	case *given < 1 || *given > largestFactor:
		f.add(path, fmt.Sprintf("can't be %v", *given),
			fmt.Sprintf("1 to %d; 1 requests all that the VM has", largestFactor))
	default:
		*to = *given
	}
}

// loadBalancer reads a switch, or labels and annotations.
func (f *faults) loadBalancer(path string, value any) *objects.ServiceMetadata {
	switch value := value.(type) {
	case nil:
		return nil
	case bool:
		if value {
			return &objects.ServiceMetadata{}
		}
		return nil
	case map[string]any:
		var made objects.ServiceMetadata
		for _, key := range slices.Sorted(maps.Keys(value)) {
			switch key {
			case "labels":
				made.Labels = f.texts(path+".labels", value[key])
			case "annotations":
				made.Annotations = f.texts(path+".annotations", value[key])
			default:
				f.addKey(path+"."+key, "unknown key", choice(key, []string{"labels", "annotations"}))
			}
		}
		for name, text := range made.Labels {
			if len(validation.IsQualifiedName(name))+len(validation.IsValidLabelValue(text)) > 0 {
				f.add(path+".labels."+name, fmt.Sprintf("%s=%s is not a label", name, text),
					"letters, digits, -, _ and .; at most 63")
			}
		}
		for name := range made.Annotations {
			if len(validation.IsQualifiedName(strings.ToLower(name))) > 0 {
				f.add(path+".annotations."+name, fmt.Sprintf("%q is not the name of an annotation", name),
					"such as example.org/name")
			}
		}
		return &made
	}
	f.add(path, "got "+shown(value)+", want true or false", "or a mapping of labels and annotations")
	return nil
}

// texts reads a mapping of texts.
func (f *faults) texts(path string, value any) map[string]string {
	given, ok := value.(map[string]any)
	if !ok && value != nil {
		f.add(path, "got "+shown(value)+", want a mapping of texts", "")
	}
	made := make(map[string]string, len(given))
	for name, value := range given {
		text, ok := value.(string)
		if !ok {
			f.add(path+"."+name, "got "+shown(value)+", want a text", "put it in quotes")
		}
		made[name] = text
	}
	return made
}

// shown returns a value of a file as messages show it.
func shown(value any) string {
	switch value := value.(type) {
	case nil:
		return "nothing"
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	case string:
		return fmt.Sprintf("the text %q", value)
	default:
		return fmt.Sprint(value)
	}
}

// A source is a configuration file that is read repeatedly: it keeps the last content
// without faults.
type source struct {
	file     string
	optional bool
	current  Config
	read     bool // the file has been read without fault
}

// reload reads the file, and reports whether the configuration has changed. A file that has
// faults, or that has been there and is gone, is an error; the configuration stays.
func (s *source) reload() (changed bool, warnings []yamlfile.Warning, err error) {
	data, err := regular.ReadFile(s.file, yamlfile.LargestFile)
	if errors.Is(err, fs.ErrNotExist) && s.optional && !s.read {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("read configuration: %w", err)
	}
	next, warnings, err := Parse(s.file, data)
	if err != nil {
		return false, warnings, err
	}
	changed = !reflect.DeepEqual(s.current, next)
	s.current, s.read = next, true
	return changed, warnings, nil
}
