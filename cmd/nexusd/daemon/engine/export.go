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
	size, taken := 0, 0 // the header and the keys are not counted: a page always goes on
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
				if taken >= limit || (size > 0 && size+n > e.payload()*3/4) || size > e.pageBytes() {
					out.Next = cur.String()
					return out, nil
				}
				out.Records, size, taken = append(out.Records, r), size+n, taken+1
			}
		}
	}
	return out, nil
}

// exportRecords is the lines of one event: its blobs, then itself. What is larger
// than a message may be goes out in pieces.
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
		var pieces []api.ExportRecord
		blob.Sealed, blob.Pieces, pieces = e.inPieces(sealed)
		out = append(append(out, pieces...), api.ExportRecord{Blob: blob})
	}
	event := &api.ExportEvent{Hash: turns.HashEvent(payload)}
	var pieces []api.ExportRecord
	event.Payload, event.Pieces, pieces = e.inPieces(payload)
	return append(append(out, pieces...), api.ExportRecord{Event: event}), nil
}

// inPieces is b as it goes out: whole if a message has room for it, or as the
// names of its pieces, with the records of these.
func (e *Engine) inPieces(b []byte) (whole []byte, names []turns.Hash, pieces []api.ExportRecord) {
	if len(b) <= e.pieceBytes() {
		return b, nil, nil
	}
	for piece := range slices.Chunk(b, e.pieceBytes()) {
		names = append(names, pieceDigest(piece))
		pieces = append(pieces, api.ExportRecord{Piece: &api.ExportPiece{Sealed: piece}})
	}
	return nil, names, pieces
}

// recordBytes is about how many bytes of JSON a record is.
func recordBytes(r *api.ExportRecord) int {
	switch {
	case r.Piece != nil:
		return 100 + len(r.Piece.Sealed)*4/3
	case r.Blob != nil:
		return 300 + len(r.Blob.Sealed)*4/3 + 80*len(r.Blob.Pieces)
	case r.Event != nil:
		return 200 + len(r.Event.Payload)*4/3 + 80*len(r.Event.Pieces)
	}
	return 200
}

// pieceDigest names a piece on its way into a ledger.
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
