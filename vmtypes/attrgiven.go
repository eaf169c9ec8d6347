package vmtypes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A completion prepares the options of a configuration for the check of their values. It replaces former names, and
// computes the defaults that depend on other options.
//
// See docs/decisions/0189-declarations-of-options.md.
type completion struct {
	// call calls the function that computes the default of an option.
	call     defaultCaller
	faults   []vmspec.Fault
	warnings []plan.Warning
	secrets  []plan.SecretFile
	// former maps the path of an option to its name in the configuration, if that is a former name.
	former map[string]string
	// err is the first error of a function that computes a default.
	err error
}

// completeFields returns the given options of a record, with current names and computed defaults.
func (c *completion) completeFields(path string, options []Option, given map[string]any) map[string]any {
	all := c.replaceAliases(path, options, given)
	for i := range options {
		o := &options[i]
		at := path + "." + o.Name
		value := all[o.Name]
		switch {
		case value != nil && o.Deprecated != "":
			c.warnings = append(c.warnings, plan.Warning{Path: at, Message: "is deprecated: " + o.Deprecated})
		case value == nil && o.computesInside():
			value = o.Default
		case value == nil && o.compute != nil:
			value = c.computeDefault(options[:i], o, all)
		}
		if value != nil {
			all[o.Name] = c.completeValue(at, &o.Attr, value)
		}
	}
	for i := range options {
		o := &options[i]
		if reasons := c.reasonsFor(path, o, options, all); all[o.Name] == nil && reasons != nil {
			c.faults = append(c.faults, vmspec.Fault{
				Path: path + "." + o.Name, Message: "must be set, because " + strings.Join(reasons, " and "),
				Hint: firstSentence(o.Doc),
			})
		}
	}
	return all
}

// completeValue does the same as completeFields within a value.
func (c *completion) completeValue(path string, a *Attr, given any) any {
	switch v := given.(type) {
	case string:
		if a.Secret && v != "" {
			c.secrets = append(c.secrets, plan.SecretFile{Path: path, File: v})
		}
	case map[string]any:
		if a.Type == attrRecord {
			return c.completeFields(path, a.Fields, v)
		}
		if a.Type != attrDict {
			break
		}
		all := make(map[string]any, len(v))
		for key, value := range v {
			all[key] = c.completeValue(path+"."+clipWord(key), a.Of, value)
		}
		return all
	case []any:
		if a.Type != attrList {
			break
		}
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = c.completeValue(path+"["+strconv.Itoa(i)+"]", a.Of, item)
		}
		return list
	}
	return given
}

// replaceAliases returns a copy of given with current names.
func (c *completion) replaceAliases(path string, options []Option, given map[string]any) map[string]any {
	all := make(map[string]any, len(given))
	maps.Copy(all, given)
	for i := range options {
		o := &options[i]
		for _, alias := range o.Aliases {
			value, used := given[alias]
			if !used {
				continue
			}
			delete(all, alias)
			if before := all[o.Name]; before != nil && value != nil {
				other := o.Name
				if was := c.former[path+"."+o.Name]; was != "" {
					other = was
				}
				c.faults = append(c.faults, vmspec.Fault{
					Path: path + "." + alias, Key: true, Hint: "set only " + o.Name,
					Message: "is the same option as " + other + ", which is set as well",
				})
				continue
			}
			if value != nil {
				all[o.Name], c.former[path+"."+o.Name] = value, alias
				c.warnings = append(c.warnings, plan.Warning{
					Path: path + "." + o.Name, Message: "is a former name: use " + o.Name,
				})
			}
		}
	}
	return all
}

// reasonsFor returns the values of other options that require an option, such as "env is prod"; nil if the option is
// not required.
func (c *completion) reasonsFor(path string, o *Option, options []Option, given map[string]any) (reasons []string) {
	for _, condition := range o.RequiredIf {
		at := slices.IndexFunc(options, func(other Option) bool { return other.Name == condition.Option })
		if at < 0 {
			return nil
		}
		v, _ := options[at].fieldValue("", given[condition.Option])
		plain, err := plainValue(v, 0)
		if err != nil || !slices.Contains(condition.Values, plain) {
			return nil
		}
		name := condition.Option
		if former := c.former[path+"."+name]; former != "" {
			name = former
		}
		reasons = append(reasons, name+" is "+options[at].writtenValue(plain))
	}
	return reasons
}

