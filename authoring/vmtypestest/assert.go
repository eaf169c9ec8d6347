package vmtypestest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/internal/spelling"
)

// assertMembers returns the members of assert. Each of them records a failure and continues. Its argument message is a
// prefix of the failure, to distinguish cases.
func assertMembers() starlark.StringDict {
	return starlark.StringDict{
		"eq":           starlark.NewBuiltin("assert.eq", assertEq),
		"ne":           starlark.NewBuiltin("assert.ne", assertNe),
		"true":         starlark.NewBuiltin("assert.true", assertTrue),
		"contains":     starlark.NewBuiltin("assert.contains", assertContains),
		"not_contains": starlark.NewBuiltin("assert.not_contains", assertNotContains),
		"matches":      starlark.NewBuiltin("assert.matches", assertMatches),
		"fails":        starlark.NewBuiltin("assert.fails", assertFails),
	}
}

// recordFailure records a failure at the current place of the thread.
func recordFailure(thread *starlark.Thread, message, format string, args ...any) (starlark.Value, error) {
	return failDiff(thread, message, "", format, args...)
}

// failDiff records a failure with a difference.
func failDiff(thread *starlark.Thread, message, diff, format string, args ...any) (starlark.Value, error) {
	r, err := recorderOf(thread)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(format, args...)
	if message != "" {
		text = message + ": " + text
	}
	f := failureOf(r.script.At(thread, text))
	f.Diff = diff
	r.addFailure(f)
	return starlark.None, nil
}

func assertEq(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var got, want starlark.Value
	var message string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "got", &got, "want", &want, "message?",
		&message); err != nil {
		return nil, err
	}
	equal, err := starlark.Equal(got, want)
	if err != nil {
		return nil, err
	}
	if equal {
		return starlark.None, nil
	}
	gotText, wantText := got.String(), want.String()
	if gotText == wantText { // a list and a tuple of one, say, don't look alike, but structs may
		return recordFailure(thread, message, "got a %s instead of a %s; both look like %s", got.Type(), want.Type(),
			clipText(gotText))
	}
	if len(gotText)+len(wantText) <= oneLine {
		return recordFailure(thread, message, "got %s, want %s", gotText, wantText)
	}
	return failDiff(thread, message, differenceOf(want, got), "they differ (- want, + got)")
}

// oneLine is the maximum length of values that are shown on one line.
const oneLine = 60

func assertNe(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var one, other starlark.Value
	var message string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "one", &one, "other", &other, "message?",
		&message); err != nil {
		return nil, err
	}
	equal, err := starlark.Equal(one, other)
	if err != nil {
		return nil, err
	}
	if !equal {
		return starlark.None, nil
	}
	return recordFailure(thread, message, "both are %s", clipText(one.String()))
}

func assertTrue(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var condition starlark.Value
	var message string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "condition", &condition, "message?", &message); err != nil {
		return nil, err
	}
	switch {
	case bool(condition.Truth()):
		return starlark.None, nil
	case message != "":
		return recordFailure(thread, "", "%s", message)
	}
	return recordFailure(thread, "", "got %s, which is not true", condition)
}

func assertContains(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var whole, element starlark.Value
	var message string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "whole", &whole, "element", &element, "message?",
		&message); err != nil {
		return nil, err
	}
	found, err := starlark.Binary(syntax.IN, element, whole)
	if err != nil {
		return nil, err
	}
	if found.Truth() {
		return starlark.None, nil
	}
	if text := whole.String(); len(text) <= oneLine {
		return recordFailure(thread, message, "%s is not in %s%s", element, text, nearestString(element, whole))
	}
	return failDiff(thread, message, showElements(whole), "%s is not an element%s", element,
		nearestString(element, whole))
}

func assertNotContains(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var whole, element starlark.Value
	var message string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "whole", &whole, "element", &element, "message?",
		&message); err != nil {
		return nil, err
	}
	found, err := starlark.Binary(syntax.IN, element, whole)
	if err != nil {
		return nil, err
	}
	if !found.Truth() {
		return starlark.None, nil
	}
	return recordFailure(thread, message, "%s is in it", element)
}

// nearestString returns a suggestion from a list of strings.
func nearestString(element, whole starlark.Value) string {
	word, ok := starlark.AsString(element)
	list, iterable := whole.(starlark.Iterable)
	if !ok || !iterable {
		return ""
	}
	var words []string
	for v := range starlark.Elements(list) {
		if s, ok := starlark.AsString(v); ok {
			words = append(words, s)
		}
	}
	if near := spelling.Nearest(word, words); near != "" {
		return "; did you mean " + strconv.Quote(near) + "?"
	}
	return ""
}

// assertMatches implements assert.matches(text, pattern): a regular expression must match a text, or one text of a
// list.
func assertMatches(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var whole starlark.Value
	var pattern, message string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "text", &whole, "pattern", &pattern, "message?",
		&message); err != nil {
		return nil, err
	}
	want, err := compilePattern(b, pattern)
	if err != nil {
		return nil, err
	}
	if text, ok := starlark.AsString(whole); ok {
		if want.MatchString(text) {
			return starlark.None, nil
		}
		return recordFailure(thread, message, "%s doesn't match %s", clipText(whole.String()), strconv.Quote(pattern))
	}
	list, ok := whole.(starlark.Iterable)
	if !ok {
		return nil, fmt.Errorf("%s: must be a string or a list of strings, not a %s", b.Name(), whole.Type())
	}
	for v := range starlark.Elements(list) {
		if text, ok := starlark.AsString(v); ok && want.MatchString(text) {
			return starlark.None, nil
		}
	}
	if text := whole.String(); len(text) <= oneLine {
		return recordFailure(thread, message, "none of %s matches %s", text, strconv.Quote(pattern))
	}
	return failDiff(thread, message, showElements(whole), "none of these matches %s", strconv.Quote(pattern))
}

func compilePattern(b *starlark.Builtin, pattern string) (*regexp.Regexp, error) {
	want, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %q is not a regular expression: %w", b.Name(), pattern, err)
	}
	return want, nil
}

func assertFails(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var fn starlark.Callable
	var pattern, message string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "function", &fn, "pattern", &pattern, "message?",
		&message); err != nil {
		return nil, err
	}
	want, err := compilePattern(b, pattern)
	if err != nil {
		return nil, err
	}
	_, err = starlark.Call(thread, fn, nil, nil)
	if err == nil {
		return recordFailure(thread, message, "there was no failure; expected a failure with a message that matches %s",
			strconv.Quote(pattern))
	}
	if msg := strings.TrimPrefix(err.Error(), "fail: "); !want.MatchString(msg) {
		return recordFailure(thread, message, "it failed with\n    %s\nexpected a message that matches %s",
			strings.ReplaceAll(clipText(msg), "\n", "\n    "), strconv.Quote(pattern))
	}
	return starlark.None, nil
}
