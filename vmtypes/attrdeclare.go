package vmtypes

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
)

// attrArguments holds the arguments of a function of attr that can only be checked together.
type attrArguments struct {
	standard, minimum, maximum, least, most, example, requiredIf starlark.Value
	values, aliases                                              starlark.Iterable
	of                                                           *attrValue
	fields                                                       *starlark.Dict
}

// parameters returns the parameters of the function that declares an option of this type, for starlark.UnpackArgs.
func (a *attrValue) parameters(in *attrArguments) []any {
	var all []any
	switch a.Attr.Type {
	case attrList, attrDict:
		all = append(all, "of", &in.of)
	case attrRecord:
		all = append(all, "fields", &in.fields)
	}
	all = append(all, "default??", &in.standard, "doc?", &a.Doc, "mandatory?", &a.Mandatory,
		"required_if??", &in.requiredIf, "deprecated?", &a.Deprecated, "aliases??", &in.aliases,
		"label?", &a.Label, "group?", &a.Group)
	switch a.Attr.Type {
	case attrString:
		all = append(all, "values??", &in.values, "pattern?", &a.Pattern, "example??", &in.example,
			"min_length??", &in.least, "max_length??", &in.most)
	case attrFile:
		all = append(all, "secret?", &a.Secret)
	case attrInt, attrSize, attrDuration, attrPercent, attrRate:
		all = append(all, "values??", &in.values, "minimum??", &in.minimum, "maximum??", &in.maximum)
	case attrList:
		all = append(all, "min_items??", &in.least, "max_items??", &in.most, "unique?", &a.Unique)
	}
	return all
}

// explainKeyword adds a suggestion to an error about an unknown keyword of a function of attr.
func explainKeyword(err error, kind string) error {
	message, _, _ := strings.Cut(err.Error(), " (did you mean") // it suggests only the first parameters
	_, quoted, unknown := strings.Cut(message, "unexpected keyword argument ")
	name, wrong := strconv.Unquote(quoted)
	if !unknown || wrong != nil {
		return err
	}
	if near := didYouMean(name, keywordsOf(kind)); near != "" {
		return errors.New(message + near)
	}
	for _, other := range attrKinds() {
		if slices.Contains(keywordsOf(other), name) {
			return fmt.Errorf("%s: only attr.%s has it", message, other)
		}
	}
	return errors.New(message)
}

// AttrParameters returns the names of the parameters of the function attr.KIND. A name of an optional parameter ends
// with "?".
func AttrParameters(kind string) (names []string) {
	pairs := (&attrValue{Attr: Attr{Type: kind}}).parameters(&attrArguments{})
	for i := 0; i < len(pairs); i += 2 {
		names = append(names, strings.Replace(pairs[i].(string), "??", "?", 1))
	}
	return names
}

// keywordsOf returns the names of all parameters of the function attr.KIND.
func keywordsOf(kind string) []string {
	names := AttrParameters(kind)
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, "?")
	}
	return names
}

// isComposed reports whether options of this type contain other options.
func (a *Attr) isComposed() bool {
	return a.Type == attrList || a.Type == attrDict || a.Type == attrRecord
}

// completeAttr checks the arguments of a declaration, except its default.
func (a *attrValue) completeAttr(in *attrArguments) error {
	if err := a.setBounds(in); err != nil {
		return err
	}
	if err := a.setPattern(in.example); err != nil {
		return err
	}
	if err := a.setValues(in.values); err != nil {
		return err
	}
	if err := a.setAliases(in.aliases); err != nil {
		return err
	}
	if err := a.setConditions(in.requiredIf); err != nil {
		return err
	}
	for _, text := range []struct{ name, text string }{
		{"label", a.Label}, {"group", a.Group}, {"deprecated", a.Deprecated},
	} {
		if _, message, _ := readText(text.text); message != "" {
			return fmt.Errorf("%s: %s", text.name, message)
		}
	}
	return a.setInner(in)
}

