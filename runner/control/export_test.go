package control

// Waiting is how many clients wait for a screenshot that is yet to be begun.
func (s *Server) Waiting() int {
	s.shots.mu.Lock()
	defer s.shots.mu.Unlock()
	if s.shots.next == nil {
		return 0
	}
	return s.shots.next.holders
}
