package sample

import (
	"errors"
	"strings"

	"vmop/runner/config"
	"vmop/vmspec"
)

// UUID is the machine's uuid in tests that give none.
const UUID = "1b4e28ba-2fa1-4d2b-883f-0016d3cca427"

// ParseVM reads a vm section (YAML) as strictly as the runner reads its
// configuration file, and applies the defaults. A name and a uuid are added
// where there are none.
func ParseVM(data []byte) (vmspec.Spec, error) {
	indented := "    " + strings.ReplaceAll(strings.TrimRight(string(data), "\n"), "\n", "\n    ")
	for key, value := range map[string]string{"name": "vm", "uuid": UUID} {
		if !strings.Contains(indented, "\n    "+key+":") && !strings.HasPrefix(indented, "    "+key+":") {
			indented = "    " + key + ": " + value + "\n" + indented
		}
	}
	return ParseConfig("\"/Runner\":\n  vm:\n" + indented + "\n")
}

// ParseConfig reads a configuration file and returns its vm section. Positions in
// a text that nobody wrote are left out of errors.
func ParseConfig(text string) (vmspec.Spec, error) {
	cfg, _, err := config.Parse("vm.yaml", []byte(text))
	var faults config.Faults
	if errors.As(err, &faults) {
		lines := make([]string, len(faults))
		for i, f := range faults {
			lines[i] = faultText(f)
		}
		return vmspec.Spec{}, errors.New(strings.Join(lines, "\n"))
	}
	if err != nil {
		return vmspec.Spec{}, err
	}
	return cfg.VM.WithDefaults(), nil
}

func faultText(f config.Fault) string {
	text := f.Message
	if f.Path != "" {
		text = f.Path + ": " + text
	}
	if f.Hint != "" {
		text += " (" + f.Hint + ")"
	}
	return text
}
