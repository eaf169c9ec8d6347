package vmtypes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// Files restricts the files that a configuration may name in vm.options.
//
// See docs/decisions/0049-option-files.md.
type Files struct {
	// Folder is the base of relative paths.
	Folder string
	// Only restricts files to Folder. It is set for users who must not access other files of the host.
	Only bool
}

// faultOf returns an error if a configuration may not name the file. Otherwise the Message is empty.
func (f Files) faultOf(path, file string) vmspec.Fault {
	if strings.Contains(file, "://") {
		return vmspec.Fault{Path: path, Message: strconv.Quote(clipWord(file)) + " is a web address, no file"}
	}
	if _, inside := vmspec.Inside(f.Folder, file); f.Only && !inside {
		return vmspec.Fault{
			Path: path, Message: strconv.Quote(clipWord(file)) + " is not in the image repository",
			Hint: fmt.Sprintf("use a file in it, such as drivers.iso or %s/drivers.iso", f.Folder),
		}
	}
	return vmspec.Fault{}
}

// optionValues returns a copy of given with absolute paths for options of type file, and the errors in these paths. It
// keeps values of a wrong type unchanged.
func (f Files) optionValues(path string, declared []Option, given map[string]any) (map[string]any, []vmspec.Fault) {
	if !slices.ContainsFunc(declared, func(o Option) bool { return o.Attr.hasFile() }) {
		return given, nil
	}
	all := make(map[string]any, len(given))
	var faults []vmspec.Fault
	for name, value := range given {
		all[name] = value
		if i := slices.IndexFunc(declared, func(o Option) bool { return o.Name == name }); i >= 0 {
			var wrong []vmspec.Fault
			all[name], wrong = f.optionValue(path+"."+name, &declared[i].Attr, value)
			faults = append(faults, wrong...)
		}
	}
	slices.SortFunc(faults, func(a, b vmspec.Fault) int { return strings.Compare(a.Path, b.Path) })
	return all, faults
}

// optionValue does the same as optionValues for a single value.
func (f Files) optionValue(path string, a *Attr, given any) (any, []vmspec.Fault) {
	switch v := given.(type) {
	case string:
		if a.Type != attrFile || v == "" {
			break
		}
		if fault := f.faultOf(path, v); fault.Message != "" {
			return given, []vmspec.Fault{fault}
		}
		return vmspec.Within(f.Folder, v), nil
	case map[string]any:
		if a.Type == attrRecord {
			return f.optionValues(path, a.Fields, v)
		}
		if a.Type != attrDict || !a.hasFile() {
			break
		}
		all := make([]Option, 0, len(v))
		for key := range v {
			all = append(all, Option{Name: key, Attr: *a.Of})
		}
		return f.optionValues(path, all, v)
	case []any:
		if a.Type != attrList || !a.hasFile() {
			break
		}
		list := make([]any, len(v))
		var faults []vmspec.Fault
		for i, item := range v {
			var wrong []vmspec.Fault
			list[i], wrong = f.optionValue(path+"["+strconv.Itoa(i)+"]", a.Of, item)
			faults = append(faults, wrong...)
		}
		return list, faults
	}
	return given, nil
}

// hasFile reports whether a value of this type can contain the name of a file.
func (a *Attr) hasFile() bool {
	return a.Type == attrFile || a.Of != nil && a.Of.hasFile() ||
		slices.ContainsFunc(a.Fields, func(o Option) bool { return o.Attr.hasFile() })
}

// CheckFiles returns an error for each place in a plan that uses a text of vm.options as a forbidden file, and for each
// forbidden file with a secret. It ignores the type's declarations, because a pinned type may be older than options of
// type file.
func (f Files) CheckFiles(p *plan.Plan, options map[string]any) []plan.Fault {
	if !f.Only {
		return nil
	}
	var faults []plan.Fault
	for _, s := range p.SecretFiles { // the runner reads them
		if fault := f.faultOf(s.Path, s.File); fault.Message != "" {
			faults = append(faults, plan.Fault{Message: fault.String()})
		}
	}
	for path, text := range textsIn("vm.options", options) {
		if !filepath.IsAbs(text) {
			continue
		}
		fault := f.faultOf(path, text)
		if fault.Message == "" {
			continue
		}
		for _, process := range p.Processes() {
			for i := range process.Args {
				if o := &process.Args[i]; namesFile(o, text) {
					faults = append(faults, plan.Fault{Message: fault.String(), Origin: o.Origin})
				}
			}
		}
	}
	slices.SortFunc(faults, func(a, b plan.Fault) int { return strings.Compare(a.Message, b.Message) })
	return faults
}

// namesFile reports whether an option contains a text in a place for the name of a file.
func namesFile(o *plan.Option, text string) bool {
	if o.Flag == text || o.Value == text {
		return true
	}
	structured := o.Structured()
	row := qemuopt.Find(structured.Flag, structured.Backend())
	return slices.ContainsFunc(structured.Properties, func(p plan.Property) bool {
		return p.Value == text && row.Property(p.Key).Host != qemuopt.Text
	})
}

// textsIn iterates over all texts in a value of a configuration, with their paths.
func textsIn(path string, value any) func(yield func(path, text string) bool) {
	return func(yield func(path, text string) bool) { eachText(path, value, yield) }
}

func eachText(path string, value any, yield func(path, text string) bool) bool {
	switch v := value.(type) {
	case string:
		return yield(path, v)
	case []any:
		for i, item := range v {
			if !eachText(path+"["+strconv.Itoa(i)+"]", item, yield) {
				return false
			}
		}
	case map[string]any:
		for key, item := range v {
			if !eachText(path+"."+clipWord(key), item, yield) {
				return false
			}
		}
	}
	return true
}
