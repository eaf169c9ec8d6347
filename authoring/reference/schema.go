package reference

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/vmspec"
)

// A Schema is a JSON Schema (draft 2020-12), or a part of it.
type Schema map[string]any

// ConfigurationSchema returns the schema of a runner's configuration file. It includes the options of the types. With a
// single type, the file must select this type; otherwise any vmType is valid. The schema checks single keys and their
// form. The runner checks dependencies between keys.
func ConfigurationSchema(types []DescribedType) Schema {
	runner := sectionSchema("", reflect.TypeFor[config.Config]())
	runner["required"] = []string{"vm"}
	properties := runner["properties"].(Schema)
	for former, now := range map[string]string{"template": "vmType", "updateTemplate": "updateVmType"} {
		properties[former] = Schema{"deprecated": true, "description": "The former name of " + now + "."}
	}
	if len(types) == 1 {
		properties["vmType"] = mergeSchemas(properties["vmType"].(Schema), typeNameSchema(types[0].Name))
		if types[0].Name != config.DefaultVMType {
			runner["required"] = []string{"vm", "vmType"}
		}
	}
	names := []string{}
	for _, t := range types {
		names = append(names, t.Name)
		runner["allOf"] = append(typeConditions(runner), t.optionsCondition())
	}
	properties["vmType"] = mergeSchemas(properties["vmType"].(Schema), Schema{"examples": names}) // for editors
	return Schema{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "The configuration file of vmrunner",
		"type":    "object",
		"properties": Schema{
			"/Runner": Schema{"$ref": "#/$defs/runner"},
			"_Runner": Schema{"$ref": "#/$defs/runner"},
		},
		"patternProperties":    Schema{"^[/_]": true},
		"additionalProperties": false,
		"oneOf":                []Schema{{"required": []string{"/Runner"}}, {"required": []string{"_Runner"}}},
		"$defs":                Schema{"runner": runner},
	}
}

func typeConditions(s Schema) []Schema {
	list, _ := s["allOf"].([]Schema)
	return list
}

// optionsCondition requires the type's options in a configuration with this type.
func (t DescribedType) optionsCondition() Schema {
	vm := Schema{"properties": Schema{"options": optionsSchema(t.Options)}}
	for _, o := range t.Options {
		if o.Mandatory {
			vm["required"] = []string{"options"}
		}
	}
	asked := Schema{"properties": Schema{"vmType": typeNameSchema(t.Name)}}
	if t.Name != config.DefaultVMType {
		asked["required"] = []string{"vmType"}
	}
	return Schema{"if": asked, "then": Schema{"properties": Schema{"vm": vm}}}
}

// typeNameSchema returns the schema of a vmType that selects this type; null selects the default type.
func typeNameSchema(name string) Schema {
	s := Schema{"type": []string{"string"}, "pattern": `^(.*/)?` + regexp.QuoteMeta(name) + `(\.star)?$`}
	if name == config.DefaultVMType {
		s["type"] = []string{"string", "null"}
	}
	return s
}

func mergeSchemas(schemas ...Schema) Schema {
	all := Schema{}
	for _, s := range schemas {
		for key, value := range s {
			all[key] = value
		}
	}
	return all
}

// sectionSchema returns the schema of a mapping. path is "" for the whole section "/Runner".
func sectionSchema(path string, t reflect.Type) Schema {
	properties := Schema{}
	var required []string
	notes := map[string]vmspec.Default{}
	for _, d := range vmspec.Defaults() {
		notes[d.Path] = d
	}
	for i := range t.NumField() {
		key := t.Field(i).Tag.Get("yaml")
		if key == "" {
			continue
		}
		at := key
		if path != "" {
			at = path + "." + key
		}
		must := strings.HasPrefix(notes[at].Note, "required")
		if must {
			required = append(required, key)
		}
		properties[key] = valueSchema(at, t.Field(i).Type, must, notes[at])
	}
	s := Schema{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		s["required"] = required
	}
	if path == "vm.drives[]" {
		s = mergeSchemas(s, diskSchema())
	}
	return s
}

// diskSchema excludes keys that a CD drive must not have, and requires one source for a disk.
func diskSchema() Schema {
	one := func(key string) Schema {
		return Schema{"required": []string{key}, "properties": Schema{key: Schema{"type": "string"}}}
	}
	absent := Schema{"type": "null"}
	return Schema{
		"if": Schema{
			"required":   []string{"type"},
			"properties": Schema{"type": Schema{"const": string(vmspec.DriveIDECD)}},
		},
		"then": Schema{"properties": Schema{"device": absent, "resource": absent}},
		"else": Schema{
			"properties": Schema{"bus": absent},
			"oneOf":      []Schema{one("file"), one("device"), one("resource")},
		},
	}
}

