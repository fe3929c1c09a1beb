package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/google/uuid"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/memories"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/transfer"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
)

// Archive reads sessions for the files beside the ledger. Safe for concurrent use.
type Archive struct {
	content  *content.Store
	reader   *reader.Reader
	transfer *transfer.Transfer
	memories *memories.Memories
}

// New returns an archive of what r reads.
func New(cs *content.Store, r *reader.Reader, tr *transfer.Transfer, ms *memories.Memories) *Archive {
	return &Archive{content: cs, reader: r, transfer: tr, memories: ms}
}

// NotesAt returns the position of the newest event that may have changed what an agent
// remembers; 0: none.
func (a *Archive) NotesAt(tenant, agent string) (uint64, error) {
	return a.memories.NotesAt(tenant, agent)
}

// Notes returns what the files of an agent's memory hold.
func (a *Archive) Notes(ctx context.Context, tenant, agent string) (*memories.Notes, error) {
	return a.memories.Notes(ctx, tenant, agent)
}

// Ledger returns the id of the ledger.
func (a *Archive) Ledger() string { return uuid.UUID(a.content.Ledger).String() }

// Touched yields the sessions with events after position from, up to and with position
// to, which the projections have applied. A session may come more than once.
func (a *Archive) Touched(from, to uint64) iter.Seq2[turns.ID, error] {
	return a.reader.Projections.Touched(from, to)
}

// Applied returns the position that the projections have applied.
func (a *Archive) Applied() uint64 { return a.reader.Projections.Applied().Seq }

// WaitFor waits until the projections have applied position seq.
func (a *Archive) WaitFor(ctx context.Context, seq uint64) error {
	return a.reader.Projections.WaitFor(ctx, seq)
}

// maxReadable bounds the content of a turn's parts that a line shows in full, in
// bytes. A larger turn shows previews; its content is in the ledger.
const maxReadable = 16 << 20

// Session is a session that files may be written for.
type Session struct {
	ledger.Session
	Files policy.Files
}

// ErrKeyStays: a session was erased, and its key is about to be destroyed. What is written until then could be read from it.
var ErrKeyStays = errors.New("the session was erased, and its key is not destroyed yet")

// Asks returns a session and the files that its policy asks for.
//
// Errors: [ledger.ErrNotFound]; [ErrKeyStays]; [ledger.ErrErased] and those of a key or a policy
// that can't be read.
func (a *Archive) Asks(ctx context.Context, id turns.ID) (*Session, error) {
	s, err := a.reader.Projections.Session(id)
	if err != nil {
		return nil, err
	}
	if s.State == turns.Erased {
		if _, err := a.content.Key(id); errors.Is(err, ledger.ErrErased) {
			return nil, err
		}
		return nil, ErrKeyStays
	}
	_, _, set, err := a.reader.StoredSettings(&s)
	if err != nil {
		return nil, err
	}
	p, err := a.reader.ResolvePolicy(ctx, s.Tenant, set.Policy)
	return &Session{s, p.Files}, err
}

