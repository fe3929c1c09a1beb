package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// ExportVersion is the version of the format of an export.
const ExportVersion = 1

// Export is session.export: the exact stored bytes of the session's chain and of
// those it inherits from, ancestors first, each up to its fork point. The content
// keys come first, so whoever has an export can read it.
func (tr *Transfer) Export(ctx context.Context, c reader.Caller, session turns.ID, req api.ExportSession) (*api.Exported, error) {
	if err := tr.reader.WaitPosition(ctx, req.Read); err != nil {
		return nil, err
	}
	s, err := tr.reader.FindSession(ctx, c, session, !req.StaleOK)
	if err != nil {
		return nil, err
	}
	chains, err := tr.ancestry(c, s)
	if err != nil {
		return nil, err
	}
	cur, err := parseExportCursor(req.After, len(chains))
	if err != nil {
		return nil, err
	}
	if cur.index > chains[cur.chain].last {
		return nil, api.FieldErrorf("/after", "not what a page gave as next")
	}
	limit, err := req.Page.LimitOf(500, 5000)
	if err != nil {
		return nil, err
	}
	x := exportPage{transfer: tr, tenant: c.Tenant, root: s.Root, limit: limit, mentions: tr.mentionsOf(s.ID), out: &api.Exported{Records: []api.ExportRecord{}}}
	if req.After == "" {
		x.out.Records = append(x.out.Records, api.ExportRecord{Ledger: &api.ExportHeader{
			Version: ExportVersion, Ledger: uuid.UUID(tr.content.Ledger).String(), Session: session}})
	}
	for ; cur.chain < len(chains); cur = (exportCursor{chain: cur.chain + 1}) {
		ch := chains[cur.chain]
		if cur == (exportCursor{chain: cur.chain}) && tr.content.Keys != nil {
			if err := tr.writer.CheckID("/session", ch.id); err != nil {
				return nil, err
			}
			k, err := tr.content.Key(ch.id)
			if err != nil && !errors.Is(err, ledger.ErrErased) {
				return nil, err
			}
			if err == nil { // else it was erased, and its events are exported as they are
				x.out.Records = append(x.out.Records, api.ExportRecord{Key: &api.ExportKey{ID: ch.id, Key: k.Bytes(), Remains: k.Remains().Encode()}})
			}
		}
		for ; cur.index <= ch.last; cur = (exportCursor{chain: cur.chain, index: cur.index + 1}) {
			full, err := x.addEvent(ctx, ch, &cur)
			if err != nil {
				return nil, err
			}
			if full {
				x.out.Next = cur.String()
				tr.exports.Put(s.ID, x.mentions, x.mentions.size())
				return x.out, nil
			}
		}
	}
	return x.out, nil
}

// exportPage is a page of an export while it is made.
type exportPage struct {
	transfer *Transfer
	tenant   string
	root     turns.ID
	mentions *firstMentions
	out      *api.Exported
	limit    int
	records  int // number of records, without the header and the keys
	size     int
}

// full reports whether the page has no room for a record of n more bytes. A page has
// room for at least one record, so that every page makes progress.
func (x *exportPage) full(n int) bool {
	return x.records >= x.limit || (x.size > 0 && x.size+n > x.transfer.page.Payload()*3/4) || x.size > x.transfer.page.PageBytes()
}

// addEvent adds the records of one event from cur on: the blobs and the policy
// that it is the first to name, then the event itself. It moves cur to the first record without room, and
// reports whether there is one.
func (x *exportPage) addEvent(ctx context.Context, ch exportedChain, cur *exportCursor) (full bool, err error) {
	payload, err := x.transfer.reader.Projections.EventAt(ch.id, cur.index)
	if err != nil {
		return false, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return false, err
	}
	body := x.transfer.bodyOf(ev)
	ref := policyIn(body)
	first := x.mentions.areFirst(ch.before+cur.index, append(slices.Clip(ev.Blobs), turns.BlobLink{Address: ref.Digest}))
	content, event := len(ev.Blobs), len(ev.Blobs)+1 // the parts after the blobs
	for ; cur.part <= event; cur.part, cur.piece = cur.part+1, 0 {
		var records []api.ExportRecord
		switch {
		case cur.part == event:
			event := &api.ExportEvent{Hash: turns.HashEvent(payload)}
			event.Payload, event.Pieces, records = x.transfer.split(payload)
			records = append(records, api.ExportRecord{Event: event})
		case !first[cur.part]:
			continue
		case x.full(0):
			return true, nil
		case cur.part == content:
			if records, err = x.transfer.policyRecord(ctx, x.tenant, ref); err != nil {
				return false, err
			}
		default:
			if records, err = x.blobRecords(ctx, body, ev.Blobs[cur.part].Address); err != nil {
				return false, err
			}
		}
		for ; cur.piece < len(records); cur.piece++ {
			n := recordBytes(&records[cur.piece])
			if x.full(n) {
				return true, nil
			}
			x.out.Records, x.size, x.records = append(x.out.Records, records[cur.piece]), x.size+n, x.records+1
		}
	}
	return false, nil
}

