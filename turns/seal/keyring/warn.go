package keyring

// reportWarnings reports what was mended to Warn.
func (s *Store) reportWarnings() {
	if s.Warn == nil {
		return
	}
	s.mu.Lock()
	warnings := s.warnings
	s.warnings = nil
	s.mu.Unlock()
	for _, err := range warnings {
		s.Warn(err)
	}
}

func (s *Store) warn(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, err)
}
