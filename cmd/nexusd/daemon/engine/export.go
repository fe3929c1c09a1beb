package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// ExportVersion is the version of the export's lines.
const ExportVersion = 1

// Export is session.export: the session's chain with those it inherits from,
// ancestors first, each up to its fork point, as the exact bytes that are
// stored. Keys come first: whoever holds an export can read it.
func (e *Engine) Export(ctx context.Context, c Caller, session turns.ID, req api.ExportSession) (*api.Exported, error) {
	if err := e.ready(ctx, req.Read); err != nil {
		return nil, err
	}
	s, err := e.row(ctx, c, session, true)
	if err != nil {
		return nil, err
	}
	chains, err := e.ancestry(c, s)
	if err != nil {
		return nil, err
	}
	cur, err := parseExportCursor(req.After, len(chains))
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(req.Page, 500, 5000)
	if err != nil {
		return nil, err
	}
	out := &api.Exported{Records: []api.ExportRecord{}}
	if req.After == "" {
		out.Records = append(out.Records, api.ExportRecord{Ledger: &api.ExportHeader{
			Version: ExportVersion, Ledger: uuid.UUID(e.Ledger).String(), Session: session}})
	}
	size := 0
	for ; cur.chain < len(chains); cur = (exportCursor{chain: cur.chain + 1}) {
		ch := chains[cur.chain]
		if cur.index == 0 && cur.record == 0 && e.Keys != nil {
			k, err := e.Keys.Key(ch.id)
			if err != nil {
				return nil, err
			}
			out.Records = append(out.Records, api.ExportRecord{Key: &api.ExportKey{ID: ch.id, Key: k[:]}})
		}
		for ; cur.index <= ch.last; cur.index, cur.record = cur.index+1, 0 {
			records, err := e.exportRecords(ctx, c.Tenant, s.Root, ch.id, cur.index)
			if err != nil {
				return nil, err
			}
			for ; cur.record < len(records); cur.record++ {
				r := records[cur.record]
				n := recordBytes(&r)
				if len(out.Records) >= limit || (size > 0 && size+n > e.payload()*3/4) || size > e.pageBytes() {
					out.Next = cur.String()
					return out, nil
				}
				out.Records, size = append(out.Records, r), size+n
			}
		}
	}
	return out, nil
}

// exportRecords is the lines of one event: its blobs, then itself. A blob that
// is larger than a message may be goes out in pieces.
func (e *Engine) exportRecords(ctx context.Context, tenant string, root, session turns.ID, index uint64) ([]api.ExportRecord, error) {
	payload, err := e.Store.EventAt(session, index)
	if err != nil {
		return nil, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return nil, err
	}
	var out []api.ExportRecord
	for _, b := range ev.Blobs {
		sealed, err := e.Blobs.GetBlob(ctx, tenant, b.Digest)
		if err != nil {
			return nil, err
		}
		blob := &api.ExportBlob{Root: root, Digest: b.Digest}
		if len(sealed) <= e.pieceBytes() {
			blob.Sealed = sealed
		} else {
			for piece := range slices.Chunk(sealed, e.pieceBytes()) {
				out = append(out, api.ExportRecord{Piece: &api.ExportPiece{Sealed: piece}})
				blob.Pieces = append(blob.Pieces, pieceDigest(piece))
			}
		}
		out = append(out, api.ExportRecord{Blob: blob})
	}
	return append(out, api.ExportRecord{Event: &api.ExportEvent{Payload: payload, Hash: turns.HashEvent(payload)}}), nil
}

// recordBytes is about how many bytes of JSON a record is.
func recordBytes(r *api.ExportRecord) int {
	switch {
	case r.Piece != nil:
		return 100 + len(r.Piece.Sealed)*4/3
	case r.Blob != nil:
		return 300 + len(r.Blob.Sealed)*4/3 + 80*len(r.Blob.Pieces)
	case r.Event != nil:
		return 200 + len(r.Event.Payload)*4/3
	}
	return 200
}

// pieceDigest names a piece of a sealed blob on its way into a ledger.
func pieceDigest(piece []byte) turns.Hash {
	h := sha256.New()
	h.Write([]byte("nexus.piece.v1\x00"))
	h.Write(piece)
	return turns.Hash(h.Sum(nil))
}

type exported struct {
	id   turns.ID
	last uint64 // last index that goes out
}

