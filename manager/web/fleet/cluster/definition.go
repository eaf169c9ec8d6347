package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/internal/yamlfile"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
)

// A document is the definition of a VM or disk as people edit it. Its fields contain decoded YAML.
type document struct {
	APIVersion string         `yaml:"apiVersion" json:"apiVersion"`
	Kind       string         `yaml:"kind" json:"kind"`
	Metadata   map[string]any `yaml:"metadata" json:"metadata"`
	Spec       map[string]any `yaml:"spec" json:"spec"`

	text *yamlfile.Document // nil if it wasn't parsed from a text
}

// kindOfVM is the kind of VM resources.
const kindOfVM = "VirtualMachine"

// documentOf returns the complete definition of a VM.
func documentOf(vm *v1.VirtualMachine) (*document, error) {
	text, err := json.Marshal(vm)
	if err != nil {
		return nil, fmt.Errorf("write the definition of VM %s: %w", vm.Name, err)
	}
	d := &document{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read the definition of VM %s: %w", vm.Name, err)
	}
	d.APIVersion, d.Kind = v1.GroupVersion().String(), kindOfVM
	maps.DeleteFunc(d.Metadata, func(key string, _ any) bool {
		return !slices.Contains([]string{"name", "namespace", "labels", "annotations"}, key)
	})
	return d, nil
}

// parseDefinition parses the definition of the VM with this name. The error has type fleet.Faults.
func parseDefinition(name, namespace, text string) (*document, error) {
	d, err := decodeDocument(text)
	if err == nil {
		err = d.checkKind(kindOfVM, name, namespace)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func decodeDocument(text string) (*document, error) {
	d := &document{}
	var err error
	if d.text, err = yamlfile.Decode("definition", []byte(text), d); err != nil {
		return nil, describe.Faults(err)
	}
	if d.Metadata == nil {
		d.Metadata = map[string]any{}
	}
	return d, nil
}

// checkKind returns errors in the header of a definition that should have this kind, name and namespace.
func (d *document) checkKind(kind, name, namespace string) error {
	var faults fleet.Faults
	want := func(path, is, want string) {
		if is != want {
			faults = append(faults, d.faultAt(path, fmt.Sprintf("must be %s", want)))
		}
	}
	want("apiVersion", d.APIVersion, v1.GroupVersion().String())
	want("kind", d.Kind, kind)
	is, _ := d.Metadata["name"].(string)
	want("metadata.name", is, name)
	if space, given := d.Metadata["namespace"].(string); given {
		want("metadata.namespace", space, namespace)
	}
	d.Metadata["namespace"] = namespace
	if faults != nil {
		return faults
	}
	return nil
}

// faultAt returns a problem in a field, with its line. For a disk, the path begins with the name of the disk.
func (d *document) faultAt(path, message string) fleet.Fault {
	fault := fleet.Fault{Path: path, Message: message}
	if d.text != nil && path != "" {
		fault.Line = d.text.Line(path)
	}
	if name, _ := d.Metadata["name"].(string); d.Kind == kindOfDisk {
		fault.Path = strings.TrimSuffix(fleet.PathOfDisk+name+"."+path, ".")
	}
	return fault
}

// asObject returns the definition as an object for the API server.
func (d *document) asObject() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": d.APIVersion, "kind": d.Kind, "metadata": d.Metadata, "spec": d.Spec,
	}}
}

// Definition implements fleet.Fleet. It omits possible secrets: cloud-init data, passwords in addresses, and
// annotations from other programs, as some of these contain the whole definition.
func (f *Fleet) Definition(_ context.Context, name string) (*fleet.Definition, error) {
	vm, err := f.findVM(name)
	if err != nil {
		return nil, err
	}
	d, err := documentOf(vm.VirtualMachine)
	if err != nil {
		return nil, err
	}
	d.hideSecrets()
	text, err := yaml.Marshal(d)
	return &fleet.Definition{Text: string(text), Version: versionOf(vm.VirtualMachine)}, err
}

// versionOf identifies a version of a definition.
func versionOf(vm *v1.VirtualMachine) string { return fmt.Sprintf("%s/%d", vm.UID, vm.Generation) }

// eachSecret calls do with the mapping, key and path of each value that may be secret.
func (d *document) eachSecret(do func(of map[string]any, key, path string)) {
	data, _ := d.Spec["cloudInit"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key != "userDataFrom" && key != "networkDataFrom" {
			do(data, key, "spec.cloudInit."+key)
		}
	}
	if p, _ := d.Spec["provisioning"].(map[string]any); p["userData"] != nil {
		do(p, "userData", "spec.provisioning.userData")
	}
	annotations, _ := d.Metadata["annotations"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(key, v1.GroupName+"/") {
			do(annotations, key, "metadata.annotations."+key)
		}
	}
}

// hideSecrets replaces values that may be secret.
func (d *document) hideSecrets() {
	d.eachSecret(func(of map[string]any, key, _ string) { of[key] = fleet.Kept })
	eachText(d.Spec, hideUser)
}

// hiddenUser replaces the user and password in an address.
const hiddenUser = "…"

// hideUser returns a text with the users and passwords in addresses hidden.
func hideUser(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	withUser := regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/?#\s"']*@`)
	return withUser.ReplaceAllString(text, "${1}"+hiddenUser+"@")
}

// restoreSecrets restores, from another document, the secrets that hideSecrets replaced in d. It returns an error for
// placeholders that have no value in the other document.
func (d *document) restoreSecrets(from *document) error {
	hidden, addresses := map[string]any{}, map[string]string{}
	from.eachSecret(func(of map[string]any, key, path string) { hidden[path] = of[key] })
	eachText(from.Spec, func(text string) string {
		if shown := hideUser(text); shown != text {
			addresses[shown] = text
		}
		return text
	})
	var faults fleet.Faults
	d.eachSecret(func(of map[string]any, key, path string) {
		value, was := hidden[path]
		switch {
		case of[key] != fleet.Kept:
		case was:
			of[key] = value
		default:
			faults = append(faults, d.faultAt(path, "there is no value to keep; leave the key out"))
		}
	})
	eachText(d.Spec, func(text string) string {
		whole, was := addresses[text]
		switch {
		case was:
			return whole
		case strings.Contains(text, "//"+hiddenUser+"@"):
			faults = append(faults, fleet.Fault{Message: "the password of " + text + " is not known; write it"})
		case text == fleet.Kept:
			faults = append(faults, fleet.Fault{Message: fleet.Kept + " is in a place where no value can be kept"})
		}
		return text
	})
	if faults != nil {
		return faults
	}
	return nil
}

// eachText replaces all strings in a JSON value. It modifies the value and returns it.
func eachText(value any, change func(string) string) any {
	switch value := value.(type) {
	case string:
		return change(value)
	case map[string]any:
		for key, item := range value {
			value[key] = eachText(item, change)
		}
	case []any:
		for i, item := range value {
			value[i] = eachText(item, change)
		}
	}
	return value
}
