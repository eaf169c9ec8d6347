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

	"vmop/internal/readfile"
	"vmop/internal/spelling"
	"vmop/internal/yamlfile"
	"vmop/manager/access"
	"vmop/manager/access/login"
	"vmop/manager/addresses"
	"vmop/manager/vm/objects"
	"vmop/vmspec"
	"vmop/vmtypes/signature"
)

// DefaultConfigFile is the default configuration file.
const DefaultConfigFile = "/etc/opt/vmoperator/config.yaml"

// Config is the section "/Manager" of a configuration file.
type Config struct {
	// Namespace is the namespace to manage; "" means the pod's namespace.
	Namespace string
	// Settings determine the objects of VMs. Version comes from the program, and so does Image if the file does
	// not set it.
	Settings objects.Settings
	// GUI, Login and Access configure the web pages and their users.
	GUI    GUI
	Login  login.Config
	Access access.Policy
	// Unused lists the paths of known keys that have no effect yet.
	Unused []string
}

// Defaults returns the configuration that applies without a file.
func Defaults() Config {
	return Config{Settings: objects.DefaultSettings(), GUI: defaultGUI()}
}

// file is the structure of a configuration file.
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
	TypeKeys          []string     `yaml:"vmTypeKeys"`
	TrustedClaims     []string     `yaml:"trustedClaims"`
	TrustedURLs       []string     `yaml:"trustedURLs"`
	NoPrivate         bool         `yaml:"refusePrivateAddresses"`
	AllowedBridges    []string     `yaml:"allowedBridges"`
	UnfilteredBridges []string     `yaml:"unfilteredBridges"`
	Restarts          restartsPart `yaml:"automaticRestarts"`

	// Ranges and LeaseRetention correspond to Deckhouse's virtualMachineCIDRs and
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