// Redacted returns how many events of a session redact another.
func (a *Archive) Redacted(id turns.ID) (n uint64, err error) {
	for _, err := range a.reader.Projections.Redactions(id) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Heirs returns a session, and those that inherited turns from it.
func (a *Archive) Heirs(ctx context.Context, id turns.ID) (*ledger.Session, []turns.ID, error) {
	s, err := a.reader.Projections.Session(id)
	if err != nil {
		return nil, nil, err
	}
	heirs, err := a.reader.Heirs(ctx, id)
	return &s, heirs, err
}

// Compactions yields the compactions on the session's own chain that cover turns,
// oldest first. What a compaction of an ancestor covers is in the ancestor's files.
func (a *Archive) Compactions(s *Session) iter.Seq2[lineage.Node, error] {
	return func(yield func(lineage.Node, error) bool) {
		for ref, err := range a.reader.Projections.CompactionsOf(s.ID) {
			if err != nil {
				yield(lineage.Node{}, err)
				return
			}
			n, err := a.reader.Projections.Node(ref)
			if err != nil {
				yield(lineage.Node{}, err)
				return
			}
			lo, hi, err := a.covers(n)
			if err != nil {
				yield(lineage.Node{}, err)
				return
			}
			if lo <= hi && !yield(n, nil) {
				return
			}
		}
	}
}

// covers returns the depths of the turns that a compaction covers and the one before
// it did not, in whole or in part. lo > hi: none.
func (a *Archive) covers(n lineage.Node) (lo, hi uint64, err error) {
	lo = 1
	if !n.Previous.IsZero() {
		up, err := a.reader.Projections.Node(n.Previous)
		if err != nil {
			return 0, 0, err
		}
		if up.Cut == n.Cut {
			return 1, 0, nil
		}
		lo = max(up.Cut.Depth(), 1)
	}
	return lo, min(n.Cut.Last(), n.Depth-1), nil
}

// Turn is a turn on a session's own chain.
type Turn struct {
	Index uint64 // its number on the chain
	*api.Turn
}

// Turns yields the turns on the session's own chain from a number on, oldest first,
// on every branch. Compactions are not among them.
func (a *Archive) Turns(ctx context.Context, s *Session, from uint64) iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		for payload, err := range a.reader.Projections.Events(s.ID, from) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Turn{}, err)
				return
			}
			ev, err := turns.Decode(payload)
			if err == nil && ev.Kind != turns.KindTurn {
				continue
			}
			var t rows.Turn
			if err == nil {
				t, err = a.reader.Projections.Turn(ev.Ref())
			}
			var v *api.Turn
			if err == nil {
				v, err = a.readable(ctx, s.Tenant, t, ev)
			}
			if err != nil {
				yield(Turn{}, err)
				return
			}
			if !yield(Turn{ev.Index, v}, nil) {
				return
			}
		}
	}
}

// Compacted returns a compaction as the contract shows it.
func (a *Archive) Compacted(n lineage.Node) (*api.Turn, error) {
	t, ev, err := a.reader.TurnEvent(n.Ref)
	if err != nil {
		return nil, err
	}
	return a.reader.DescribeWhole(t, ev)
}

// Left returns the turns among ids that have left the context of the session's head:
// both halves are covered by the compaction in force.
func (a *Archive) Left(s *Session, ids []turns.ID) (map[turns.ID]bool, error) {
	out := make(map[turns.ID]bool)
	if s.Head.IsZero() {
		return out, nil
	}
	head, err := a.reader.HeadNode(&s.Session)
	if err != nil {
		return nil, err
	}
	in, err := a.reader.CompactionAt(&s.Session, head)
	if err != nil || in.IsZero() {
		return out, err
	}
	k, err := a.reader.Projections.Node(in)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		n, err := a.reader.Projections.Node(turns.Ref{Session: s.ID, Turn: id})
		if err != nil {
			return nil, err
		}
		if n.Depth >= k.Cut.Depth() {
			continue
		}
		if out[id], err = lineage.IsAncestor(a.reader.Projections, n, k); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Line is a line of an archive: a record of an export, which has no key here, and
// what a person can read of it.
type Line struct {
	Archive *Header `json:"nexus_archive,omitempty,omitzero"`
	api.ExportRecord
	Turn *api.Turn `json:"turn,omitempty,omitzero"` // of an event that is a turn
}

// Header opens the archive of a compaction.
type Header struct {
	Version    int      `json:"version"`
	Ledger     string   `json:"ledger"`
	Session    turns.ID `json:"session"`
	Compaction turns.ID `json:"compaction"`
}

// Version is the version of the lines.
const Version = 1

// Covered yields the archive of a compaction: a header, then the turns that it covers
// and the compaction before it did not, root first. A turn whose halves two
// compactions cover is in both archives.
func (a *Archive) Covered(ctx context.Context, s *Session, n lineage.Node) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lo, hi, err := a.covers(n)
		if err != nil {
			yield(Line{}, err)
			return
		}
		if !yield(Line{Archive: &Header{Version, a.Ledger(), s.ID, n.Ref.Turn}}, nil) {
			return
		}
		err = a.reader.PathTurns(ctx, n, lo, hi, func(t rows.Turn, ev *turns.Event) (bool, error) {
			if t.Kind == turns.KindCompaction {
				return true, nil
			}
			payload, err := a.reader.Projections.Payload(t)
			if err != nil {
				return false, err
			}
			line := Line{ExportRecord: api.ExportRecord{Event: &api.ExportEvent{Payload: payload, Hash: t.Hash}}}
			if line.Turn, err = a.readable(ctx, s.Tenant, t, ev); err != nil {
				return false, err
			}
			return yield(line, nil), nil
		})
		if err != nil {
			yield(Line{}, err)
		}
	}
}

