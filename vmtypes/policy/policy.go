package policy

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"vmop/regular"
	"vmop/yamlfile"
)

// DefaultFile is the policy of a computer. Without it everything is allowed.
const DefaultFile = "/etc/opt/vmrunner/vmtypes-policy.yaml"

// Stock is the word for the types that are part of the program, and in the lists
// of a rule for what they use.
const Stock = "stock"

// A Policy says what launch plans may do.
type Policy struct {
	// Directories are patterns of the data and runtime directories that VMs may
	// have. In their own, all VMs may read and write.
	Directories []string `yaml:"directories"`
	// Rules are looked through in their order; the first that is for the folder
	// of a type is the one that counts. A type that none is for is refused.
	Rules []Rule `yaml:"rules"`

	file string
	line func(path string) int
}

// A Rule says what the types of some folders may do. All lists are patterns, in
// which * stands for any text within a word and ** for any text at all; what is
// not in them is denied. In most, the word "stock" stands for what the stock types
// use.
type Rule struct {
	// Types are patterns of folders, or "stock".
	Types []string `yaml:"types"`
	// Flags are options of QEMU: "-device".
	Flags []string `yaml:"flags"`
	// Devices are the drivers of -device: "virtio-*".
	Devices []string `yaml:"devices"`
	// Backends are the other things that QEMU makes, with their flags: "chardev
	// socket", "object rng-random".
	Backends []string `yaml:"backends"`
	// Read are files that may be read, Write those that may be read and written.
	Read  []string `yaml:"read"`
	Write []string `yaml:"write"`
	// Programs may be started as QEMU; Helpers beside it.
	Programs []string `yaml:"programs"`
	Helpers  []Helper `yaml:"helpers"`
	// Environment are the variables that may be set.
	Environment []string `yaml:"environment"`
	// Networks are "bridge NAME", "masquerade" and "user".
	Networks []string `yaml:"networks"`
	// Listen are the addresses on which connections may be taken: "127.0.0.1:*",
	// "[::1]:5900"; "*:*" is any.
	Listen []string `yaml:"listen"`
	// Options are the names that may be given in vm.options.
	Options []string `yaml:"options"`
	// Exact are whole options that are allowed whatever they do: "-smbios
	// type=3,asset=*". Each property of the option must be in the pattern.
	Exact []string `yaml:"exact"`
	// Unsandboxed allows QEMU to run without its sandbox.
	Unsandboxed bool `yaml:"unsandboxed"`
}

// A Helper is a program that may run beside QEMU.
type Helper struct {
	// Program is a pattern of paths, or "stock".
	Program string `yaml:"program"`
	// Arguments are patterns; each argument must match one of them.
	Arguments []string `yaml:"arguments"`
}

// Load reads the policy of a file. A file that is not there is nil without an
// error if it is the default: then everything is allowed.
func Load(file string) (*Policy, error) {
	data, err := regular.ReadFile(file, yamlfile.LargestFile)
	if errors.Is(err, os.ErrNotExist) && file == DefaultFile {
		return nil, nil
	}
	var large *regular.SizeError
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

// A FileError says that a policy can't be used.
type FileError struct{ Err error }

// Error implements error.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong, yamlfile.Faults.
func (e *FileError) Unwrap() error { return e.Err }

// Read reads a policy; name is what it is called in messages. What is wrong with
// it are yamlfile.Faults.
func Read(name string, data []byte) (*Policy, error) {
	p := &Policy{file: name}
	document, err := yamlfile.Decode(name, data, p)
	if err != nil {
		return nil, err
	}
	p.line = document.Line
	return p, document.Locate(p.faults())
}

// faults returns what is wrong with the content.
func (p *Policy) faults() []yamlfile.Problem {
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
		p.Rules[i].faults(fmt.Sprintf("rules[%d]", i), fault)
	}
	return faults
}

func (r *Rule) faults(at string, fault func(path, message, hint string)) {
	if len(r.Types) == 0 {
		fault(at, "types is missing", "a list of folders of VM types, or stock")
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

// ruleFor returns the rule for the types of a folder, and its number.
func (p *Policy) ruleFor(folder string) (*Rule, int) {
	for i := range p.Rules {
		if slices.ContainsFunc(p.Rules[i].Types, func(pattern string) bool {
			return pattern == folder || pattern != Stock && match(pattern, folder)
		}) {
			return &p.Rules[i], i
		}
	}
	return nil, -1
}