// Parse reads the content of a configuration file, at most 1 MiB. name is the file's name in messages. Parse
// reports all errors together, as an error of type yamlfile.Faults. An empty file means Defaults.
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
	faults.checkName(controllerPath+".namespace", c.Namespace, validation.IsDNS1123Label)
	fillSettings(&c.Settings, f.Manager.Controller.Reconciler, &faults)

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
			hint = "which is also given, and is used"
		}
		warnings = append(warnings,
			document.Warning(reconcilerPath+".runnerData", "is understood as runnerDataPvc", hint))
	}
	warnings = append(warnings, checkRunnersLevels(document, c.Settings.LoggingProperties, &faults)...)
	var shape yamlfile.Faults
	if errors.As(err, &shape) { // ignore the value if its type is wrong
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

// fillSettings sets the values from a file.
func fillSettings(s *objects.Settings, p reconcilerPart, faults *faults) {
	at := func(key string) string { return reconcilerPath + "." + key }
	data, key := p.RunnerDataPVC, "runnerDataPvc"
	if data == nil {
		data, key = p.RunnerDataFormer, "runnerData"
	}
	if data != nil && data.StorageClassName != nil {
		s.DataStorageClass = data.StorageClassName
		faults.checkName(at(key+".storageClassName"), *s.DataStorageClass, validation.IsDNS1123Subdomain)
	}
	faults.checkFactor(at("cpuOvercommit"), p.CPUOvercommit, &s.CPUOvercommit)
	faults.checkFactor(at("ramOvercommit"), p.RAMOvercommit, &s.RAMOvercommit)
	s.LoadBalancer = faults.loadBalancer(at("loadBalancerService"), p.LoadBalancer)
	s.LoggingProperties = p.LoggingProperties
	if s.Image = p.Image.Source; strings.ContainsAny(s.Image, " \t\n") {
		faults.addFault(at("image.source"), "the name of an image has no spaces",
			"such as registry.example/vmop/runner:1.0")
	}
	s.ImagePullPolicy = corev1.PullPolicy(p.Image.PullPolicy)
	policies := []string{"Always", "IfNotPresent", "Never"}
	if policy := p.Image.PullPolicy; policy != "" && !slices.Contains(policies, policy) {
		faults.addFault(at("image.pullPolicy"), fmt.Sprintf("%q is not a pull policy", policy),
			expandChoice(policy, policies))
	}
	if p.ImageRepository != nil { // "" means no repository
		s.ImageRepository = *p.ImageRepository
	}
	faults.checkName(at("imageRepository"), s.ImageRepository, validation.IsDNS1123Subdomain)
	s.VMTypes = p.VMTypesConfigMap
	faults.checkName(at("vmTypesConfigMap"), s.VMTypes, validation.IsDNS1123Subdomain)
	s.KVMResource, s.VhostNetResource = p.KVMResource, p.VhostNetResource
	faults.checkResource(at("kvmResource"), s.KVMResource, "vmop/kvm")
	faults.checkResource(at("vhostNetResource"), s.VhostNetResource, "vmop/vhost-net")
	s.Restarts = objects.Restarts{AtOnce: p.Restarts.AtOnce, Pause: time.Duration(p.Restarts.Pause) * time.Second}
	s.Trust, s.NoPrivateAddresses = readTrust(p, faults), p.NoPrivate
	if n := p.OperationsKept; n != nil {
		if s.OperationsKept = *n; *n < 0 || *n > mostOperations {
			faults.addFault(at("operationsKept"), fmt.Sprintf("can't be %d", *n),
				fmt.Sprintf("0 to %d", mostOperations))
		}
	}
	if n := p.OperationsKeptFor; n != nil {
		if s.OperationsKeptFor = time.Duration(*n) * time.Second; *n < 0 || *n > longestKept {
			faults.addFault(at("operationsKeptFor"), fmt.Sprintf("can't be %d", *n),
				fmt.Sprintf("0 to %d seconds, a year", longestKept))
		}
	}
	s.Ranges = p.Ranges
	for _, fault := range s.Ranges.Check(at("virtualMachineCIDRs")) {
		faults.addFault(fault.Path, fault.Message, fault.Hint)
	}
	if p.LeaseRetention == nil {
		return
	}
	if s.LeaseRetention = time.Duration(*p.LeaseRetention) * time.Second; s.LeaseRetention < 0 {
		faults.addFault(at("virtualMachineIPLeaseRetention"), fmt.Sprintf("can't be %d", *p.LeaseRetention),
			"a number of seconds, such as 600; 0 keeps nothing")
	}
}

// Limits for the kept operations of each VM: their number, and their age in seconds.
const (
	mostOperations = 1000
	longestKept    = 365 * 24 * 60 * 60
)

// readTrust returns the objects that the administrator trusts.
func readTrust(p reconcilerPart, faults *faults) (t objects.Trust) {
	at := func(key string, i int) string { return fmt.Sprintf("%s.%s[%d]", reconcilerPath, key, i) }
	patterns := func(key, example string, texts []string) (all []objects.ImagePattern) {
		for i, text := range texts {
			pattern := objects.ImagePattern(text)
			if err := pattern.Validate(); err != nil {
				faults.addFault(at(key, i), err.Error(),
					"such as "+example+", for all its tags and digests, or "+path.Dir(example)+"/*")
			}
			all = append(all, pattern)
		}
		return all
	}
	t.Images = patterns("trustedImages", "registry.example/vmop/runner", p.TrustedImages)
	t.TypeImages = patterns("trustedVMTypeImages", "registry.example/types/asset", p.TrustedTypeImages)
	for i, text := range p.TypeKeys {
		key, err := signature.ReadKey([]byte(text))
		if err != nil {
			faults.addFault(at("vmTypeKeys", i), "the key "+err.Error(), "")
		}
		t.TypeKeys = append(t.TypeKeys, key)
	}
	names := func(key string, names []string) []string {
		for i, name := range names {
			if name != "*" {
				faults.checkName(at(key, i), name, validation.IsDNS1123Subdomain)
			}
		}
		return names
	}
	t.VMTypes, t.Claims = names("trustedVMTypes", p.TrustedVMTypes), names("trustedClaims", p.TrustedClaims)
	t.Bridges = bridgeNames(p.AllowedBridges, "allowedBridges", at, faults)
	t.Unfiltered = bridgeNames(p.UnfilteredBridges, "unfilteredBridges", at, faults)
	for i, text := range p.TrustedURLs {
		pattern := objects.URLPattern(text)
		if err := pattern.Validate(); err != nil {
			faults.addFault(at("trustedURLs", i), fmt.Sprintf("%q: %v", text, err),
				"such as https://images.example/iso/")
		}
		t.URLs = append(t.URLs, pattern)
	}
	return t
}

// bridgeNames returns the names of bridges.
func bridgeNames(names []string, key string, at func(key string, i int) string, faults *faults) []string {
	const longest = 15 // of an interface's name
	for i, name := range names {
		if name == "" || len(name) > longest || strings.ContainsAny(name, "/ ") {
			faults.addFault(at(key, i), fmt.Sprintf("%q is not the name of a bridge", name),
				`such as br0; "*" means all`)
		}
	}
	return names
}

// expandChoice returns a hint with the word that was probably meant, or with all words.
func expandChoice(word string, words []string) string {
	if near := spelling.Nearest(word, words); near != "" {
		return "did you mean " + near + "?"
	}
	return "use " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// faults are the errors in the values of a file.
type faults []yamlfile.Problem

func (f *faults) addFault(path, message, hint string) {
	*f = append(*f, yamlfile.Problem{Path: path, Message: message, Hint: hint})
}

// addKey adds an error that concerns the key itself.
func (f *faults) addKey(path, message, hint string) {
	*f = append(*f, yamlfile.Problem{Path: path, Message: message, Hint: hint, Key: true})
}

// checkName checks that name is "" or valid for the API server.
func (f *faults) checkName(path, name string, check func(string) []string) {
	if wrong := check(name); name != "" && len(wrong) > 0 {
		f.addFault(path, fmt.Sprintf("%q is not a Kubernetes name", name),
			"lower case letters and digits, with - between them")
	}
}

// checkResource checks that name is "" or the name of an extended resource.
func (f *faults) checkResource(path, name, example string) {
	if name != "" && (len(validation.IsQualifiedName(name)) > 0 || !strings.Contains(name, "/")) {
		f.addFault(path, fmt.Sprintf("%q is not an extended resource", name), "such as "+example)
	}
}

// largestFactor limits overcommitment. Beyond it, requests would be close to zero.
const largestFactor = 1000

func (f *faults) checkFactor(path string, given, to *float64) {
	switch {
	case given == nil:
	case *given < 1 || *given > largestFactor:
		f.addFault(path, fmt.Sprintf("can't be %v", *given),
			fmt.Sprintf("1 to %d; 1 requests all that the VM has", largestFactor))
	default:
		*to = *given
	}
}

// loadBalancer reads a boolean, or labels and annotations.
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
				made.Labels = f.readTexts(path+".labels", value[key])
			case "annotations":
				made.Annotations = f.readTexts(path+".annotations", value[key])
			default:
				f.addKey(path+"."+key, "unknown key", expandChoice(key, []string{"labels", "annotations"}))
			}
		}
		for name, text := range made.Labels {
			if len(validation.IsQualifiedName(name))+len(validation.IsValidLabelValue(text)) > 0 {
				f.addFault(path+".labels."+name, fmt.Sprintf("%s=%s is not a label", name, text),
					"letters, digits, -, _ and .; at most 63")
			}
		}
		for name := range made.Annotations {
			if len(validation.IsQualifiedName(strings.ToLower(name))) > 0 {
				f.addFault(path+".annotations."+name, fmt.Sprintf("%q is not the name of an annotation", name),
					"such as example.org/name")
			}
		}
		return &made
	}
	f.addFault(path, "must be true or false, not "+valueText(value), "or a mapping of labels and annotations")
	return nil
}

// readTexts reads a mapping of strings.
func (f *faults) readTexts(path string, value any) map[string]string {
	given, ok := value.(map[string]any)
	if !ok && value != nil {
		f.addFault(path, "must be a mapping with text values, not "+valueText(value), "")
	}
	made := make(map[string]string, len(given))
	for name, value := range given {
		text, ok := value.(string)
		if !ok {
			f.addFault(path+"."+name, "must be text, not "+valueText(value), "put it in quotes")
		}
		made[name] = text
	}
	return made
}

// valueText formats a value of a file for messages.
func valueText(value any) string {
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

// source is a configuration file that is read repeatedly. It keeps the last valid content.
type source struct {
	file     string
	optional bool
	current  Config
	read     bool // the file has been read successfully
}

// reloadFile reads the file and reports whether the configuration has changed. If the file is invalid, or has
// disappeared, reloadFile returns an error and keeps the configuration.
func (s *source) reloadFile() (changed bool, warnings []yamlfile.Warning, err error) {
	data, err := readfile.ReadFile(s.file, yamlfile.LargestFile)
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
