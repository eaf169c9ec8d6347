package changes

// complete adds changes that only matter together with others, until those
// listed and those that are live come to all that wanted is. This is rare: a VM
// type that looks at two values at once does it.
func (s *search) complete(listed set) {
	if s.explained(listed) {
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
		if without, _, ok := s.try(all.minus(d.Path)); ok && without != s.after {
			listed[d.Path] = true
		}
	}
	if !s.explained(listed) {
		s.follow(listed)
	}
}

// explained reports whether those listed and those that are live come to all that
// wanted is.
func (s *search) explained(listed set) bool {
	reached, _, ok := s.try(s.live.union(listed))
	return ok && reached == s.after
}

// follow makes one change after the other, and lists each that makes a
// difference to those before it.
func (s *search) follow(listed set) {
	taken := s.live.union(listed)
	now, _, known := s.try(taken)
	var group []string // made since the machine was valid last
	for _, d := range s.all {
		if taken[d.Path] {
			continue
		}
		taken[d.Path] = true
		group = append(group, d.Path)
		next, _, ok := s.try(taken)
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
