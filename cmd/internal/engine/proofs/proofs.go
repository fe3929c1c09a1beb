package proofs

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/ledger/tlog"
	"nexus/turns"
	"nexus/turns/seal"
)

// Source signs checkpoints.
type Source interface {
	// Sign signs the tree as it is, if it grew, and returns the newest note.
	Sign(ctx context.Context) ([]byte, error)
	// Newest is the newest note.
	Newest() ([]byte, tlog.Checkpoint)
	// Public is the public key.
	Public() string
	// Inconsistent says why nothing is signed any more, nil if it is.
	Inconsistent() error
	// Shown takes a note that a client kept. It returns why nothing is signed any more.
	Shown(ctx context.Context, note []byte) error
}

// Proofs makes proofs. Safe for concurrent use.
type Proofs struct {
	source  Source
	content *content.Store
	page    *page.Limits
	reader  *reader.Reader
}

// New returns proofs under the checkpoints of source; nil: there are none.
func New(source Source, cs *content.Store, limits *page.Limits, r *reader.Reader) *Proofs {
	return &Proofs{source, cs, limits, r}
}

var errNone = &api.Error{Code: api.Unsupported, Message: "this daemon signs no checkpoints: its log is on an external NATS server"}

// errDenied: a checkpoint says how many events all tenants and agents have, and whoever asks for a proof can have one signed.
var errDenied = &api.Error{Code: api.Denied, Message: "checkpoints and proofs say how many events the whole ledger has; only the operator gets them"}

// Signed returns the newest checkpoint, false if there is none.
func (p *Proofs) Signed() (tlog.Checkpoint, bool) {
	if p.source == nil {
		return tlog.Checkpoint{}, false
	}
	note, c := p.source.Newest()
	return c, len(note) > 0
}

// Inconsistent says why nothing is signed any more, nil if it is, or if nothing ever was.
func (p *Proofs) Inconsistent() error {
	if p.source == nil {
		return nil
	}
	return p.source.Inconsistent()
}

// Checkpoint is audit.checkpoint: it signs now, with all that was acknowledged before the call.
func (p *Proofs) Checkpoint(ctx context.Context, c reader.Caller, _ api.GetCheckpoint) (*api.Checkpoint, error) {
	if !c.Operator() {
		return nil, errDenied
	}
	if p.source == nil {
		return nil, errNone
	}
	st, err := p.reader.Log.State(ctx)
	if err == nil {
		err = p.reader.Projections.WaitFor(ctx, st.Last)
	}
	if err != nil {
		return nil, err
	}
	note, err := p.source.Sign(ctx)
	if err != nil {
		return nil, err
	}
	return describe(note)
}

func describe(note []byte) (*api.Checkpoint, error) {
	c, err := tlog.ReadCheckpoint(note)
	if err != nil {
		return nil, err
	}
	return &api.Checkpoint{Note: string(note), Origin: c.Origin, Size: api.Uint(c.Size), Root: c.Root}, nil
}

// Key is audit.key.
func (p *Proofs) Key(_ context.Context, _ reader.Caller, _ api.GetKey) (*api.CheckpointKey, error) {
	if p.source == nil || p.source.Public() == "" {
		return nil, errNone
	}
	_, c := p.source.Newest()
	return &api.CheckpointKey{Key: p.source.Public(), Origin: c.Origin}, nil
}

// Consistency is audit.consistency. Errors: [api.Corrupt] if the ledger was rolled back behind the
// note that the caller shows; [api.Unprocessable] if it has fewer events than the caller claims.
func (p *Proofs) Consistency(ctx context.Context, c reader.Caller, req api.GetConsistency) (*api.Consistency, error) {
	if !c.Operator() {
		return nil, errDenied
	}
	if p.source == nil {
		return nil, errNone
	}
	if err := p.source.Inconsistent(); err != nil { // what it signed before says nothing of what it is now
		return nil, err
	}
	if req.Note != "" {
		if err := p.source.Shown(ctx, []byte(req.Note)); err != nil {
			return nil, err
		}
	}
	note, newest := p.source.Newest()
	from := uint64(req.From)
	if newest.Size < from { // it may have been signed and lost in a crash, or is not signed yet
		if st, err := p.reader.Log.State(ctx); err != nil {
			return nil, err
		} else if st.Last < from {
			return nil, api.Errorf(api.Unprocessable, map[string]any{"size": st.Last}, "the ledger has %d events, not %d", st.Last, from)
		}
		var err error
		if note, err = p.source.Sign(ctx); err != nil {
			return nil, err
		}
	}
	if len(note) == 0 {
		return nil, &api.Error{Code: api.Unavailable, Message: "there is no checkpoint yet"}
	}
	d, err := describe(note)
	if err != nil {
		return nil, err
	}
	out := &api.Consistency{Checkpoint: *d, Key: p.source.Public(), From: api.Uint(from)}
	out.Path, err = tlog.Consistency(p.reader.Projections.TreeHashes(), from, uint64(d.Size))
	return out, err
}

