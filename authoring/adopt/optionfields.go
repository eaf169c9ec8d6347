package adopt

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vmop/internal/yamlfile"
	"vmop/vmspec"
	"vmop/vmtypes"
)

// optionFields returns the values of a type's options that may bring its plan closer to a command line.
func optionFields(options []vmtypes.Option) (list []candidate) {
	for i := range options {
		o := &options[i]
		values := o.Values
		if o.Type == "bool" {
			values = []any{o.Default != true}
		}
		for _, value := range values {
			if value != o.Default {
				text := fmt.Sprint(value)
				if _, isText := value.(string); isText {
					text = quoteYAML(text)
				}
				list = append(list, candidate{fields: []Field{{Path: "vm.options." + o.Name, Value: text}}, about: -1})
			}
		}
	}
	return list
}

// sortSection returns a vm section with its keys in the order of the reference.
func sortSection(section string) string {
	var blocks []string
	for line := range strings.Lines(section) {
		if len(blocks) > 0 && strings.ContainsAny(line[:1], " -#\n") {
			blocks[len(blocks)-1] += line
		} else {
			blocks = append(blocks, line)
		}
	}
	order := map[string]int{}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[vmspec.Spec]()) {
		order[field.Tag.Get("yaml")] = i
	}
	slices.SortStableFunc(blocks, func(a, b string) int {
		keyA, _, _ := strings.Cut(a, ":")
		keyB, _, _ := strings.Cut(b, ":")
		return order[keyA] - order[keyB]
	})
	return strings.Join(blocks, "")
}

// fieldsWithText are fields that a type can copy to an option. N stands for an index.
var fieldsWithText = []string{
	"cpuModel", "machineType", "rtcBase", "rtcClock", "kernel.image", "kernel.initrd", "kernel.commandLine",
	"drives.N.file", "drives.N.device", "drives.N.serial", "drives.N.bootindex", "drives.N.format", "network.N.mac",
	"network.N.bridge", "network.N.device",
}

// sameValueFields returns candidates for differences with the old value of a field: the type has probably
// copied it.
func (s *search) sameValueFields() (list []candidate) {
	paths := []string{}
	for i := range s.options {
		paths = append(paths, "options."+s.options[i].Name)
	}
	const items = 8
	for _, path := range fieldsWithText {
		if !strings.Contains(path, ".N.") {
			paths = append(paths, path)
			continue
		}
		for n := range items {
			paths = append(paths, strings.Replace(path, ".N.", "."+strconv.Itoa(n)+".", 1))
		}
	}
	for _, path := range paths {
		text, found, err := yamlfile.Value([]byte(s.section), strings.Split(path, ".")...)
		if err != nil || !found {
			continue
		}
		text = strings.Trim(strings.TrimSpace(text), `"'`)
		for i := range s.left {
			d := &s.left[i]
			if d.have == nil || d.want == nil || len(d.now) != 1 || len(d.old) != 1 || d.old[0] != text || text == "" ||
				!s.Exact && fileEffect(d.want, d.key) {
				continue
			}
			list = append(list, candidate{
				fields: []Field{{"vm." + fieldPath(path), quoteYAML(d.now[0]), d.line}}, about: -1,
			})
		}
	}
	return list
}

// fieldPath returns a path in the notation of a configuration: drives[0].file.
func fieldPath(path string) string {
	var b strings.Builder
	for i, step := range strings.Split(path, ".") {
		if _, err := strconv.Atoi(step); err == nil {
			b.WriteString("[" + step + "]")
			continue
		}
		if i > 0 {
			b.WriteString(".")
		}
		b.WriteString(step)
	}
	return b.String()
}
