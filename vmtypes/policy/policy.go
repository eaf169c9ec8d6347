package policy

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"vmop/internal/readfile"
	"vmop/internal/yamlfile"
	"vmop/vmtypes/signature"
)

// DefaultFile is the policy of a computer. Without this file, everything is allowed.
const DefaultFile = "/etc/opt/vmrunner/vmtypes-policy.yaml"

// Stock is the word for the types that are part of the program. In the lists of a rule, it stands for everything
// that these types use.
const Stock = "stock"

// A Policy defines what launch plans may do.
type Policy struct {
	// Directories are patterns for the data and runtime directories of VMs. All VMs may read and write in their
	// own directories.
	Directories []string `yaml:"directories"`
	// Rules are searched in their order. The first rule for the folder of a type applies. A type without a rule
	// is denied.
	Rules []Rule `yaml:"rules"`

	file string
	line func(path string) int
}

// A Rule defines what the types of some folders may do. All lists contain patterns: * matches any text within a
// word, and ** any text. Everything that matches no pattern is denied. In most lists, the word "stock" stands for
// everything that the stock types use.
type Rule struct {
	// Types are patterns of folders, or "stock".
	Types []string `yaml:"types"`
	// SignedBy are public keys, see signature.ReadKey. If there are any, each type of the folders must be signed with
	// one of them. Stock types need no signature.
	SignedBy []string `yaml:"signedBy"`
	// Flags are options of QEMU: "-device".
	Flags []string `yaml:"flags"`
	// Devices are the drivers of -device: "virtio-*".
	Devices []string `yaml:"devices"`
	// Backends are QEMU's other objects, with their flags: "chardev socket", "object rng-random".
	Backends []string `yaml:"backends"`
	// Read are files that may be read. Write are files that may be read and written.
	Read  []string `yaml:"read"`
	Write []string `yaml:"write"`
	// Programs may be started as QEMU, Helpers next to QEMU.
	Programs []string `yaml:"programs"`
	Helpers  []Helper `yaml:"helpers"`
	// Environment are the variables that may be set.
	Environment []string `yaml:"environment"`
	// Networks are "bridge NAME", "masquerade" and "user".
	Networks []string `yaml:"networks"`
	// Listen are the allowed addresses for listening: "127.0.0.1:*", "[::1]:5900"; "*:*" is any address.
	Listen []string `yaml:"listen"`
	// Options are the names that are allowed in vm.options.
	Options []string `yaml:"options"`
	// Exact are whole options that are allowed with all their effects: "-smbios type=3,asset=*". The pattern must
	// contain each property of the option.
	Exact []string `yaml:"exact"`
	// Unsandboxed allows QEMU to run without its sandbox.
	Unsandboxed bool `yaml:"unsandboxed"`
}

// listOf returns the list of words with a key; nil for the other keys.
func (r *Rule) listOf(key string) *[]string {
	return map[string]*[]string{
		"flags": &r.Flags, "devices": &r.Devices, "backends": &r.Backends, "read": &r.Read, "write": &r.Write,
		"programs": &r.Programs, "environment": &r.Environment, "networks": &r.Networks, "listen": &r.Listen,
		"options": &r.Options, "exact": &r.Exact,
	}[key]
}

// A Helper is a program that may run next to QEMU.
type Helper struct {
	// Program is a pattern of paths, or "stock".
	Program string `yaml:"program"`
	// Arguments are patterns; each argument must match one of them.
	Arguments []string `yaml:"arguments"`
}

// Load reads the policy from a file. If the default file is missing, Load returns nil without an error, and
// everything is allowed.
func Load(file string) (*Policy, error) {
	data, err := readfile.ReadFile(file, yamlfile.LargestFile)
	if errors.Is(err, os.ErrNotExist) && file == DefaultFile {
		return nil, nil
	}
	var large *readfile.SizeError
	if errors.As(err, &large) {
		return nil, &FileError{yamlfile.TooLarge(file, large.Size)}
	}
	if err != nil {
		return nil, fmt.Errorf("read policy for VM types: %w", err)
	}
	p, err := Read(file, data)
	if err != nil {
		return nil, &FileError{err}
	}
	return p, nil
}

// A FileError means that a policy is invalid.
type FileError struct{ Err error }

// Error implements error.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error, of type yamlfile.Faults.
func (e *FileError) Unwrap() error { return e.Err }