// setInner sets the declarations within a composed option.
func (a *attrValue) setInner(in *attrArguments) (err error) {
	if in.of != nil {
		if name := in.of.wholeOnly(); name != "" {
			return fmt.Errorf("the declaration of the items must not have %s: give it to attr.%s", name, a.Attr.Type)
		}
		a.Of, a.depth = &in.of.Attr, in.of.depth+1
	}
	if in.fields != nil {
		if a.Fields, a.depth, err = optionsOf(in.fields); err != nil {
			return err
		}
		a.depth++
	}
	if a.depth > deepestAttr {
		return fmt.Errorf("nested deeper than %d", deepestAttr)
	}
	return nil
}

// wholeOnly returns the name of an argument that has no meaning for an item of a list or a dict, or "".
func (a *Attr) wholeOnly() string {
	switch {
	case a.compute != nil:
		return "a default that a function computes"
	case a.RequiredIf != nil:
		return "required_if"
	case a.Aliases != nil:
		return "aliases"
	case a.Deprecated != "":
		return "deprecated"
	case a.Group != "":
		return "group"
	}
	return ""
}

// setBounds sets the bounds of a number, of a text's length or of a list's items.
func (a *attrValue) setBounds(in *attrArguments) (err error) {
	least, err := a.boundOf("minimum", in.minimum)
	if err != nil {
		return err
	}
	if a.Maximum, err = a.boundOf("maximum", in.maximum); err != nil {
		return err
	}
	a.Minimum = least
	if a.Attr.Type == attrPercent && a.Minimum == nil {
		a.Minimum = new(int64(0))
	}
	if a.Attr.Type == attrPercent && a.Maximum == nil {
		a.Maximum = new(max(100, *a.Minimum))
	}
	if a.Minimum != nil && a.Maximum != nil && *a.Minimum > *a.Maximum {
		return fmt.Errorf("the minimum %s is more than the maximum %s", a.shownValue(*a.Minimum),
			a.shownValue(*a.Maximum))
	}
	counted := map[string]string{attrString: "length", attrList: "items"}[a.Attr.Type]
	if a.MinLength, err = countOf("min_"+counted, in.least); err != nil {
		return err
	}
	if a.MaxLength, err = countOf("max_"+counted, in.most); err != nil {
		return err
	}
	if a.MinLength != nil && a.MaxLength != nil && *a.MinLength > *a.MaxLength {
		return fmt.Errorf("min_%s %d is more than max_%s %d", counted, *a.MinLength, counted, *a.MaxLength)
	}
	return nil
}

// boundOf returns a minimum or maximum; nil if it is not given.
func (a *attrValue) boundOf(name string, v starlark.Value) (*int64, error) {
	if v == nil {
		return nil, nil
	}
	number, err := a.convertArgument(name, v)
	if err != nil {
		return nil, err
	}
	return new(number.(int64)), nil
}

// countOf returns a number of characters or items; nil if it is not given.
func countOf(name string, v starlark.Value) (*int64, error) {
	if v == nil {
		return nil, nil
	}
	n, whole := v.(starlark.Int)
	count, fits := n.Int64()
	if !whole || !fits || count < 0 {
		return nil, fmt.Errorf("%s must be a whole number, at least 0, not %s", name, clipWord(v.String()))
	}
	return &count, nil
}

// longestPattern is the maximum length of a pattern, in bytes.
const longestPattern = 1000

// setPattern checks the pattern, and sets the example of a string.
func (a *attrValue) setPattern(example starlark.Value) error {
	if len(a.Pattern) > longestPattern {
		return fmt.Errorf("pattern has %d bytes, the most is %d", len(a.Pattern), longestPattern)
	}
	var wrong *syntax.Error
	if _, err := syntax.Parse(a.Pattern, syntax.Perl); errors.As(err, &wrong) {
		return fmt.Errorf("pattern: %s: %s%s", wrong.Code, clipWord(wrong.Expr), patternHint(wrong))
	}
	if example == nil {
		return nil
	}
	text, err := a.convertArgument("example", example)
	if err != nil {
		return err
	}
	a.Like = text.(string)
	return nil
}

