package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Origin is where something was made: the innermost call first. Behind it are the steps
// by which it became what it is; each begins with a frame that has a Step.
type Origin []Frame

// A Frame is a place in a module and the function around it.
type Frame struct {
	File     string
	Line     int
	Function string
	// Step is what the calls from here on did; empty for those that made the thing.
	Step Step
}

// A Step is what was done with something after it was made.
type Step string

// The steps of an option.
const (
	// Changed says that properties of the option were changed there.
	Changed Step = "changed"
	// Replaced says that another one was made there, whose place the option has.
	Replaced Step = "replaced"
)

// maxChanges bounds the steps of an Origin; of more changes, the last is kept.
const maxChanges = 4

// String returns what leads to the place in a text.
func (s Step) String() string {
	switch s {
	case Changed:
		return "changed at"
	case Replaced:
		return "in place of the one made at"
	}
	return "made at"
}

// steps returns the origin in pieces: where it was made, and each step.
func (o Origin) steps() []Origin {
	var list []Origin
	from := 0
	for i := 1; i < len(o); i++ {
		if o[i].Step != "" {
			list, from = append(list, o[from:i]), i
		}
	}
	return append(list, o[from:])
}

// then returns o with a step behind it.
func (o Origin) then(step Step, at Origin) Origin {
	if len(at) == 0 {
		return o
	}
	o = append(slices.Clip(o), at...)
	o[len(o)-len(at)].Step = step
	return o
}

// Change returns the origin of something that was changed at a place. What is changed
// there again and again, in a loop, was changed there.
func (o Origin) Change(at Origin) Origin {
	list := o.steps()
	last := list[len(list)-1]
	before := o[:len(o)-len(last)]
	changed := before.then(Changed, at)
	if slices.Equal(changed, o) || len(list) > maxChanges {
		return changed
	}
	return o.then(Changed, at)
}

// Replace returns the origin of something that has the place of another one, of which
// it keeps where it was made first.
func (o Origin) Replace(other Origin) Origin {
	first := other
	for i, step := range other.steps() {
		if i == 0 || len(step) > 0 && step[0].Step == Replaced {
			first = step
		}
	}
	return o.then(Replaced, first)
}

// String returns the frame as "file:line function".
func (f Frame) String() string {
	return f.File + ":" + strconv.Itoa(f.Line) + " " + f.Function
}

// String returns all frames on one line, the innermost first, and then the steps:
// "a.star:5 disk < a.star:2 launch, changed at b.star:7 launch".
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

// MarshalText writes a frame as "file:line function", and behind it the step that it
// begins: "b.star:7 launch (changed)".
func (f Frame) MarshalText() ([]byte, error) {
	text := f.String()
	if f.Step != "" {
		text += " (" + string(f.Step) + ")"
	}
	return []byte(text), nil
}

// UnmarshalText reads what MarshalText writes. A file may have blanks and colons
// in its name, a function has none.
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
		return fmt.Errorf("%q is not a place, want file:line function", s)
	}
	line, err := strconv.Atoi(s[colon+1 : blank])
	if err != nil {
		return fmt.Errorf("%q is not a place, want file:line function", s)
	}
	*f = Frame{File: s[:colon], Line: line, Function: s[blank+1:], Step: step}
	return nil
}
