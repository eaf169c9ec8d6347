package draw

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"vmop/authoring/sample"
	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/vmspec"
)

// A VM is a drawn vm section, and the facts of its computer.
type VM struct {
	// Section maps the keys of the vm section to the values that a YAML file can contain.
	Section map[string]any
	// Host contains the facts of sample.HostFacts.
	Host map[string]any
}

// YAML returns the vm section as text.
func (v VM) YAML() string {
	if len(v.Section) == 0 {
		return "# all defaults\n"
	}
	text, err := yamlfile.Write(v.Section)
	if err != nil { // a test draws all kinds of values
		return err.Error()
	}
	return string(text)
}

// hostText returns the facts as JSON; "" if the computer is the default.
func (v VM) hostText() string {
	if len(v.Host) == 0 {
		return ""
	}
	text, err := json.Marshal(v.Host)
	if err != nil {
		return ""
	}
	return string(text)
}

// archive returns the VM as a sample without a plan.
func (v VM) archive(comment, vmType string) []byte {
	a := &txtar.Archive{Comment: []byte(comment + "\n")}
	if text := v.hostText(); text != "" {
		a.Files = append(a.Files, txtar.File{Name: "host.json", Data: []byte(text + "\n")})
	}
	a.Files = append(a.Files, txtar.File{Name: "type", Data: []byte(vmType + "\n")},
		txtar.File{Name: "vm.yaml", Data: []byte(v.YAML())})
	return txtar.Format(a)
}

// FromSample returns the VM of a sample, to draw similar VMs.
func FromSample(path string) (VM, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return VM{}, fmt.Errorf("read sample: %w", err)
	}
	v := VM{map[string]any{}, map[string]any{}}
	if filepath.Ext(path) != sample.Suffix {
		tree, _, err := yamlfile.Tree(path, text)
		runner, _ := tree["/Runner"].(map[string]any)
		if section, ok := runner["vm"].(map[string]any); ok {
			v.Section = section
		}
		return v, err
	}
	for _, f := range txtar.Parse(text).Files {
		switch f.Name {
		case "vm.yaml":
			section, _, err := yamlfile.Tree(path, f.Data)
			if err != nil {
				return v, err
			}
			maps.Copy(v.Section, section)
		case "host.json":
			if err := json.Unmarshal(f.Data, &v.Host); err != nil {
				return v, fmt.Errorf("%s: read host.json: %w", path, err)
			}
		}
	}
	return v, nil
}

// read returns the spec with its defaults except for sizes, and the errors of the configuration's reader.
func (v VM) read() (vmspec.Spec, yamlfile.Faults) {
	section := map[string]any{"name": "vm", "uuid": sample.UUID}
	maps.Copy(section, v.Section)
	text, err := json.Marshal(map[string]any{"/Runner": map[string]any{"vm": section}}) // JSON is YAML
	if err != nil {
		return vmspec.Spec{}, yamlfile.Faults{{Message: err.Error()}}
	}
	cfg, _, err := config.Parse("vm.yaml", text)
	var faults yamlfile.Faults
	if err != nil {
		if !errors.As(err, &faults) {
			faults = yamlfile.Faults{{Message: err.Error()}}
		}
		return vmspec.Spec{}, faults
	}
	return cfg.VM.WithOtherDefaults(), nil
}

// clone returns a deep copy.
func (v VM) clone() VM {
	return VM{cloneTree(v.Section).(map[string]any), cloneTree(v.Host).(map[string]any)}
}

func cloneTree(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := maps.Clone(v)
		for key := range c {
			c[key] = cloneTree(c[key])
		}
		return c
	case []any:
		c := slices.Clone(v)
		for i := range c {
			c[i] = cloneTree(c[i])
		}
		return c
	}
	return v
}

// remove removes the value at a path such as "vm.network[0].mac" from the section, or the nearest value around it.
func (v VM) remove(path string) {
	steps := strings.FieldsFunc(strings.TrimPrefix(path, "vm."), func(r rune) bool {
		return r == '.' || r == '[' || r == ']'
	})
	if len(steps) > 0 {
		removeFrom(v.Section, steps)
	}
}

// removeFrom returns the tree without the value that the steps lead to.
func removeFrom(tree any, steps []string) any {
	switch node := tree.(type) {
	case map[string]any:
		inner, known := node[steps[0]]
		if !known {
			return nil
		}
		if len(steps) > 1 {
			inner = removeFrom(inner, steps[1:])
		} else {
			inner = nil
		}
		if node[steps[0]] = inner; inner == nil {
			delete(node, steps[0])
		}
		return node
	case []any:
		i, err := strconv.Atoi(steps[0])
		if err != nil || i >= len(node) {
			return nil
		}
		var inner any
		if len(steps) > 1 {
			inner = removeFrom(node[i], steps[1:])
		}
		if inner == nil {
			return slices.Delete(node, i, i+1)
		}
		node[i] = inner
		return node
	}
	return nil
}

// simpler returns the VMs that are a step simpler: without a value, or with a simpler value.
func (v VM) simpler() []VM {
	var list []VM
	for _, section := range simplerTrees(v.Section) {
		list = append(list, VM{section.(map[string]any), v.Host})
	}
	for _, host := range simplerTrees(v.Host) {
		list = append(list, VM{v.Section, host.(map[string]any)})
	}
	return list
}

// simplerTrees returns the trees that are a step simpler. The steps that remove most come first.
func simplerTrees(tree any) []any {
	var list []any
	switch node := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			c := maps.Clone(node)
			delete(c, key)
			list = append(list, c)
		}
		for _, key := range slices.Sorted(maps.Keys(node)) {
			for _, value := range simplerTrees(node[key]) {
				c := maps.Clone(node)
				c[key] = value
				list = append(list, c)
			}
		}
	case []any:
		for i := range node {
			list = append(list, slices.Delete(slices.Clone(node), i, i+1))
		}
		for i := range node {
			for _, value := range simplerTrees(node[i]) {
				c := slices.Clone(node)
				c[i] = value
				list = append(list, c)
			}
		}
	case bool:
		if node {
			list = append(list, false)
		}
	case int64:
		for _, n := range []int64{0, 1, node / 2, node - 1} {
			if n >= 0 && n < node {
				list = append(list, n)
			}
		}
	case string:
		runes := []rune(node)
		for _, n := range []int{0, 1, len(runes) / 2, len(runes) - 1} {
			if n < len(runes) && n >= 0 {
				list = append(list, string(runes[:n]))
			}
		}
	}
	return list
}

// describeVM describes the VM for people: the section, and the computer if it is not the default.
func (v VM) describeVM() string {
	text := "vm.yaml:\n" + indent(v.YAML())
	if host := v.hostText(); host != "" {
		text += fmt.Sprintf("host.json:\n%s", indent(host+"\n"))
	}
	return strings.TrimSuffix(text, "\n")
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ") + "\n"
}