// Whole yields the archive of a session: its export, ancestors first, without content
// keys, each turn with what a person can read of it. Imported where its keys are, it
// gives the same events.
func (a *Archive) Whole(ctx context.Context, s *Session) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		c := reader.Caller{Tenant: s.Tenant, Agent: "_"}
		pieces := make(map[turns.Hash][]byte)
		var req api.ExportSession
		for {
			page, err := a.transfer.Export(ctx, c, s.ID, req)
			if err != nil {
				yield(Line{}, err)
				return
			}
			for _, r := range page.Records {
				if r.Key != nil {
					continue
				}
				line, err := a.line(ctx, s.Tenant, r, pieces)
				if !yield(line, err) || err != nil {
					return
				}
			}
			if page.Next == "" {
				return
			}
			req.After = page.Next
		}
	}
}

// line returns the line of a record. pieces has the pieces of the event to come.
func (a *Archive) line(ctx context.Context, tenant string, r api.ExportRecord, pieces map[turns.Hash][]byte) (Line, error) {
	line := Line{ExportRecord: r}
	switch {
	case r.Piece != nil:
		pieces[api.PieceDigest(r.Piece.Sealed)] = r.Piece.Sealed
		return line, nil
	case r.Event == nil:
		clear(pieces) // they were a blob's
		return line, nil
	}
	payload := r.Event.Payload
	for _, p := range r.Event.Pieces {
		payload = append(payload, pieces[p]...)
	}
	clear(pieces)
	ev, err := turns.Decode(payload)
	if err != nil || !ev.Kind.IsTurn() {
		return line, err
	}
	t, err := a.reader.Projections.Turn(ev.Ref())
	if err != nil {
		return line, err
	}
	line.Turn, err = a.readable(ctx, tenant, t, ev)
	return line, err
}

// readable returns a turn with the content of its large parts. A turn that can't be
// read any more comes as its header, with the code of the error.
func (a *Archive) readable(ctx context.Context, tenant string, t rows.Turn, ev *turns.Event) (*api.Turn, error) {
	out, err := a.reader.DescribeWhole(t, ev)
	if err != nil || out.Error != "" || !fits(ev) {
		return out, err
	}
	s, err := a.reader.Projections.Session(t.Ref.Session)
	if err != nil {
		return nil, err
	}
	k, err := a.content.Tree(s.Root)
	if err != nil {
		return nil, err
	}
	body := &turns.TurnBody{Messages: out.Messages, Response: out.Response}
	content.CopyParts(body)
	for _, p := range content.BodyParts(body) {
		if p.Ref == nil || p.InPieces() { // what is in pieces is too large for a line
			continue
		}
		if err := a.content.InlinePart(ctx, tenant, k, p); err != nil {
			return nil, fmt.Errorf("turn %s: %w", t.Ref, err)
		}
	}
	out.Messages, out.Response = body.Messages, body.Response
	return out, nil
}

// fits reports whether a line shows the content of the event's blobs.
func fits(ev *turns.Event) bool {
	n := uint64(0)
	for _, b := range ev.Blobs {
		if n += b.Size; n > maxReadable {
			return false
		}
	}
	return true
}