// computeDefault returns the default of o, which a function computes from the preceding options. It returns nil if the
// preceding options contain errors.
func (c *completion) computeDefault(before []Option, o *Option, given map[string]any) any {
	known := map[string]any{}
	for i := range before {
		if value := given[before[i].Name]; value != nil {
			known[before[i].Name] = value
		}
	}
	options, faults := fieldValues("options", "", before, known)
	if len(faults) > 0 || c.err != nil {
		return nil
	}
	options.(*optionsRecord).preceding = true
	v, err := c.call(o.compute, options)
	if c.err = err; err != nil || v == starlark.None {
		return nil
	}
	value, err := (&attrValue{Attr: o.Attr}).convertArgument("the default of "+o.Name, v)
	if err != nil {
		pos := o.compute.Position()
		c.err = &Error{Message: err.Error(), File: pos.Filename(), Line: int(pos.Line), Column: int(pos.Col)}
	}
	return value
}

// A defaultCaller calls a function that computes a default from the preceding options.
type defaultCaller func(fn *starlark.Function, options starlark.Value) (starlark.Value, error)

// limitedCaller returns a caller that limits the steps and the time of each call.
func limitedCaller(ctx context.Context) defaultCaller {
	return func(fn *starlark.Function, options starlark.Value) (v starlark.Value, err error) {
		thread := &starlark.Thread{Name: "default", Print: discardPrint}
		defer recoverAs(thread, &err)
		defer limitThread(ctx, thread)()
		v, err = starlark.Call(thread, fn, starlark.Tuple{options}, nil)
		return v, explainLimit(ctx, thread, err)
	}
}

// computesInside reports whether a function computes the default of a field within the option.
func (a *Attr) computesInside() bool {
	return a.Of != nil && a.Of.computesInside() || slices.ContainsFunc(a.Fields, func(o Option) bool {
		return o.compute != nil || o.computesInside()
	})
}

// restorePath returns the path of an option in the configuration, which may contain former names.
func (c *completion) restorePath(path string) string {
	for _, at := range slices.Backward(slices.SortedFunc(maps.Keys(c.former), compareLengths)) {
		if rest, is := strings.CutPrefix(path, at); is && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			path = at[:strings.LastIndexByte(at, '.')+1] + c.former[at] + rest
		}
	}
	return path
}

// compareLengths orders texts by their lengths.
func compareLengths(a, b string) int { return len(a) - len(b) }

// optionsOfVM are the options of a configuration as the type sees them.
type optionsOfVM struct {
	value    starlark.Value
	warnings []plan.Warning
	secrets  []plan.SecretFile
}

// readOptions checks the options of a configuration. The error is a *FieldsError, or an error in a function of the
// type that computes a default.
func (d declared) readOptions(
	call defaultCaller, rs *records, vmType string, given map[string]any, files Files,
) (optionsOfVM, error) {
	if d.free {
		return optionsOfVM{value: rs.recordOf("vm.options", given)}, nil
	}
	c := &completion{call: call, former: map[string]string{}}
	given = c.completeFields("vm.options", d.options, given)
	if c.err != nil {
		return optionsOfVM{}, fmt.Errorf("VM type %s: %w", vmType, explainError(c.err, d.source))
	}
	given, misplaced := files.optionValues("vm.options", d.options, given)
	v, faults := fieldValues("vm.options", "the VM type "+vmType, d.options, given)
	faults = slices.Concat(c.faults, misplaced, faults)
	for i := range faults {
		faults[i].Path = c.restorePath(faults[i].Path)
	}
	if len(faults) > 0 {
		return optionsOfVM{}, &FieldsError{Type: vmType, Faults: faults}
	}
	for i := range c.warnings {
		c.warnings[i].Path = c.restorePath(c.warnings[i].Path)
	}
	for i, s := range c.secrets {
		c.secrets[i] = plan.SecretFile{Path: c.restorePath(s.Path), File: vmspec.Within(files.Folder, s.File)}
	}
	return optionsOfVM{v, c.warnings, c.secrets}, nil
}
