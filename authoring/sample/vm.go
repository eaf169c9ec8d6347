package sample

import (
	"errors"
	"fmt"
	"strings"

	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/vmspec"
)

// UUID is the uuid of machines in samples that set none.
const UUID = "1b4e28ba-2fa1-4d2b-883f-0016d3cca427"

// The number of lines before a vm section in a configuration, and its indentation.
const (
	addedLines  = 4
	indentation = "    "
)

// ParseVM reads a vm section (YAML) as strictly as the runner reads its configuration file, and applies the defaults
// except for sizes, which the type may decide. It adds a name and a uuid if they are missing.
func ParseVM(data []byte) (vmspec.Spec, error) {
	cfg, faults := parseVM(string(data))
	if faults != nil {
		return vmspec.Spec{}, withoutPlaces(faults)
	}
	return cfg.VM.WithOtherDefaults(), nil
}

// parseVM reads a vm section as part of a configuration. The section follows after addedLines.
func parseVM(section string, settings ...string) (*config.Config, yamlfile.Faults) {
	indented := indentation + strings.ReplaceAll(strings.TrimRight(section, "\n"), "\n", "\n"+indentation)
	text := "\"/Runner\":\n  vm:\n"
	for _, missing := range []struct{ key, value string }{{"name", "vm"}, {"uuid", UUID}} {
		if strings.Contains("\n"+indented, "\n"+indentation+missing.key+":") {
			text += "\n"
		} else {
			text += indentation + missing.key + ": " + missing.value + "\n"
		}
	}
	cfg, _, err := config.Parse("vm.yaml", []byte(text+indented+"\n"), settings...)
	return cfg, faultsOf(err)
}

// faultsOf returns the errors of Parse, which are always yamlfile.Faults.
func faultsOf(err error) yamlfile.Faults {
	var faults yamlfile.Faults
	if err != nil && !errors.As(err, &faults) {
		faults = yamlfile.Faults{{Message: err.Error()}}
	}
	return faults
}

// ParseConfig reads a configuration file and returns its vm section. Its errors contain no positions, because the text
// is generated.
func ParseConfig(text string) (vmspec.Spec, error) {
	cfg, _, err := config.Parse("vm.yaml", []byte(text))
	if faults := faultsOf(err); faults != nil {
		return vmspec.Spec{}, withoutPlaces(faults)
	}
	return cfg.VM.WithOtherDefaults(), nil
}

func withoutPlaces(faults yamlfile.Faults) error {
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = f.Message
		if f.Path != "" {
			lines[i] = f.Path + ": " + lines[i]
		}
		if f.Hint != "" {
			lines[i] += fmt.Sprintf(" (%s)", f.Hint)
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}