// ancestry is the chains that a session needs, root first: of an ancestor,
// everything up to the event of the fork point.
func (e *Engine) ancestry(c Caller, s *ledger.Session) ([]exported, error) {
	chains := []exported{{s.ID, s.Tail.Index}}
	for f := s.ForkOf; f != nil; {
		up, err := e.Store.Session(f.At.Session)
		if err != nil {
			return nil, err
		}
		if err := visible(c, &up); err != nil {
			return nil, err
		}
		t, err := e.Store.Turn(f.At)
		if err != nil {
			return nil, err
		}
		chains = append(chains, exported{up.ID, t.Index})
		f = up.ForkOf
	}
	slices.Reverse(chains)
	return chains, nil
}

// exportCursor is the next record of an export.
type exportCursor struct {
	chain  int
	index  uint64
	record int // of the event's records
}

func (c exportCursor) String() string { return fmt.Sprintf("%d.%d.%d", c.chain, c.index, c.record) }

func parseExportCursor(after string, chains int) (c exportCursor, err error) {
	if after == "" {
		return c, nil
	}
	f := strings.Split(after, ".")
	if len(f) == 3 {
		var e1, e2, e3 error
		c.chain, e1 = strconv.Atoi(f[0])
		c.index, e2 = strconv.ParseUint(f[1], 10, 64)
		c.record, e3 = strconv.Atoi(f[2])
		if errors.Join(e1, e2, e3) == nil && c.chain >= 0 && c.chain < chains && c.record >= 0 {
			return c, nil
		}
	}
	return c, fieldErr("/after", "not what a page gave as next")
}

// Import is session.import: records of an export, in their order. Each event
// keeps its bytes and so its hash; one that is stored already is counted and
// left. Nothing is stored that does not verify.
func (e *Engine) Import(ctx context.Context, c Caller, req api.ImportRecords) (*api.Imported, error) {
	out := new(api.Imported)
	for i := range req.Records {
		if err := e.importRecord(ctx, c, &req.Records[i], out); err != nil {
			if f := (*turns.FieldError)(nil); errors.As(err, &f) {
				return nil, &turns.FieldError{Field: fmt.Sprintf("/records/%d%s", i, f.Field), Reason: f.Reason, Kind: f.Kind}
			}
			return nil, fmt.Errorf("record %d: %w", i, err)
		}
	}
	return out, nil
}

func (e *Engine) importRecord(ctx context.Context, c Caller, r *api.ExportRecord, out *api.Imported) error {
	switch {
	case r.Ledger != nil:
		if r.Ledger.Version != ExportVersion {
			return &api.Error{Code: api.Unsupported, Message: fmt.Sprintf("export version %d, this daemon knows %d", r.Ledger.Version, ExportVersion)}
		}
		return nil
	case r.Key != nil:
		return e.importKey(c, r.Key)
	case r.Piece != nil:
		return e.Blobs.PutBlob(ctx, c.Tenant, pieceDigest(r.Piece.Sealed), r.Piece.Sealed)
	case r.Blob != nil:
		return e.importBlob(ctx, c, r.Blob)
	case r.Event != nil:
		return e.importEvent(ctx, c, r.Event, out)
	}
	return fieldErr("", "neither nexus_export, key, piece, blob nor event")
}

// importBlob stores a blob whose content has the digest that it is named by,
// under the key of its tree. What does not open is not stored: a blob is written
// once, and a wrong first copy would stand in the way of the right one.
func (e *Engine) importBlob(ctx context.Context, c Caller, b *api.ExportBlob) error {
	sealed := b.Sealed
	for i, d := range b.Pieces {
		piece, err := e.Blobs.GetBlob(ctx, c.Tenant, d)
		if err != nil {
			return fmt.Errorf("piece %d of blob %s: %w", i, b.Digest, err)
		}
		if pieceDigest(piece) != d {
			return fieldErr(fmt.Sprintf("/blob/pieces/%d", i), "not a piece")
		}
		if len(sealed)+len(piece) > turns.MaxBody {
			return fmt.Errorf("%w: blob %s has more than %d bytes", ledger.ErrTooLarge, b.Digest, turns.MaxBody)
		}
		sealed = append(sealed, piece...)
	}
	k, err := e.key(b.Root)
	if err != nil {
		return fmt.Errorf("the key of blob %s: %w", b.Digest, err)
	}
	if e.Keys != nil {
		_, err = seal.OpenBlob(k, b.Digest, sealed)
	} else if seal.BlobDigest(k, sealed) != b.Digest {
		err = fmt.Errorf("%w: blob %s has other content", ledger.ErrCorrupt, b.Digest)
	}
	if err != nil {
		return err
	}
	return e.Blobs.PutBlob(ctx, c.Tenant, b.Digest, sealed)
}

