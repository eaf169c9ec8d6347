package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
)

// leftOut stands for what is not shown.
const leftOut = "left out"

// Definition implements fleet.Fleet. What may be secret is left out: cloud-init's data, passwords
// in addresses, and annotations of others, some of which have the whole definition.
func (f *Fleet) Definition(_ context.Context, name string) (string, error) {
	vm, err := f.find(name)
	if err != nil {
		return "", err
	}
	tree, err := redacted(vm.VirtualMachine)
	if err != nil {
		return "", fmt.Errorf("show the definition of VM %s: %w", name, err)
	}
	text, err := yaml.Marshal(tree)
	return string(text), err
}

// redacted returns the definition of a VM without what may be secret.
func redacted(vm *v1.VirtualMachine) (map[string]any, error) {
	text, err := json.Marshal(vm)
	if err != nil {
		return nil, err
	}
	var tree struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	delete(tree.Metadata, "resourceVersion")
	if annotations, ok := tree.Metadata["annotations"].(map[string]any); ok {
		for key := range annotations {
			if !strings.HasPrefix(key, v1.GroupName+"/") {
				annotations[key] = leftOut
			}
		}
	}
	if data, ok := tree.Spec["cloudInit"].(map[string]any); ok {
		for key := range data {
			data[key] = leftOut
		}
	}
	return map[string]any{
		"apiVersion": v1.GroupVersion().String(), "kind": "VirtualMachine", "metadata": tree.Metadata,
		"spec": withoutUsers(tree.Spec, regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/?#\s"']*@`)),
	}, nil
}

// withoutUsers removes users and passwords from all addresses in a value of JSON.
func withoutUsers(value any, userInAddress *regexp.Regexp) any {
	switch value := value.(type) {
	case string:
		return userInAddress.ReplaceAllString(value, "${1}…@")
	case map[string]any:
		for key, item := range value {
			value[key] = withoutUsers(item, userInAddress)
		}
	case []any:
		for i, item := range value {
			value[i] = withoutUsers(item, userInAddress)
		}
	}
	return value
}
