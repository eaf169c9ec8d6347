package changes

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"vmop/runner/status"
	"vmop/vmspec"
)

// Pending returns the changes that need a restart, in the order of the configuration. These are the differences
// between running, as the machine was started, and wanted, except the changes that the machine can apply while it
// runs. live reports whether a change at a path takes effect while the machine runs; see Live.
//
// A value that differs is listed if changing it alone changes the plan. If changing it alone results in an
// invalid machine, the values that it depends on are changed with it, and it is listed if it makes a difference
// to them. Values that only matter together are listed together. If all changes together have no effect beyond
// the live changes, the list is empty. Therefore the list is empty if and only if a restart has no effect. The
// returned arguments are QEMU's arguments that differ between the machine with all live changes and the machine
// after a restart.
//
// Pending returns an error if one of the two machines can't be launched. It takes about the time of one launch
// for each difference.
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
	if s.before, err = s.effectOfStart(running); err != nil {
		return none, fmt.Errorf("plan of what is running: %w", err)
	}
	if s.after, err = s.effectOfStart(wanted); err != nil {
		return none, fmt.Errorf("plan of what is configured: %w", err)
	}
	now, _, ok := s.tryChanges(s.live)
	if !ok {
		now = s.before
	} else if now == s.after {
		return none, ctx.Err()
	}
	listed := set{}
	for _, d := range s.all {
		if !s.live[d.Path] && s.makesDifference(d.Path) {
			listed[d.Path] = true
		}
	}
	s.completeSet(listed)
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

// Differences returns all values that differ between two machines, in the order of the configuration, whether
// they matter or not.
func Differences(running, wanted Machine) []status.Change {
	return differencesBelow("", reflect.ValueOf(running), reflect.ValueOf(wanted))
}

// search is the state of one call of Pending.
type search struct {
	ctx             context.Context
	launch          Launch
	running, wanted Machine
	all             []status.Change
	live            set
	before, after   string // the effects of the two machines
}

// effectOfStart returns the effect of starting a machine.
func (s *search) effectOfStart(m Machine) (string, error) {
	if err := s.ctx.Err(); err != nil {
		return "", err
	}
	p, err := s.launch(s.ctx, m)
	if err != nil {
		return "", err
	}
	return startEffect(p, m), nil
}

// tryChanges returns the effect of the running machine with some changes, and false if the result is not a valid
// machine. If the vm section is invalid, its errors are returned.
func (s *search) tryChanges(taken set) (string, []vmspec.Fault, bool) {
	m := mixMachines(s.running, s.wanted, taken)
	if faults := m.VM.Check(); len(faults) > 0 {
		return "", faults, false
	}
	result, err := s.effectOfStart(m)
	return result, nil, err == nil
}

// makesDifference reports whether the change at a path makes a difference.
func (s *search) makesDifference(path string) bool {
	alone, faults, ok := s.tryChanges(setOf(path))
	if ok {
		return alone != s.before
	}
	needs, with, ok := s.neededWith(path, faults)
	if !ok {
		return true // there is no more time to find out
	}
	if without, _, ok := s.tryChanges(needs); ok {
		return with != without
	}
	// They depend on each other. The live changes can be applied anyway.
	if without, _, ok := s.tryChanges(s.live.commonWith(needs)); ok {
		return with != without
	}
	return with != s.before
}

// neededWith returns changes that make a machine valid together with the change at path, and their combined effect. It
// tries the changes that the errors name, then the changes in the same item or section, and finally all changes.
func (s *search) neededWith(path string, faults []vmspec.Fault) (needs set, with string, ok bool) {
	needs = set{}
	for len(faults) > 0 {
		before := len(needs)
		needs = needs.unionWith(nil, s.namedPaths(faults)...)
		if len(needs) == before {
			break
		}
		if with, faults, ok = s.tryChanges(needs.unionWith(nil, path)); ok {
			delete(needs, path)
			return needs, with, true
		}
	}
	for _, root := range []string{itemOf(path), sectionKey(path), ""} {
		needs = needs.unionWith(nil, s.pathsBelow(root)...)
		if with, _, ok = s.tryChanges(needs.unionWith(nil, path)); ok {
			delete(needs, path)
			return needs, with, true
		}
	}
	return needs, "", false
}

// namedPaths returns the paths of the changes that the errors name.
func (s *search) namedPaths(faults []vmspec.Fault) (paths []string) {
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

// pathsBelow returns the paths of the changes below a path.
func (s *search) pathsBelow(root string) (paths []string) {
	for _, d := range s.all {
		if isWithin(d.Path, root) {
			paths = append(paths, d.Path)
		}
	}
	return paths
}

// itemOf returns the list item that contains a path, such as "vm.network[0]" for "vm.network[0].ports[1].host".
// Without a list item it returns the path.
func itemOf(path string) string {
	if end := strings.IndexByte(path, ']'); end >= 0 {
		return path[:end+1]
	}
	return path
}

// sectionKey returns the first key of the vm section, or of the configuration, that contains a path: "vm.network"
// for "vm.network[0].mac".
func sectionKey(path string) string {
	rest := strings.TrimPrefix(path, "vm.")
	return path[:len(path)-len(rest)+strings.IndexAny(rest+".", ".[")]
}

// isWithin reports whether a path is equal to another path or below it. All paths are below "".
func isWithin(path, other string) bool {
	rest, same := strings.CutPrefix(path, other)
	return same && (rest == "" || other == "" || rest[0] == '.' || rest[0] == '[')
}
