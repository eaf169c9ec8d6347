package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/fleet"
	"vmop/manager/objects"
)

// Definition implements fleet.Fleet. What may be secret is left out: cloud-init's data, passwords
// in addresses, and annotations of others, some of which have the whole definition.
func (f *Fleet) Definition(_ context.Context, name string) (*fleet.Definition, error) {
	vm, err := f.find(name)
	if err != nil {
		return nil, err
	}
	tree, err := redacted(vm.VirtualMachine)
	if err != nil {
		return nil, fmt.Errorf("show the definition of VM %s: %w", name, err)
	}
	text, err := yaml.Marshal(tree)
	return &fleet.Definition{Text: string(text), Version: version(vm.VirtualMachine)}, err
}

// version identifies a definition.
func version(vm *v1.VirtualMachine) string { return fmt.Sprintf("%s/%d", vm.UID, vm.Generation) }

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
	metadata := map[string]any{}
	for _, key := range []string{"name", "namespace", "labels", "annotations"} {
		if value, has := tree.Metadata[key]; has {
			metadata[key] = value
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		for key := range annotations {
			if !strings.HasPrefix(key, v1.GroupName+"/") {
				annotations[key] = fleet.Kept
			}
		}
	}
	if data, ok := tree.Spec["cloudInit"].(map[string]any); ok {
		for key := range data {
			data[key] = fleet.Kept
		}
	}
	return map[string]any{
		"apiVersion": v1.GroupVersion().String(), "kind": "VirtualMachine", "metadata": metadata,
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

// Left implements fleet.Fleet: claims stay.
func (f *Fleet) Left(_ context.Context, name string) ([]string, error) {
	vm, err := f.find(name)
	if err != nil {
		return nil, err
	}
	var claims []string
	for _, claim := range objects.ClaimNames(vm.VirtualMachine) {
		m, err := f.opts.Store.Metadata(objects.KindClaim, claim)
		if err != nil {
			return nil, err
		}
		if m != nil {
			claims = append(claims, "PersistentVolumeClaim "+claim)
		}
	}
	return claims, nil
}

// notYet is why VMs are not made and changed here.
const notYet = fleet.Refusal("VMs of a cluster are made and edited with kubectl")

// Offer implements fleet.Fleet.
func (f *Fleet) Offer(context.Context) (*fleet.Offer, error) { return nil, notYet }

// VMType implements fleet.Fleet.
func (f *Fleet) VMType(context.Context, string) (*fleet.VMType, error) { return nil, notYet }

// Draft implements fleet.Fleet.
func (f *Fleet) Draft(context.Context, *fleet.Draft) (string, error) { return "", notYet }

// Check implements fleet.Fleet.
func (f *Fleet) Check(context.Context, string, *fleet.Definition) (*fleet.Check, error) {
	return nil, notYet
}

// Create implements fleet.Fleet.
func (f *Fleet) Create(context.Context, string, string, string) error { return notYet }

// Replace implements fleet.Fleet.
func (f *Fleet) Replace(context.Context, string, string, *fleet.Definition) error { return notYet }