// bodyOf returns the body of an event that can name a policy or blobs, nil if it can't be
// read: the export then has the event alone.
func (tr *Transfer) bodyOf(ev *turns.Event) any {
	var body any
	switch ev.Kind {
	case turns.KindOpened:
		body = new(turns.OpenedBody)
	case turns.KindChanged:
		body = new(turns.ChangedBody)
	case turns.KindCompaction:
		body = new(turns.CompactionBody)
	case turns.KindTurn:
		body = new(turns.TurnBody)
	case turns.KindRedacted:
		b := new(turns.RedactedBody)
		if err := tr.content.Open(ev, b); err != nil {
			return nil
		}
		if body, err := content.RedactedContent(b); err == nil {
			return body
		}
		return nil
	default:
		return nil
	}
	if err := tr.content.Open(ev, body); err != nil {
		return nil
	}
	return body
}

// policyIn returns the policy that the body of an event names, zero if it names none.
func policyIn(body any) turns.PolicyRef {
	switch b := body.(type) {
	case *turns.OpenedBody:
		return b.Settings.Policy
	case *turns.ChangedBody:
		return b.Settings.Policy
	case *turns.CompactionBody:
		return b.Policy
	case *turns.TurnBody: // the view that the turn's call was made with
		if b.Context == nil {
			break
		}
		if r, err := view.ParseRecipe(b.Context.Recipe); err == nil && r.Requested != nil {
			return turns.PolicyRef{Name: r.Requested.Name, Set: r.Requested.Set, Digest: r.Policy}
		}
	}
	return turns.PolicyRef{}
}

// policyRecord returns the record of a policy's content, as the ledger has it, else as
// this build has it. It returns none if neither has the content.
func (tr *Transfer) policyRecord(ctx context.Context, tenant string, ref turns.PolicyRef) ([]api.ExportRecord, error) {
	if ref.Digest.IsZero() {
		return nil, nil
	}
	record := func(content []byte) []api.ExportRecord {
		return []api.ExportRecord{{Policy: &api.ExportPolicy{Digest: ref.Digest, Content: content}}}
	}
	seq, ok, err := tr.reader.Projections.PolicyContent(tenant, ref.Digest)
	if err != nil {
		return nil, err
	}
	if ok {
		if _, body, err := tr.reader.PolicyAt(seq); err == nil && policy.DigestOf(body.Content) == ref.Digest {
			return record(body.Content), nil
		}
	}
	if p, err := tr.reader.ResolvePolicy(ctx, tenant, ref); err == nil {
		return record(p.Bytes()), nil
	}
	return nil, nil
}

// blobRecords returns the records of a blob, none if the body does not say what opens it.
// The cache keeps a blob that takes several pages.
func (x *exportPage) blobRecords(ctx context.Context, body any, address turns.Hash) (records []api.ExportRecord, err error) {
	digest, ok := content.DigestAt(body, address)
	if !ok {
		return nil, nil
	}
	sealed, err := x.transfer.content.SealedBlob(ctx, x.tenant, address)
	if err != nil {
		return nil, err
	}
	blob := &api.ExportBlob{Root: x.root, Digest: digest}
	blob.Sealed, blob.Pieces, records = x.transfer.split(sealed)
	return append(records, api.ExportRecord{Blob: blob}), nil
}

// firstMentions says which event of an export is the first to name a blob, for a run
// of events without a gap. The events of an export never change, so it holds for all
// exports of the session. An event outside the run begins a new one. Then a blob
// goes out twice, which does no harm.
//
// Invariant: the first of all events that name a blob counts as the first, whatever
// the run. So a blob goes out before the events that need it, whichever daemons make
// the pages.
//
// Safe for concurrent use.
type firstMentions struct {
	mu     sync.Mutex
	lo, hi uint64 // the run [lo, hi); events are numbered across all chains
	first  map[turns.Hash]uint64
}

// areFirst reports for each blob of event number at whether the event is the first
// to name it.
func (f *firstMentions) areFirst(at uint64, blobs []turns.BlobLink) []bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil || at < f.lo || at > f.hi {
		f.lo, f.hi, f.first = at, at, make(map[turns.Hash]uint64)
	}
	out := make([]bool, len(blobs))
	for i, b := range blobs {
		if _, named := f.first[b.Address]; !named && at == f.hi {
			f.first[b.Address] = at
		}
		out[i] = f.first[b.Address] == at
	}
	f.hi = max(f.hi, at+1)
	return out
}

