package changes

// completeSet adds changes that only matter in combination, until the listed and the live changes together have the
// effect of wanted. This is rare; it happens with VM types that evaluate two values together.
func (s *search) completeSet(listed set) {
	if s.isExplained(listed) {
		return
	}
	all := set{}
	for _, d := range s.all {
		all[d.Path] = true
	}
	for _, d := range s.all {
		if s.live[d.Path] || listed[d.Path] {
			continue
		}
		if without, _, ok := s.tryChanges(all.withoutPath(d.Path)); ok && without != s.after {
			listed[d.Path] = true
		}
	}
	if !s.isExplained(listed) {
		s.followChanges(listed)
	}
}

// isExplained reports whether the listed and the live changes together have the effect of wanted.
func (s *search) isExplained(listed set) bool {
	reached, _, ok := s.tryChanges(s.live.unionWith(listed))
	return ok && reached == s.after
}

// followChanges applies the changes one after the other, and lists each that makes a difference to the changes before
// it.
func (s *search) followChanges(listed set) {
	taken := s.live.unionWith(listed)
	now, _, known := s.tryChanges(taken)
	var group []string // applied since the machine was last valid
	for _, d := range s.all {
		if taken[d.Path] {
			continue
		}
		taken[d.Path] = true
		group = append(group, d.Path)
		next, _, ok := s.tryChanges(taken)
		if !ok {
			continue
		}
		if known && next != now {
			for _, path := range group {
				listed[path] = true
			}
		}
		now, known, group = next, true, nil
		if now == s.after {
			return
		}
	}
}