// valueSchema returns the schema for the value of a key. null counts as absent.
func valueSchema(path string, t reflect.Type, must bool, d vmspec.Default) Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := Schema{}
	switch {
	case strings.HasPrefix(path, "cloudInit.") && t.Kind() != reflect.String: // keys of cloud-init
		s["type"] = []string{"object", "string"}
	case t == reflect.TypeFor[vmspec.Bytes]():
		s = Schema{
			"type": []string{"string", "integer"}, "pattern": sizePattern, "minimum": int64(vmspec.MiB),
			"multipleOf": int64(vmspec.MiB),
		}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[yamlfile.Switch]()):
		s["type"] = []string{"boolean", "string", "number"}
	case t.Kind() == reflect.Bool:
		s = Schema{"type": []string{"boolean", "string"}, "pattern": switchPattern}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		s = mergeSchemas(Schema{"type": []string{"integer", "string"}, "pattern": wholePattern}, numberBounds(path))
	case t.Kind() == reflect.String:
		s = mergeSchemas(Schema{"type": []string{"string", "number"}}, textSchema(path))
	case t.Kind() == reflect.Slice:
		item := valueSchema(path+"[]", t.Elem(), true, vmspec.Default{})
		s = Schema{"type": []string{"array"}, "items": item}
	case t.Kind() == reflect.Struct:
		s = sectionSchema(path, t)
		s["type"] = []string{"object"}
	default: // the options
		s["type"] = []string{"object"}
	}
	if !must {
		s["type"] = append(s["type"].([]string), "null")
	}
	return mergeSchemas(s, describeKey(path, d))
}

// describeKey returns the description of a key.
func describeKey(path string, d vmspec.Default) Schema {
	s := Schema{}
	text := Plain(Meaning(path))
	if note := (Key{Default: d.Value, Note: d.Note}).defaultText(); note != "" && !strings.HasPrefix(note, "required") {
		text = strings.TrimSpace(text + " Default: " + note + ".")
	}
	if text != "" {
		s["description"] = text
	}
	if words := vmspec.Choices(path); words != nil {
		choices := []any{nil}
		for _, word := range words {
			choices = append(choices, word)
		}
		s["enum"] = slices.Concat(choices[1:], choices[:1])
	}
	return s
}

// Texts that the runner interprets as a boolean or a number.
const (
	switchPattern = `^(?:[Yy]es|YES|[Nn]o|NO|[Oo]n|ON|[Oo]ff|OFF)$`
	wholePattern  = `^[-+]?(?:0|[1-9][0-9]*)$`
)

// sizePattern matches the texts that vmspec.ParseBytes accepts.
const sizePattern = `^\s*\+?[0-9]*\.?[0-9]+\s*(?:[Bb]|[kmgtpeKMGTPE][iI]?[bB]?|[eE][-+]?[0-9]+)?\s*$`

// numberBounds returns the range of a number.
func numberBounds(path string) Schema {
	between := func(least, most int) Schema { return Schema{"minimum": least, "maximum": most} }
	switch path {
	case "vm.maximumCpus", "vm.currentCpus":
		return between(1, 4096)
	case "vm.sockets", "vm.diesPerSocket", "vm.coresPerDie", "vm.threadsPerCore":
		return between(0, 4096)
	case "vm.powerdownTimeout":
		return between(0, 365*24*3600)
	case "vm.network[].ports[].host", "vm.network[].ports[].guest", "vm.display.spice.port":
		return between(1, 65535)
	case "vm.drives[].bootindex":
		return Schema{"minimum": 0}
	case "vm.display.outputs":
		return between(1, 16)
	case "vm.display.spice.usbRedirects":
		return between(0, 14)
	case "vm.display.vnc.port":
		return Schema{"anyOf": []Schema{{"not": Schema{"type": "integer"}}, {"const": 0}, between(5900, 65535)}}
	}
	return nil
}

// textSchema returns the constraints of a text.
func textSchema(path string) Schema {
	switch path {
	case "vm.name":
		return Schema{
			"minLength": 1, "maxLength": 200, "pattern": `^[^/]+$`,
			"not": Schema{"enum": []string{".", ".."}},
		}
	case "vm.uuid":
		return Schema{"pattern": `^(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})?$`}
	case "vm.machineType", "vm.network[].device":
		return Schema{"pattern": `^[0-9A-Za-z._-]*$`}
	case "vm.rtcBase":
		return Schema{"pattern": `^(?:utc|localtime|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2})?)?$`}
	}
	return nil
}

// The patterns of the other numbers with units in options of a VM type. The type itself also checks the order of the
// units of a duration.
const (
	durationPattern = `^\s*(?:[0-9]*\.?[0-9]+|(?:[0-9]*\.?[0-9]+ *[dhms] *)+)\s*$`
	percentPattern  = `^\s*-?(?:0|[1-9][0-9]*)\s*%?\s*$`
	ratePattern     = `^\s*\+?[0-9]*\.?[0-9]+\s*(?:(?:B|[kMGTPE]B?|[KMGTPE]iB?|(?:[kMGTPE]|[KMGTPE]i)?bit)?/s)?\s*$`
)
