package forks

import (
	"nexus/cmd/nexusd/daemon/engine/compactions"
	"nexus/cmd/nexusd/daemon/engine/content"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/cmd/nexusd/daemon/engine/sessions"
	"nexus/cmd/nexusd/daemon/engine/writer"
)

// Forks opens sessions that begin at a turn of another. Safe for concurrent use.
type Forks struct {
	content     *content.Store
	reader      *reader.Reader
	writer      *writer.Writer
	compactions *compactions.Compactions
	sessions    *sessions.Sessions
}

// New returns the forks of the sessions of ss.
func New(cs *content.Store, r *reader.Reader, w *writer.Writer, cm *compactions.Compactions, ss *sessions.Sessions) *Forks {
	return &Forks{content: cs, reader: r, writer: w, compactions: cm, sessions: ss}
}
