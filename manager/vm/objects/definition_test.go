package objects_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/vm/class"
)

// podDefinition reads a VM as an API server returns it, with the defaults of the resource's definition, a UID and a
// generation.
func podDefinition(t testing.TB, file string) *v1.VirtualMachine {
	t.Helper()
	object, err := withDefaults(file)
	require.NoError(t, err)
	text, err := json.Marshal(object)
	require.NoError(t, err)
	vm := &v1.VirtualMachine{}
	require.NoError(t, yaml.UnmarshalStrict(text, vm))
	vm.UID, vm.Generation = "0d5c6f0e-0000-4000-8000-000000000001", 3
	resolved, err := class.Resolve(vm, class.Taken{})
	require.NoError(t, err)
	return resolved
}

// withDefaults reads a resource and sets the defaults of missing fields.
func withDefaults(file string) (map[string]any, error) {
	schema, err := schemaOfVMs()
	if err != nil {
		return nil, err
	}
	object := map[string]any{}
	if err := readYAML(file, &object); err != nil {
		return nil, err
	}
	schema.complete(object)
	return object, nil
}

// schemaOfVMs returns the defaults in the resource's definition.
func schemaOfVMs() (properties, error) {
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema properties }
			}
		}
	}
	err := readYAML("../../../deploy/crds/vmoperator.jdrupes.org_vms.yaml", &definition)
	if err != nil {
		return properties{}, err
	}
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema, nil
}

func readYAML(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}

// properties are the parts of a schema that concern defaults.
type properties struct {
	Default    any
	Properties map[string]properties
	Items      *properties
}

// complete sets the defaults in a value and everything below it.
func (s properties) complete(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, property := range s.Properties {
			if _, given := v[key]; !given && property.Default != nil {
				v[key] = runtime.DeepCopyJSONValue(property.Default)
			}
			property.complete(v[key])
		}
	case []any:
		for _, item := range v {
			if s.Items != nil {
				s.Items.complete(item)
			}
		}
	}
}
