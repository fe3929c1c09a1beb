package embed

// SyncsAlways reports whether the running streams sync a write before its acknowledgement.
func (s *Server) SyncsAlways() bool {
	c := s.srv.JetStreamConfig()
	return c != nil && c.SyncAlways
}

// Of the handshake.
const (
	MaxHandshakes = maxHandshakes
	TLSRequired   = tlsRequired
)