// size returns about how many bytes of memory f takes.
func (f *firstMentions) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return 256 + 128*len(f.first)
}

// mentionsOf returns what earlier exports of a session found.
func (tr *Transfer) mentionsOf(session turns.ID) *firstMentions {
	if f, ok := tr.exports.Get(session); ok {
		return f
	}
	return new(firstMentions)
}

// split returns b whole if a message has room for it, or else the names of its
// pieces and the records of the pieces.
func (tr *Transfer) split(b []byte) (whole []byte, names []turns.Hash, pieces []api.ExportRecord) {
	if len(b) <= tr.page.PieceBytes() {
		return b, nil, nil
	}
	for piece := range slices.Chunk(b, tr.page.PieceBytes()) {
		names = append(names, api.PieceDigest(piece))
		pieces = append(pieces, api.ExportRecord{Piece: &api.ExportPiece{Sealed: piece}})
	}
	return nil, names, pieces
}

// recordBytes returns about how many bytes of JSON a record takes.
func recordBytes(r *api.ExportRecord) int {
	switch {
	case r.Piece != nil:
		return 100 + len(r.Piece.Sealed)*4/3
	case r.Blob != nil:
		return 300 + len(r.Blob.Sealed)*4/3 + 80*len(r.Blob.Pieces)
	case r.Policy != nil:
		return 200 + len(r.Policy.Content)*4/3
	case r.Event != nil:
		return 200 + len(r.Event.Payload)*4/3 + 80*len(r.Event.Pieces)
	}
	return 200
}

// exportedChain is a chain of an export.
type exportedChain struct {
	id     turns.ID
	last   uint64 // last index that is exported
	before uint64 // number of events in the chains before this one
}

// ancestry returns the chains of a session's export, root first. The chain of an
// ancestor ends with the event of the fork point, or, if events before that were redacted, with the newest that has the body of one.
func (tr *Transfer) ancestry(c reader.Caller, s *ledger.Session) ([]exportedChain, error) {
	chains := []exportedChain{{id: s.ID, last: s.Tail.Index}}
	for f := s.ForkOf; f != nil; {
		up, err := tr.reader.Projections.Session(f.At.Session)
		if err != nil {
			return nil, err
		}
		if err := reader.CheckVisible(c, &up); err != nil {
			return nil, err
		}
		t, err := tr.reader.Projections.Turn(f.At)
		if err != nil {
			return nil, err
		}
		last, err := tr.withRedacted(up.ID, t.Index)
		if err != nil {
			return nil, err
		}
		chains = append(chains, exportedChain{id: up.ID, last: last})
		f = up.ForkOf
	}
	slices.Reverse(chains)
	for i := range chains[1:] {
		chains[i+1].before = chains[i].before + chains[i].last + 1
	}
	return chains, nil
}

// withRedacted returns the last event of a session that is needed to read those up to an index.
func (tr *Transfer) withRedacted(session turns.ID, index uint64) (uint64, error) {
	for more := true; more; { // what comes between may be redacted too
		more = false
		for x, err := range tr.reader.Projections.Redactions(session) {
			if err != nil {
				return 0, err
			}
			of, err := tr.reader.Projections.Index(session, x.Event)
			if err != nil {
				return 0, err
			}
			if x.Newest && of <= index && x.By > index {
				index, more = x.By, true
			}
		}
	}
	return index, nil
}

// exportCursor is the place of the next record of an export.
type exportCursor struct {
	chain int
	index uint64
	part  int // index of a blob of the event; their number for its policy, one more for the event itself
	piece int // index of a piece of the part
}

// String returns the cursor as a page gives it in next.
func (c exportCursor) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", c.chain, c.index, c.part, c.piece)
}

// parseExportCursor parses the next of a page.
func parseExportCursor(after string, chains int) (c exportCursor, err error) {
	if after == "" {
		return c, nil
	}
	f := strings.Split(after, ".")
	if len(f) == 4 {
		var e1, e2, e3, e4 error
		c.chain, e1 = strconv.Atoi(f[0])
		c.index, e2 = strconv.ParseUint(f[1], 10, 64)
		c.part, e3 = strconv.Atoi(f[2])
		c.piece, e4 = strconv.Atoi(f[3])
		if errors.Join(e1, e2, e3, e4) == nil && c.chain >= 0 && c.chain < chains && c.part >= 0 && c.piece >= 0 {
			return c, nil
		}
	}
	return c, api.FieldErrorf("/after", "not what a page gave as next")
}
