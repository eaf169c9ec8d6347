package sample

import (
	"fmt"
	"strings"

	"vmop/vmtypes"
)

// Minimal returns the smallest VMs for a type with these options: with the default firmware, with a BIOS, and with a
// kernel. Mandatory options have values that their declarations allow. The path of a VM is its vm section on one line.
func Minimal(vmType string, options []vmtypes.Option) ([]*Sample, error) {
	var list []*Sample
	for _, section := range MinimalSections(options) {
		vm, err := ParseVM([]byte(section))
		if err != nil {
			return nil, fmt.Errorf("minimal VM of type %s: %w", vmType, err)
		}
		text := strings.ReplaceAll(strings.TrimSpace(section), "\n", ", ")
		list = append(list, &Sample{Path: text, Type: vmType, VM: vm})
	}
	return list, nil
}

// MinimalSections returns the vm sections of the VMs of Minimal, in YAML.
func MinimalSections(options []vmtypes.Option) []string {
	section := "network: []\nserialConsole: {enabled: false}\n"
	if values := mandatoryValues(options); values != "" {
		section += "options: {" + values + "}\n"
	}
	return []string{section, section + "firmware: bios\n", section + "kernel: {image: /boot/vmlinuz}\n"}
}

// mandatoryValues returns values for the mandatory options in the notation of a configuration: "asset: a, ports: []".
func mandatoryValues(options []vmtypes.Option) string {
	var words []string
	for i := range options {
		if o := &options[i]; o.Mandatory {
			words = append(words, o.Name+": "+minimalValue(&o.Attr))
		}
	}
	return strings.Join(words, ", ")
}

// minimalValue returns the smallest allowed value of an option in the notation of a configuration.
func minimalValue(a *vmtypes.Attr) string {
	switch a.Type {
	case "list":
		return "[]"
	case "dict":
		return "{}"
	case "record":
		return "{" + mandatoryValues(a.Fields) + "}"
	case "bool":
		return "false"
	}
	return a.Example()
}
