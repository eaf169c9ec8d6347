package changes

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"vmop/runner/status"
	"vmop/vmspec"
)

// Pending returns the changes that await a restart, in the order of the
// configuration: what of wanted the machine that was started as running has
// not, and can't take over. live tells of a path whether a change there is made
// while the machine runs; see Live.
//
// A value that differs is listed if changing it alone changes the plan. If it
// can't be changed alone, because that were no valid machine, those that it
// depends on are changed with it, and it is listed if it makes a difference to
// them. Values that only matter together are listed together. If the changes
// together change nothing but what is live, none is listed; so the list is
// empty if and only if a restart changes nothing. The arguments are those of QEMU that
// differ between the machine with all that is live, and the one after a restart.
//
// It is an error if one of the two machines can't be launched. The time is
// about that of one launch for each difference.
func Pending(ctx context.Context, launch Launch, running, wanted Machine,
	live func(path string) bool,
) (none status.Pending, err error) {
	s := &search{ctx: ctx, launch: launch, running: running, wanted: wanted, live: set{}}
	s.all = Differences(running, wanted)
	if len(s.all) == 0 {
		return none, nil
	}
	for _, d := range s.all {
		if live(d.Path) {
			s.live[d.Path] = true
		}
	}
	if s.before, err = s.start(running); err != nil {
		return none, fmt.Errorf("plan of what is running: %w", err)
	}
	if s.after, err = s.start(wanted); err != nil {
		return none, fmt.Errorf("plan of what is configured: %w", err)
	}
	now, _, ok := s.try(s.live)
	if !ok {
		now = s.before
	} else if now == s.after {
		return none, ctx.Err()
	}
	listed := set{}
	for _, d := range s.all {
		if !s.live[d.Path] && s.matters(d.Path) {
			listed[d.Path] = true
		}
	}
	s.complete(listed)
	if err := ctx.Err(); err != nil {
		return none, err
	}
	pending := status.Pending{Arguments: argumentChanges(now, s.after)}
	for _, d := range s.all {
		if listed[d.Path] {
			pending.Changes = append(pending.Changes, d)
		}
	}
	return pending, nil
}

// Differences returns all values that two machines differ in, in the order of the
// configuration, whether they matter or not.
func Differences(running, wanted Machine) []status.Change {
	return differences("", reflect.ValueOf(running), reflect.ValueOf(wanted))
}

// search is one call of Pending.
type search struct {
	ctx             context.Context
	launch          Launch
	running, wanted Machine
	all             []status.Change
	live            set
	before, after   string // the effects of the two machines
}

// start returns the effect of starting a machine.
func (s *search) start(m Machine) (string, error) {
	if err := s.ctx.Err(); err != nil {
		return "", err
	}
	p, err := s.launch(s.ctx, m)
	if err != nil {
		return "", err
	}
	return effect(p, m), nil
}

// try returns the effect of the running machine with some changes, and false
// if that is no valid machine. The faults of its vm section say why, if these
// are the reason.
func (s *search) try(taken set) (string, []vmspec.Fault, bool) {
	m := mixed(s.running, s.wanted, taken)
	if faults := m.VM.Check(); len(faults) > 0 {
		return "", faults, false
	}
	result, err := s.start(m)
	return result, nil, err == nil
}

// matters reports whether the change at a path makes a difference.
func (s *search) matters(path string) bool {
	alone, faults, ok := s.try(setOf(path))
	if ok {
		return alone != s.before
	}
	needs, with, ok := s.needs(path, faults)
	if !ok {
		return true // there is no more time to find out
	}
	if without, _, ok := s.try(needs); ok {
		return with != without
	}
	// They depend on each other. What is live is not to blame.
	if without, _, ok := s.try(s.live.common(needs)); ok {
		return with != without
	}
	return with != s.before
}

// needs returns changes that make a machine valid together with that at a path,
// and the effect of all of them: those that the faults name; if that is not
// enough, those of the same item or section; else all.
func (s *search) needs(path string, faults []vmspec.Fault) (needs set, with string, ok bool) {
	needs = set{}
	for len(faults) > 0 {
		before := len(needs)
		needs = needs.union(nil, s.named(faults)...)
		if len(needs) == before {
			break
		}
		if with, faults, ok = s.try(needs.union(nil, path)); ok {
			delete(needs, path)
			return needs, with, true
		}
	}
	for _, root := range []string{itemOf(path), section(path), ""} {
		needs = needs.union(nil, s.within(root)...)
		if with, _, ok = s.try(needs.union(nil, path)); ok {
			delete(needs, path)
			return needs, with, true
		}
	}
	return needs, "", false
}

// named returns the paths of the changes that faults name.
func (s *search) named(faults []vmspec.Fault) (paths []string) {
	for _, d := range s.all {
		for _, f := range faults {
			for _, place := range append([]string{f.Path}, f.Also...) {
				if isWithin(d.Path, place) || isWithin(place, d.Path) {
					paths = append(paths, d.Path)
				}
			}
		}
	}
	return paths
}

// within returns the paths of the changes below a path.
func (s *search) within(root string) (paths []string) {
	for _, d := range s.all {
		if isWithin(d.Path, root) {
			paths = append(paths, d.Path)
		}
	}
	return paths
}

// itemOf returns the item of a list that a path is in, "vm.network[0]" of
// "vm.network[0].ports[1].host", or else the path.
func itemOf(path string) string {
	if end := strings.IndexByte(path, ']'); end >= 0 {
		return path[:end+1]
	}
	return path
}

// section returns the first key of the vm section, or of the configuration,
// that a path is in: "vm.network" of "vm.network[0].mac".
func section(path string) string {
	rest := strings.TrimPrefix(path, "vm.")
	return path[:len(path)-len(rest)+strings.IndexAny(rest+".", ".[")]
}

// isWithin reports whether a path is the same as another or part of it. All are
// part of "".
func isWithin(path, other string) bool {
	rest, same := strings.CutPrefix(path, other)
	return same && (rest == "" || other == "" || rest[0] == '.' || rest[0] == '[')
}
