package revision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"vmop/authoring/compare"
	"vmop/authoring/sample"
	"vmop/vmtypes"
)

// A Comparison contains the changes from one version to another.
type Comparison struct {
	// Results contains each sample VM, in order, including VMs without changes.
	Results []compare.Result
	// Nowhere contains the VMs that fail with the same reason in both versions.
	Nowhere []Failure
	// Gone are types that only the old version has. New are types that only the new version has.
	Gone, New []string
}

// A Failure is a VM without a plan.
type Failure struct {
	VM     string `json:"vm"`
	Reason string `json:"reason"`
}

// Different reports whether there are any changes.
func (c *Comparison) Different() bool {
	return len(c.Gone)+len(c.New) > 0 ||
		slices.ContainsFunc(c.Results, func(r compare.Result) bool { return len(r.Changes) > 0 })
}

// Compare computes the plans of samples in two versions. Without samples, it uses the samples next to the newer types,
// otherwise the samples next to the older types. For types without samples it uses [sample.Usual].
func Compare(ctx context.Context, before, after *Revision, samples []*sample.Sample) (*Comparison, error) {
	c := &Comparison{}
	if before.Single == "" && after.Single == "" {
		c.Gone, c.New = missingFrom(before.Types(), after.Types()), missingFrom(after.Types(), before.Types())
	}
	tries, err := trySamples(before, after, samples)
	if err != nil {
		return nil, err
	}
	for _, t := range tries {
		if slices.Contains(c.Gone, t.before) || slices.Contains(c.New, t.after) {
			continue
		}
		p, fault := before.Plan(ctx, t.before, t.sample)
		q, newFault := after.Plan(ctx, t.after, t.sample)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if fault != nil && newFault != nil && reasonOf(fault) == reasonOf(newFault) {
			c.Nowhere = append(c.Nowhere, Failure{t.name, reasonOf(fault)})
			continue
		}
		changes := compare.Outcomes(p, reasonOf(fault), q, reasonOf(newFault))
		if newFault != nil {
			changes[0].Place = placeOfReason(newFault)
		}
		c.Results = append(c.Results, compare.Result{VM: t.name, Changes: changes})
	}
	return c, nil
}

// A try is a sample with its type in each of the two versions.
type try struct {
	name          string
	before, after string
	sample        *sample.Sample
}

func trySamples(before, after *Revision, samples []*sample.Sample) ([]try, error) {
	given := len(samples) > 0
	for _, r := range []*Revision{after, before} {
		if len(samples) == 0 {
			var err error
			if samples, err = r.Samples(); err != nil {
				return nil, err
			}
		}
	}
	types := missingFrom(before.Types(), after.Types())
	types = append(types, after.Types()...)
	if before.Single != "" || after.Single != "" {
		types = []string{firstNonEmpty(before.Single, after.Single), firstNonEmpty(after.Single, before.Single)}
	}
	var list []try
	for _, s := range samples {
		if given || slices.Contains(types, s.Type) {
			list = append(list, try{
				s.Name(), firstNonEmpty(before.Single, after.Single, s.Type),
				firstNonEmpty(after.Single, before.Single, s.Type), s,
			})
		}
	}
	if given {
		return list, nil
	}
	return withUsual(list, before, after, types)
}

// withUsual adds the usual VMs for types without samples.
func withUsual(list []try, before, after *Revision, types []string) ([]try, error) {
	if before.Single != "" || after.Single != "" {
		if len(list) > 0 {
			return list, nil
		}
		types = types[1:]
	}
	for _, name := range types {
		if slices.ContainsFunc(list, func(t try) bool { return t.sample.Type == name }) {
			continue
		}
		usual, err := sample.Usual(name)
		if err != nil {
			return nil, err
		}
		for _, s := range usual {
			called := s.Name()
			if len(types) > 1 {
				called = name + " " + called
			}
			list = append(list, try{
				called, firstNonEmpty(before.Single, after.Single, name),
				firstNonEmpty(after.Single, before.Single, name), s,
			})
		}
	}
	return list, nil
}

// reasonOf returns the reason why there is no plan, without the place, which differs between versions. It returns "" if
// err is nil.
func reasonOf(err error) string {
	var one *vmtypes.Error
	var several vmtypes.Errors
	var faults *vmtypes.FaultsError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &several):
		var list []string
		for _, e := range several {
			list = append(list, e.Message)
		}
		return strings.Join(list, "; ")
	case errors.As(err, &faults):
		var list []string
		for _, f := range faults.Faults {
			list = append(list, f.Message)
		}
		return strings.Join(list, "; ")
	case errors.As(err, &one):
		return one.Message
	}
	return err.Error()
}

// placeOfReason returns the place of an error, or "".
func placeOfReason(err error) string {
	var one *vmtypes.Error
	var several vmtypes.Errors
	switch {
	case errors.As(err, &several):
		one = several[0]
	case !errors.As(err, &one):
		return ""
	}
	if one.Line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", one.File, one.Line)
}

// firstNonEmpty returns the first text that is not empty.
func firstNonEmpty(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// missingFrom returns the texts of list that are missing in other.
func missingFrom(list, other []string) []string {
	var rest []string
	for _, text := range list {
		if !slices.Contains(other, text) {
			rest = append(rest, text)
		}
	}
	return rest
}
