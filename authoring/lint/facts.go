package lint

import "maps"

// A sectionSet is a set of paths of optional sections.
type sectionSet map[string]bool

// unite returns the union of sets.
func unite(sets ...sectionSet) sectionSet {
	all := sectionSet{}
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}

// intersect returns what two sets have in common.
func intersect(a, b sectionSet) sectionSet {
	both := sectionSet{}
	for path := range a {
		if b[path] {
			both[path] = true
		}
	}
	return both
}

// without returns the elements of a set that other sets do not have.
func without(a sectionSet, others ...sectionSet) sectionSet {
	rest := maps.Clone(a)
	for _, other := range others {
		maps.DeleteFunc(rest, func(path string, _ bool) bool { return other[path] })
	}
	return rest
}

// facts are known at a place of a function.
type facts struct {
	// paths are the paths of the fields that variables have.
	paths map[string]string
	// hints are the sections that the value of a variable depends on.
	hints map[string]sectionSet
	// tested are the sections that exist at this place. doubtful are the sections that may have been tested.
	tested, doubtful sectionSet
	// guarded are the sections that an earlier fail() may require: it runs if they are absent. Unlike the others, they
	// remain after branches and calls.
	guarded sectionSet
	// over means that the place is never reached, and failed that only fail() leads to this.
	over, failed bool
}

// clone returns a copy with its own variables.
func (s facts) cloneFacts() facts {
	s.paths, s.hints = maps.Clone(s.paths), maps.Clone(s.hints)
	if s.paths == nil {
		s.paths = map[string]string{}
	}
	if s.hints == nil {
		s.hints = map[string]sectionSet{}
	}
	return s
}

// isQuiet reports whether a section needs no test at this place.
func (s facts) isQuiet(path string) bool {
	return s.tested[path] || s.doubtful[path] || s.guarded[path]
}

// when returns what holds in a branch of a condition if some sections exist there.
func (s facts) when(tested, doubtful sectionSet) facts {
	s.tested, s.doubtful = unite(s.tested, tested), unite(s.doubtful, doubtful)
	return s
}

// joinBranches returns what holds after the two branches of a condition.
func (s facts) joinBranches(o outcomes, yes, no facts) facts {
	switch {
	case yes.over && no.over:
		yes.failed = yes.failed && no.failed
		return yes
	case yes.over:
		return s.afterEnd(o, yes, no)
	case no.over:
		return s.afterEnd(o, no, yes)
	}
	joined := yes.joinWith(no)
	// A test within a branch can belong to a later branch with the same condition; the condition itself cannot.
	inBranches := unite(yes.tested, yes.doubtful, no.tested, no.doubtful)
	joined.doubtful = unite(s.doubtful, without(inBranches, joined.tested, o.yes, o.no, o.doubtful))
	return joined
}

// afterEnd returns what holds after two branches of a condition if one branch ends the function. The other conditions
// of the end may apply to a later place as well.
func (s facts) afterEnd(o outcomes, ended, other facts) facts {
	other.doubtful = unite(other.doubtful, o.partial)
	if ended.failed {
		other.guarded = unite(other.guarded, without(unite(other.tested, other.doubtful), s.tested, s.doubtful))
	}
	return other
}

// joinWith returns what holds at a place that is reached in two ways.
func (s facts) joinWith(other facts) facts {
	switch {
	case s.over:
		return other
	case other.over:
		return s
	}
	joined := facts{
		paths: map[string]string{}, hints: map[string]sectionSet{},
		tested: intersect(s.tested, other.tested), guarded: unite(s.guarded, other.guarded),
		doubtful: intersect(unite(s.tested, s.doubtful), unite(other.tested, other.doubtful)),
	}
	for name, path := range s.paths {
		if other.paths[name] == path {
			joined.paths[name] = path
		}
	}
	for _, side := range []facts{s, other} {
		for name, sections := range side.hints {
			joined.hints[name] = unite(joined.hints[name], sections)
		}
	}
	return joined
}
