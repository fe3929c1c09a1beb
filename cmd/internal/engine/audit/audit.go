package audit

import (
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/tlog"
)

// Audit verifies the ledger from its bytes. Safe for concurrent use. Its owner calls
// Close.
type Audit struct {
	content *content.Store
	page    *page.Limits
	paths   *paths.Loader
	reader  *reader.Reader
	running runningVerifications
	paged   pagedVerifications
	// Signed returns the newest checkpoint that the ledger signed; false: there is none. nil: nothing is signed.
	Signed func() (tlog.Checkpoint, bool)
	// Inconsistent says why nothing is signed any more, nil if it is. nil: as if it were.
	Inconsistent func() error
	// Damaged is called where a verification meets a damaged record of the log; not nil.
	Damaged func()
}

// New returns the audit of what r reads.
func New(cs *content.Store, limits *page.Limits, pl *paths.Loader, r *reader.Reader) *Audit {
	return &Audit{content: cs, page: limits, paths: pl, reader: r, Damaged: func() {}}
}