func (e *Engine) importKey(c Caller, k *api.ExportKey) error {
	if k.ID == turns.ID(e.Ledger) {
		return fieldErr("/key/id", "a session's key has a session's id")
	}
	if s, err := e.Store.Session(k.ID); err == nil && visible(c, &s) != nil {
		return &api.Error{Code: api.IDReused, Message: fmt.Sprintf("session %s is stored for another agent", k.ID)}
	}
	if len(k.Key) != len(seal.Key{}) {
		return fieldErr("/key/key", "%d bytes, a key has %d", len(k.Key), len(seal.Key{}))
	}
	if e.Keys == nil {
		return &api.Error{Code: api.Unsupported, Message: "this ledger does not seal and keeps no keys; it can't take a sealed export"}
	}
	return e.Keys.Put(k.ID, seal.Key(k.Key))
}

func (e *Engine) importEvent(ctx context.Context, c Caller, r *api.ExportEvent, out *api.Imported) error {
	if got := turns.HashEvent(r.Payload); got != r.Hash {
		return fmt.Errorf("%w: the event's hash is %v, the record says %v", ledger.ErrCorrupt, got, r.Hash)
	}
	ev, err := turns.Decode(r.Payload)
	if err != nil {
		return err
	}
	id, ok := ev.Chain.Session()
	if !ok {
		return fieldErr("/event", "an event of chain %s; only sessions are imported", ev.Chain)
	}
	ch, release, err := e.hold(ctx, c.Tenant+"/"+id.String())
	if err != nil {
		return err
	}
	defer release()
	for {
		s, err := e.importTail(ctx, c, ev, id)
		if err != nil {
			return err
		}
		if !s.ID.IsZero() && ev.Index <= s.Tail.Index {
			was, err := e.Store.EventAt(id, ev.Index)
			if err != nil {
				return err
			}
			if turns.HashEvent(was) != r.Hash {
				return &api.Error{Code: api.Conflict, Message: fmt.Sprintf("session %s has another event at index %d", id, ev.Index)}
			}
			out.Existing++
			return nil
		}
		next := *s
		if err := next.Apply(c.Tenant, s.Tail.Seq+1, r.Hash, ev); err != nil {
			return err
		}
		seq, err := e.Log.Append(ctx, next.Subject(), s.Tail.Seq, r.Payload)
		if errors.Is(err, ledger.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		ch.seq = seq
		out.Stored++
		e.Metrics.appended(ev.Kind)
		if err := e.Store.WaitFor(ctx, seq); err != nil {
			return err
		}
		return e.whyAside(id)
	}
}

// importTail is the fold that an imported event must fit behind; the zero
// Session for a chain's first. What the event names must be stored before it.
func (e *Engine) importTail(ctx context.Context, c Caller, ev *turns.Event, id turns.ID) (*ledger.Session, error) {
	if _, err := e.catchUp(ctx, c.Tenant, id); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	s, err := e.Store.Session(id)
	if errors.Is(err, ledger.ErrNotFound) {
		if ev.Index != 0 {
			return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("event %d of session %s comes before its first", ev.Index, id)}
		}
		if ev.Agent != c.Agent && !c.Operator() {
			return nil, &api.Error{Code: api.Denied, Message: fmt.Sprintf("session %s belongs to agent %s", id, ev.Agent)}
		}
		if f := ev.ForkOf; f != nil {
			at, err := e.Store.Turn(f.At)
			if err != nil {
				return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("session %s forks from %s, which is not stored here", id, f.At)}
			}
			if at.Hash != f.Hash {
				return nil, fmt.Errorf("%w: session %s forks from %s with another hash", ledger.ErrCorrupt, id, f.At)
			}
		}
		return new(ledger.Session), nil
	}
	if err != nil {
		return nil, err
	}
	if err := visible(c, &s); err != nil {
		return nil, &api.Error{Code: api.IDReused, Message: fmt.Sprintf("session %s is stored for another agent", id)}
	}
	if ev.Index > s.Tail.Index+1 {
		return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("event %d of session %s follows event %d", ev.Index, id, s.Tail.Index)}
	}
	return &s, nil
}
