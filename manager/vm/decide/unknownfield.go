package decide

import (
	"reflect"
	"regexp"
	"strings"

	v1 "vmop/api/v1"
	"vmop/internal/spelling"
	"vmop/vmspec"
)

// UnknownFields returns the paths of the fields that the strict decoding of an object didn't find, such as
// "spec.vm.ram", and for each a question about the field that may be meant, or "". Only VMs have questions.
func UnknownFields(err error) (paths, hints []string) {
	unknown, text := regexp.MustCompile(`unknown field "([^"]+)"`), err.Error()
	kind := regexp.MustCompile(`(\w+) in version "`).FindStringSubmatch(text) // as the API server reports it
	for _, found := range unknown.FindAllStringSubmatch(text, -1) {
		hint := ""
		if kind == nil || kind[1] == "VirtualMachine" {
			hint = fieldHint(found[1])
		}
		paths, hints = append(paths, found[1]), append(hints, hint)
	}
	return paths, hints
}

// fieldHint asks for the field that a user means by an unknown field of a VM.
func fieldHint(path string) string {
	dot := strings.LastIndexByte(path, '.')
	parent, word := path[:max(dot, 0)], path[dot+1:]
	if meant := vmspec.FieldsMeantBy(path); meant != nil {
		return spelling.DidYouMean(parent, meant...)
	}
	if near := spelling.Nearest(word, fieldsBelow(parent)); near != "" {
		return spelling.DidYouMean("", near)
	}
	return ""
}

// fieldsBelow returns the names of the fields of a VM at a path, such as "spec.vm.disks[0]".
func fieldsBelow(path string) (names []string) {
	at := reflect.TypeFor[v1.VirtualMachine]()
	for word := range strings.SplitSeq(path, ".") {
		name, _, _ := strings.Cut(word, "[")
		if word == "" {
			continue
		}
		f, ok := at.FieldByNameFunc(func(field string) bool {
			f, _ := at.FieldByName(field)
			return jsonName(f) == name
		})
		if at = f.Type; !ok {
			return nil
		}
		for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
			at = at.Elem()
		}
		if at.Kind() != reflect.Struct {
			return nil
		}
	}
	for _, f := range reflect.VisibleFields(at) {
		if name := jsonName(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// jsonName returns the name of a field in JSON; "" for an embedded struct.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
