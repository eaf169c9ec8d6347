package sample

import (
	"errors"
	"fmt"
	"strings"

	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/vmspec"
)

// UUID is the machine's uuid in tests that give none.
const UUID = "1b4e28ba-2fa1-4d2b-883f-0016d3cca427"

// How a vm section is put into a configuration: so many lines before it, so deep.
const (
	addedLines  = 4
	indentation = "    "
)

// ParseVM reads a vm section (YAML) as strictly as the runner reads its
// configuration file, and applies the defaults. A name and a uuid are added
// where there are none.
func ParseVM(data []byte) (vmspec.Spec, error) {
	cfg, faults := parseVM(string(data))
	if faults != nil {
		return vmspec.Spec{}, withoutPlaces(faults)
	}
	return cfg.VM.WithDefaults(), nil
}

// parseVM reads a vm section as part of a configuration, with addedLines before
// it.
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

// faultsOf returns what Parse reports, which is nothing else.
func faultsOf(err error) yamlfile.Faults {
	var faults yamlfile.Faults
	if err != nil && !errors.As(err, &faults) {
		faults = yamlfile.Faults{{Message: err.Error()}}
	}
	return faults
}

// ParseConfig reads a configuration file and returns its vm section. Positions in
// a generated text are left out of errors.
func ParseConfig(text string) (vmspec.Spec, error) {
	cfg, _, err := config.Parse("vm.yaml", []byte(text))
	if faults := faultsOf(err); faults != nil {
		return vmspec.Spec{}, withoutPlaces(faults)
	}
	return cfg.VM.WithDefaults(), nil
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