// Proof is audit.proof: that a turn is below a checkpoint, and what is to be shown of it. It signs if
// the turn is above the newest one.
func (p *Proofs) Proof(ctx context.Context, c reader.Caller, session turns.ID, req api.GetProof) (*api.TurnProof, error) {
	if !c.Operator() {
		return nil, errDenied
	}
	if p.source == nil {
		return nil, errNone
	}
	if req.Turn.IsZero() {
		return nil, api.FieldErrorf("/turn", "missing: name a turn")
	}
	node, err := p.reader.LocateTurn(ctx, c, session, req.Turn, api.Read{})
	if err != nil {
		return nil, err
	}
	row, ev, err := p.reader.TurnEvent(node.Ref)
	if err != nil {
		return nil, err
	}
	payload, err := p.reader.Projections.Payload(row)
	if err != nil {
		return nil, err
	}
	shown, key, err := p.disclose(ctx, ev, req)
	if err != nil {
		return nil, err
	}
	note, at := p.source.Newest()
	if at.Size < row.Seq {
		if note, err = p.source.Sign(ctx); err != nil {
			return nil, err
		}
		if at, err = tlog.ReadCheckpoint(note); err != nil {
			return nil, err
		}
	}
	path, err := tlog.Inclusion(p.reader.Projections.TreeHashes(), row.Seq-1, at.Size)
	if err != nil {
		return nil, err
	}
	e, err := tlog.NewEvent(payload, shown...)
	if err != nil {
		return nil, err
	}
	e.Key = key
	proof := tlog.Proof{Index: row.Seq - 1, Path: path, Note: note}
	if _, err := proof.Verify(e.Entry(), p.source.Public()); err != nil { // the rows may be damaged
		return nil, fmt.Errorf("the tree of the projections does not have the turn: %w", err)
	}
	file, err := e.Encode()
	if err != nil {
		return nil, err
	}
	if limit := p.page.Payload(); len(file) > limit/2 {
		return nil, api.Errorf(api.TooLarge, map[string]any{"limit": limit}, "what is disclosed has %d bytes, more than a message; disclose fewer parts, or use ledgerctl prove --data on a folder that nobody serves", len(file))
	}
	return &api.TurnProof{Proof: string(proof.Encode()), Event: string(file), Size: api.Uint(at.Size), Index: api.Uint(proof.Index), Key: p.source.Public()}, nil
}

