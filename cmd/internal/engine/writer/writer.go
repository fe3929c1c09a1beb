package writer

import (
	"context"
	"log/slog"
	"sync"

	"golang.org/x/sync/semaphore"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/metrics"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Writer is the one path from a decision to the log. Safe for concurrent use.
type Writer struct {
	Logger  *slog.Logger // nil is silent
	Metrics *metrics.Set // nil counts nothing
	// Notify, if not nil, is called after a commit. It must not block.
	Notify func(tenant, agent string, n api.Notification)
	// OnClosed is called with a session that refuses a change because it is closed
	// or reset, before Mutate returns that refusal.
	OnClosed func(context.Context, *ledger.Session) error

	// DueReset returns the draft of the event that resets a session, nil if no reset is
	// due. Mutate stores it before it decides on a change.
	DueReset func(context.Context, *ledger.Session) (*Draft, error)

	content *content.Store
	reader  *reader.Reader
	page    *page.Limits

	mu     sync.Mutex
	chains map[string]*Chain // by subject pattern; guarded by mu

	copies *semaphore.Weighted // see HoldCopy
}

// New returns a writer to the log of r.
func New(logger *slog.Logger, m *metrics.Set, notify func(tenant, agent string, n api.Notification), cs *content.Store, r *reader.Reader, limits *page.Limits) *Writer {
	return &Writer{Logger: logger, Metrics: m, Notify: notify, content: cs, reader: r, page: limits, copies: semaphore.NewWeighted(allCopies)}
}

// Announce notifies the agent's subscribers. at is the position of the event that
// the notification is about; "" means the position that the projections have
// applied.
func (wr *Writer) Announce(c reader.Caller, session turns.ID, kind string, turn turns.ID, at string, detail map[string]any) {
	if wr.Notify == nil {
		return
	}
	if at == "" {
		at = page.FormatPosition(wr.reader.Projections.Applied().Seq)
	}
	n := api.Notification{Kind: kind, Session: session, Turn: turn, Position: at}
	if detail != nil {
		if b, err := turns.EncodeJSON(detail); err == nil {
			n.Detail = b
		}
	}
	wr.Notify(c.Tenant, c.Agent, n)
}
