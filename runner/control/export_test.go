package control

// Waiting returns the number of clients that wait for a screenshot not yet started.
func (s *Server) Waiting() int {
	s.shots.mu.Lock()
	defer s.shots.mu.Unlock()
	if s.shots.next == nil {
		return 0
	}
	return s.shots.next.holders
}