// disclose returns the leaves of the body that are shown, and the session's key if all of it is.
func (p *Proofs) disclose(ctx context.Context, ev *turns.Event, req api.GetProof) (shown []*turns.Disclosed, key *tlog.EventKey, err error) {
	if req.Disclose != api.DisclosePart && len(req.Parts) > 0 {
		return nil, nil, api.FieldErrorf("/parts", "parts go with disclose: part")
	}
	var leaf func(int) (*turns.Disclosed, error)
	if req.Disclose != "" && req.Disclose != api.DiscloseNone {
		if leaf, err = p.leaves(ev); err != nil {
			return nil, nil, err
		}
	}
	switch req.Disclose {
	case "", api.DiscloseNone:
	case api.DisclosePart:
		if len(req.Parts) == 0 {
			return nil, nil, api.FieldErrorf("/parts", "missing: number the parts, from 1")
		}
		if len(req.Parts) > maxDisclosed {
			return nil, nil, api.FieldErrorf("/parts", "%d parts, at most %d can be shown; disclose: turn shows all", len(req.Parts), maxDisclosed)
		}
		seen, size := make(map[int]bool), 0
		for _, n := range req.Parts {
			if n < 0 || seen[n] {
				return nil, nil, api.FieldErrorf("/parts", "parts are numbered from 1, each once; 0 is what holds them")
			}
			seen[n] = true
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
			d, err := discloseOne(leaf, n, &size, p.page.Payload()/2)
			taken := (*redactedError)(nil)
			switch {
			case errors.Is(err, turns.ErrMalformed):
				return nil, nil, api.FieldErrorf("/parts", "the turn has no part %d", n)
			case errors.As(err, &taken) && n == 0: // the parts still prove, without their places
				continue
			case errors.As(err, &taken):
				return nil, nil, fmt.Errorf("%w: part %d was redacted", turns.ErrErased, n)
			case err != nil:
				return nil, nil, err
			}
			shown = append(shown, d)
		}
	case api.DiscloseTurn, api.DiscloseSession:
		if shown, err = discloseAll(ctx, leaf, p.page.Payload()/2); err != nil {
			return nil, nil, err
		}
		if req.Disclose == api.DiscloseTurn {
			break
		}
		if len(ev.Keys) == 0 {
			return nil, nil, &api.Error{Code: api.Unprocessable, Message: "the session is not sealed: it has no key"}
		}
		content, err := p.content.OpeningKeyring().Content(ev.Keys[0])
		if err != nil {
			return nil, nil, err
		}
		k, err := content.Whole()
		if errors.Is(err, seal.ErrPunctured) {
			return nil, nil, &api.Error{Code: api.Unprocessable, Message: "turns of the session were redacted, so its key is not here as a whole: disclose turns"}
		}
		if err != nil {
			return nil, nil, err
		}
		key = &tlog.EventKey{ID: ev.Keys[0], Key: k[:]}
	default:
		return nil, nil, api.FieldErrorf("/disclose", "%.40q is not none, turn, part or session", req.Disclose)
	}
	return shown, key, nil
}

// leaves returns what gives the leaves of an event's commitment: of one that was redacted those that stay.
func (p *Proofs) leaves(ev *turns.Event) (func(int) (*turns.Disclosed, error), error) {
	_, redacted, err := p.content.Redaction(ev)
	if err != nil {
		return nil, err
	}
	if redacted != nil {
		return func(n int) (*turns.Disclosed, error) {
			d, err := redacted.Disclose(n)
			if errors.Is(err, turns.ErrErased) {
				err = &redactedError{len(redacted.Leaves), err}
			}
			return d, err
		}, nil
	}
	ring := p.content.OpeningKeyring()
	return func(n int) (*turns.Disclosed, error) { return seal.Disclose(ev, ring, n) }, nil
}

// redactedError says that a leaf of an event was redacted; the event has count leaves.
type redactedError struct {
	count int
	err   error
}

// Error returns the text of the error.
func (e *redactedError) Error() string { return e.err.Error() }

// Unwrap returns [turns.ErrErased].
func (e *redactedError) Unwrap() error { return e.err }

const (
	// maxDisclosed bounds the parts that a request names, maxLeaves those of a turn that is shown whole: each
	// is made from the whole body.
	maxDisclosed = 64
	maxLeaves    = 1024
)

// discloseOne returns a leaf of the body of an event, and adds its bytes to size, which may be limit.
func discloseOne(leaf func(int) (*turns.Disclosed, error), n int, size *int, limit int) (*turns.Disclosed, error) {
	d, err := leaf(n)
	if err != nil {
		return nil, err
	}
	if *size += len(d.Bytes); *size > limit {
		return nil, api.Errorf(api.TooLarge, map[string]any{"limit": limit}, "what is disclosed has over %d bytes, more than a message; disclose fewer parts", limit)
	}
	d.Bytes = bytes.Clone(d.Bytes) // not the body, of which they are a part
	return d, nil
}

// discloseAll returns all leaves of the body of an event.
func discloseAll(ctx context.Context, leaf func(int) (*turns.Disclosed, error), limit int) (shown []*turns.Disclosed, err error) {
	size := 0
	for n, count := 0, 1; n < count; n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d, err := discloseOne(leaf, n, &size, limit)
		if taken := (*redactedError)(nil); errors.As(err, &taken) { // the others still prove
			count = taken.count
			continue
		}
		if err != nil {
			return nil, err
		}
		if shown, count = append(shown, d), d.Count; count > maxLeaves {
			return nil, api.Errorf(api.TooLarge, map[string]any{"limit": maxLeaves}, "the turn has %d parts, over %d; disclose some of them", count-1, maxLeaves)
		}
	}
	return shown, nil
}