// matchesPattern reports whether the pattern matches a whole text. The declaration has checked the pattern.
func (a *Attr) matchesPattern(text string) bool {
	matcher, err := regexp.Compile(`^(?:` + a.Pattern + `)$`)
	return err == nil && matcher.MatchString(text)
}

// patternHint explains what RE2 lacks.
func patternHint(wrong *syntax.Error) string {
	switch {
	case wrong.Code == syntax.ErrInvalidPerlOp && strings.HasPrefix(wrong.Expr, "(?"):
		return " (the syntax is RE2, which has no lookahead and no lookbehind)"
	case wrong.Code == syntax.ErrInvalidEscape && len(wrong.Expr) > 1 && wrong.Expr[1] >= '1' && wrong.Expr[1] <= '9':
		return " (the syntax is RE2, which has no back references)"
	case wrong.Code == syntax.ErrInvalidEscape:
		return " (to match this character itself, leave out the backslash)"
	}
	return ""
}

// setValues sets the allowed values.
func (a *attrValue) setValues(values starlark.Iterable) error {
	if values == nil {
		return nil
	}
	list, err := a.convertAll("values", values)
	if err == nil && list == nil {
		return errors.New("values is empty, so no value would be allowed")
	}
	a.Values = list
	return err
}

// convertAll converts each of several arguments.
func (a *attrValue) convertAll(name string, values starlark.Iterable) (list []any, err error) {
	for v := range starlark.Elements(values) {
		value, err := a.convertArgument(name, v)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

// setAliases sets the option's former names.
func (a *attrValue) setAliases(names starlark.Iterable) error {
	if names == nil {
		return nil
	}
	for v := range starlark.Elements(names) {
		name, ok := starlark.AsString(v)
		if !ok {
			return fmt.Errorf("aliases must be a list of names, but it contains %s", withArticle(v))
		}
		if why := badName(name); why != "" {
			return fmt.Errorf("aliases: %q can't be the name of an option: %s", clipWord(name), why)
		}
		a.Aliases = append(a.Aliases, name)
	}
	return nil
}

// setConditions reads required_if. optionsOf checks the names and values in it.
func (a *attrValue) setConditions(v starlark.Value) error {
	if v == nil {
		return nil
	}
	dict, ok := v.(*starlark.Dict)
	if !ok || dict.Len() == 0 {
		return fmt.Errorf("required_if must be a dict of other options with their values, such as "+
			"{\"env\": [\"prod\"]}, not %s", v)
	}
	if a.Mandatory {
		return errors.New("required_if has no effect, because the option is mandatory")
	}
	for _, item := range dict.Items() {
		name, ok := starlark.AsString(item[0])
		if !ok {
			return fmt.Errorf("required_if: the key %s must be the name of an option", item[0])
		}
		plain, err := plainValue(item[1], 0)
		if err != nil {
			return fmt.Errorf("required_if: %s: %w", name, err)
		}
		values, several := plain.([]any)
		if !several {
			values = []any{plain}
		}
		a.RequiredIf = append(a.RequiredIf, Condition{Option: name, Values: values})
	}
	return nil
}

// setDefault sets the default: a value, or a function of the preceding options.
func (a *attrValue) setDefault(v starlark.Value) (err error) {
	switch {
	case v == nil:
		return nil
	case a.Mandatory:
		return errors.New("a mandatory option cannot have a default")
	case a.RequiredIf != nil:
		return errors.New("required_if has no effect, because the option has a default")
	}
	if fn, ok := v.(*starlark.Function); ok {
		return a.setDefaultRule(fn)
	}
	if a.Default, err = a.convertArgument("default", v); err != nil && v == starlark.String("") {
		return fmt.Errorf("%w; leave the default out: an omitted option is None", err)
	}
	return err
}

// setDefaultRule sets the function that computes the default.
func (a *attrValue) setDefaultRule(fn *starlark.Function) error {
	if fn.NumParams() != 1 || fn.HasVarargs() || fn.HasKwargs() || fn.NumKwonlyParams() > 0 {
		return fmt.Errorf("default: the function %s must have one parameter, which contains the preceding options",
			fn.Name())
	}
	a.compute, a.DefaultRule = fn, "depends on other options"
	if doc := unindentDocstring(fn.Doc()); doc != "" {
		a.DefaultRule = firstSentence(doc)
	}
	return nil
}

// optionsOf reads a dict of attrs, and checks what depends on several of them.
func optionsOf(d *starlark.Dict) (options []Option, depth int, err error) {
	for _, item := range d.Items() {
		name, ok := starlark.AsString(item[0])
		if !ok {
			return nil, 0, fmt.Errorf("the key %s must be the name of an option as a string, not %s", item[0],
				withArticle(item[0]))
		}
		if why := badName(name); why != "" {
			return nil, 0, fmt.Errorf("%q can't be the name of an option: %s", clipWord(name), why)
		}
		a, ok := item[1].(*attrValue)
		if !ok {
			return nil, 0, fmt.Errorf("%s must be an attr such as attr.string(), not %s", name, withArticle(item[1]))
		}
		depth = max(depth, a.depth)
		options = append(options, Option{Name: name, Attr: a.Attr})
	}
	for i, item := range d.Items() {
		o := &options[i]
		err := o.checkAliases(options)
		if err == nil {
			err = o.checkConditions(options)
		}
		if err != nil {
			return nil, 0, &Error{
				Message: fmt.Sprintf("attr.%s: %s: %s", o.Type, o.Name, err), File: o.File, Line: o.Line,
				Column: item[1].(*attrValue).column,
			}
		}
	}
	return options, depth, nil
}

// checkAliases checks that no other option has the same name as a former name of o.
func (o *Option) checkAliases(all []Option) error {
	for i, alias := range o.Aliases {
		if slices.Contains(o.Aliases[:i], alias) {
			return fmt.Errorf("the alias %s is there twice", alias)
		}
		for _, other := range all {
			switch {
			case other.Name == alias && alias == o.Name:
				return fmt.Errorf("the alias %s is the name of the option itself", alias)
			case other.Name == alias:
				return fmt.Errorf("the alias %s is also the name of another option", alias)
			case other.Name != o.Name && slices.Contains(other.Aliases, alias):
				return fmt.Errorf("the alias %s is also an alias of %s", alias, other.Name)
			}
		}
	}
	return nil
}

// checkConditions checks the names and values in required_if, and converts the values.
func (o *Option) checkConditions(all []Option) error {
	conditions := slices.Clone(o.RequiredIf) // another dict may contain the same attr
	for i, c := range conditions {
		at := slices.IndexFunc(all, func(other Option) bool { return other.Name == c.Option })
		if at < 0 {
			return fmt.Errorf("required_if: there is no option %s%s", clipWord(c.Option),
				didYouMean(c.Option, optionNames(all)))
		}
		of := &attrValue{Attr: all[at].Attr}
		switch {
		case c.Option == o.Name:
			return errors.New("required_if: the option depends on itself")
		case of.isComposed() || of.Attr.Type == attrFile:
			return fmt.Errorf("required_if: %s is a %s, but must be a string, a bool or a number", c.Option,
				of.Attr.Type)
		}
		words := make([]string, len(c.Values))
		conditions[i].Values = make([]any, len(c.Values))
		for j, given := range c.Values {
			v, faults := of.givenValue(c.Option, given)
			if len(faults) > 0 {
				return fmt.Errorf("required_if: %s", faults[0])
			}
			conditions[i].Values[j], _ = plainValue(v, 0) // a string, a bool or an int64
			words[j] = of.writtenValue(conditions[i].Values[j])
		}
		conditions[i].Text = c.Option + " is " + strings.Join(words, " or ")
	}
	o.RequiredIf = conditions
	return nil
}
