package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Origin is the chain of calls that created something, innermost first. Later changes follow as steps. In the first
// frame of a step, Step is set.
type Origin []Frame

// A Frame is a place in a module, and the function around it.
type Frame struct {
	File     string
	Line     int
	Function string
	// Step describes the calls that begin with this frame; empty for the calls that created the thing.
	Step Step
}

// A Step is the kind of a later change.
type Step string

// The steps of an option.
const (
	// Changed means that a call changed properties of the option.
	Changed Step = "changed"
	// Replaced means that the option replaced another option. The calls of this step created the other option.
	Replaced Step = "replaced"
)

// maxChanges is the maximum number of changes in an Origin. A further change replaces the last change.
const maxChanges = 4

// String returns the words before the place in a text.
func (s Step) String() string {
	switch s {
	case Changed:
		return "changed at"
	case Replaced:
		return "in place of the one made at"
	}
	return "made at"
}

// splitSteps splits the origin into the creation and each step.
func (o Origin) splitSteps() []Origin {
	var list []Origin
	from := 0
	for i := 1; i < len(o); i++ {
		if o[i].Step != "" {
			list, from = append(list, o[from:i]), i
		}
	}
	return append(list, o[from:])
}

// withStep returns o with an additional step.
func (o Origin) withStep(step Step, at Origin) Origin {
	if len(at) == 0 {
		return o
	}
	o = append(slices.Clip(o), at...)
	o[len(o)-len(at)].Step = step
	return o
}

// Change returns the origin of something after a change at a place. Repeated changes at the same place, in a
// loop, count once.
func (o Origin) Change(at Origin) Origin {
	list := o.splitSteps()
	last := list[len(list)-1]
	before := o[:len(o)-len(last)]
	changed := before.withStep(Changed, at)
	if slices.Equal(changed, o) || len(list) > maxChanges {
		return changed
	}
	return o.withStep(Changed, at)
}

// Replace returns the origin of something that replaces another thing. From the other thing, it keeps only the
// creation of the original.
func (o Origin) Replace(other Origin) Origin {
	first := other
	for i, step := range other.splitSteps() {
		if i == 0 || len(step) > 0 && step[0].Step == Replaced {
			first = step
		}
	}
	return o.withStep(Replaced, first)
}

// String returns the frame as "file:line function".
func (f Frame) String() string {
	return f.File + ":" + strconv.Itoa(f.Line) + " " + f.Function
}

// String returns all frames on one line, innermost first, followed by the steps: "a.star:5 disk < a.star:2
// launch, changed at b.star:7 launch".
func (o Origin) String() string {
	var b strings.Builder
	for i, f := range o {
		switch {
		case i > 0 && f.Step != "":
			b.WriteString(", " + f.Step.String() + " ")
		case i > 0:
			b.WriteString(" < ")
		}
		b.WriteString(f.String())
	}
	return b.String()
}

// MarshalText writes a frame as "file:line function". The step that it begins follows: "b.star:7 launch
// (changed)".
func (f Frame) MarshalText() ([]byte, error) {
	text := f.String()
	if f.Step != "" {
		text += " (" + string(f.Step) + ")"
	}
	return []byte(text), nil
}

// UnmarshalText reads the format of MarshalText. The name of a file may contain blanks and colons; the name of a
// function contains neither.
func (f *Frame) UnmarshalText(text []byte) error {
	s, step := string(text), Step("")
	for _, known := range []Step{Changed, Replaced} {
		if before, ok := strings.CutSuffix(s, " ("+string(known)+")"); ok {
			s, step = before, known
		}
	}
	blank := strings.LastIndexByte(s, ' ')
	colon := strings.LastIndexByte(s[:max(blank, 0)], ':')
	if colon < 0 {
		return fmt.Errorf("%q is not a place; the form is file:line function", s)
	}
	line, err := strconv.Atoi(s[colon+1 : blank])
	if err != nil {
		return fmt.Errorf("%q is not a place; the form is file:line function", s)
	}
	*f = Frame{File: s[:colon], Line: line, Function: s[blank+1:], Step: step}
	return nil
}