// Read reads a policy. name is the name of the policy in messages. If the policy is invalid, the errors are
// yamlfile.Faults.
func Read(name string, data []byte) (*Policy, error) {
	p := &Policy{file: name}
	document, err := yamlfile.Decode(name, data, p)
	if err != nil {
		return nil, err
	}
	p.line = document.Line
	return p, document.Locate(p.contentFaults())
}

// contentFaults returns the errors in the content.
func (p *Policy) contentFaults() []yamlfile.Problem {
	var faults []yamlfile.Problem
	fault := func(path, message, hint string) {
		faults = append(faults, yamlfile.Problem{Path: path, Message: message, Hint: hint})
	}
	if len(p.Rules) == 0 {
		fault("rules", "there are no rules, so that no VM could start", "")
	}
	for i, pattern := range p.Directories {
		if !strings.HasPrefix(pattern, "/") || path.Clean(pattern) != pattern {
			fault(fmt.Sprintf("directories[%d]", i), fmt.Sprintf("%q is not an absolute path", pattern),
				"such as /var/lib/vmrunner/**")
		}
	}
	for i := range p.Rules {
		p.Rules[i].addFaults(fmt.Sprintf("rules[%d]", i), fault)
	}
	return faults
}

func (r *Rule) addFaults(at string, fault func(path, message, hint string)) {
	if len(r.Types) == 0 {
		fault(at, "types is missing", "a list of folders of VM types, or stock")
	}
	for i, text := range r.SignedBy {
		if _, err := signature.ReadKey([]byte(text)); err != nil {
			fault(fmt.Sprintf("%s.signedBy[%d]", at, i), "the key "+err.Error(), "")
		}
	}
	for i, pattern := range r.Types {
		if pattern != Stock && !strings.HasPrefix(pattern, "/") {
			fault(fmt.Sprintf("%s.types[%d]", at, i),
				fmt.Sprintf("%q is neither an absolute path nor stock", pattern), "")
		}
	}
	for name, list := range map[string][]string{"read": r.Read, "write": r.Write, "programs": r.Programs} {
		for i, pattern := range list {
			if pattern != Stock && (!strings.HasPrefix(pattern, "/") || path.Clean(pattern) != pattern) {
				fault(fmt.Sprintf("%s.%s[%d]", at, name, i),
					fmt.Sprintf("%q is neither an absolute path nor stock", pattern), "")
			}
		}
	}
	for i, pattern := range r.Flags {
		if pattern != Stock && !strings.HasPrefix(pattern, "-") {
			fault(fmt.Sprintf("%s.flags[%d]", at, i),
				fmt.Sprintf("%q is neither a flag nor stock", pattern), "a flag begins with a dash: -"+pattern)
		}
	}
	for i, pattern := range r.Exact {
		if !strings.HasPrefix(pattern, "-") {
			fault(fmt.Sprintf("%s.exact[%d]", at, i), fmt.Sprintf("%q is not an option", pattern),
				"such as -smbios type=3,asset=*")
		}
	}
	for i, pattern := range r.Listen {
		if pattern != Stock && strings.LastIndex(pattern, ":") < 0 {
			fault(fmt.Sprintf("%s.listen[%d]", at, i), fmt.Sprintf("%q has no port", pattern), "such as "+pattern+":*")
		}
	}
}

// SignersOf returns the trusted keys for the types of a folder: one of them must have signed each type. Without keys,
// types need no signature.
func (p *Policy) SignersOf(folder string) (keys []signature.Key) {
	if p == nil || folder == Stock {
		return nil
	}
	rule, _ := p.ruleFor(folder)
	if rule == nil {
		return nil
	}
	for _, text := range rule.SignedBy {
		if key, err := signature.ReadKey([]byte(text)); err == nil { // an invalid key was refused by Read
			keys = append(keys, key)
		}
	}
	return keys
}

// ruleFor returns the rule for the types of a folder, and its index.
func (p *Policy) ruleFor(folder string) (*Rule, int) {
	for i := range p.Rules {
		if slices.ContainsFunc(p.Rules[i].Types, func(pattern string) bool {
			return pattern == folder || pattern != Stock && matchesPattern(pattern, folder)
		}) {
			return &p.Rules[i], i
		}
	}
	return nil, -1
}
