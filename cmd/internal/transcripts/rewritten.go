package transcripts

import (
	"context"
	"errors"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// isFirst reports whether a compaction, which its transcript begins with, was refused because
// its session holds nothing that it replaced, or because it was stored as a turn for that.
func (im *Importer) isFirst(ctx context.Context, k *transcript.Compaction, refused error) bool {
	if errors.Is(refused, api.ErrNothing) {
		return true
	}
	if !coded(refused, api.IDReused) {
		return false
	}
	t, err := im.Client.Turn(ctx, k.Session, k.ID)
	return err == nil && t.Type == "normal"
}

// hasCompaction reports whether the ledger has a compaction, which the transcript begins with,
// after the turns that it replaced: another file of the session has them.
func (im *Importer) hasCompaction(ctx context.Context, k *transcript.Compaction) bool {
	t, err := im.Client.Turn(ctx, k.Session, k.ID)
	return err == nil && t.Type == "compaction"
}

// isBounded reports whether the ledger has a compaction with the same summary, and differs in
// nothing but a bound: see [alike.Bounded].
func (im *Importer) isBounded(ctx context.Context, k *transcript.Compaction, rep *Report) bool {
	t, err := im.Client.Turn(ctx, k.Session, k.ID)
	if err != nil || t.Compaction == nil || t.Compaction.Summary != nil && *t.Compaction.Summary != k.Summary || !alike.Bounded(t.Meta, k.Meta, t.Usage, k.Usage) {
		return false
	}
	noteBound(t.Meta, k.Meta, rep)
	return true
}

// replacementTurn returns the turn that stands for a compaction where the ledger has nothing
// of what it replaced: what the agent saw instead.
func replacementTurn(k *transcript.Compaction) *transcript.Append {
	a := &transcript.Append{Session: k.Session, ID: k.ID, Time: k.Time, Messages: k.Replacement, Meta: k.Meta}
	if len(a.Messages) == 0 {
		a.Messages = []turns.Message{turns.TextMessage(turns.User, k.Summary)}
	}
	return a
}
