package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// Import is session.import: it stores records of an export, in their order. An event
// keeps its bytes and so its hash. An event that is stored already is counted as
// existing. Import stores nothing that does not verify: before it appends an event
// it makes the checks of the projections and of the verification.
//
// A record that is refused ends the request; the records before it stay stored, and
// the same request sent again finds them.
//
// It believes what no check can tell, as the word of the ledger that the session's
// origin names: times, usage, the counts of a counter that this build does not know.
// So an agent can't import a session that claims to come from this ledger.
func (tr *Transfer) Import(ctx context.Context, c reader.Caller, req api.ImportRecords) (*api.Imported, error) {
	out := new(api.Imported)
	for i := range req.Records {
		if err := tr.importRecord(ctx, c, &req.Records[i], out); err != nil {
			if out.Stored > 0 { // by this request
				err = writer.AfterCommit(err)
			}
			return nil, atRecord(err, i, out.Stored+out.Existing)
		}
	}
	return out, nil
}

// atRecord returns err with the record that it is about, and the number of events
// before it that are stored. It is in the text that the caller gets, whatever err is.
func atRecord(err error, record int, stored uint64) error {
	var field *turns.FieldError
	var coded *api.Error
	switch {
	case errors.As(err, &field):
		reason := fmt.Sprintf("%s (%d events before this record are stored)", field.Reason, stored)
		return &turns.FieldError{Field: fmt.Sprintf("/records/%d%s", record, field.Field), Reason: reason, Kind: field.Kind}
	case errors.As(err, &coded):
		message := fmt.Sprintf("record %d (%d events before it are stored): %s", record, stored, coded.Message)
		return &api.Error{Code: coded.Code, Message: message, Details: coded.Details}
	}
	return fmt.Errorf("record %d (%d events before it are stored): %w", record, stored, err)
}

// importRecord stores one record.
func (tr *Transfer) importRecord(ctx context.Context, c reader.Caller, r *api.ExportRecord, out *api.Imported) error {
	switch {
	case r.Ledger != nil:
		if r.Ledger.Version != ExportVersion {
			if r.Ledger.Version > ExportVersion {
				return &turns.VersionError{What: "export", Version: strconv.Itoa(r.Ledger.Version), Known: strconv.Itoa(ExportVersion)}
			}
			return &api.Error{Code: api.Unsupported, Message: fmt.Sprintf("export version %d, this daemon knows %d", r.Ledger.Version, ExportVersion)}
		}
		return nil
	case r.Key != nil:
		return tr.importKey(ctx, c, r.Key)
	case r.Piece != nil:
		return tr.content.Blobs.PutBlob(ctx, c.Tenant, api.PieceDigest(r.Piece.Sealed), r.Piece.Sealed)
	case r.Blob != nil:
		return tr.importBlob(ctx, c, r.Blob)
	case r.Policy != nil:
		return tr.importPolicy(c, r.Policy)
	case r.Event != nil:
		return tr.importEvent(ctx, c, r.Event, out)
	}
	return api.FieldErrorf("", "neither nexus_export, key, piece, blob, policy nor event")
}

// missingDependency maps the error for a missing key or blob to a conflict: the
// record that has it must come first.
func missingDependency(err error) error {
	if errors.Is(err, seal.ErrNoKey) || errors.Is(err, ledger.ErrNotFound) {
		return &api.Error{Code: api.Conflict, Message: fmt.Sprintf("what it needs must come before it: %v", err)}
	}
	return err
}

// notImportable returns the error for an id that the caller may not use. It does not
// tell whose id it is.
func notImportable(id turns.ID) error {
	return &api.Error{Code: api.IDReused, Message: fmt.Sprintf("session %s is not one that you can import", id)}
}

// importBlob stores a blob if its content has the digest that names it, under the
// key of its tree. It does not store a blob that does not open: a blob is written
// once, and a wrong first copy would block the right one.
func (tr *Transfer) importBlob(ctx context.Context, c reader.Caller, b *api.ExportBlob) error {
	sealed, err := tr.joinPieces(ctx, c, "/blob/pieces", b.Sealed, b.Pieces)
	if err != nil {
		return err
	}
	t, err := tr.tree(c, b.Root)
	if err != nil {
		return missingDependency(fmt.Errorf("the key of a blob's tree: %w", err))
	}
	plain := sealed
	if tr.content.Keys != nil {
		plain, err = seal.OpenBlob(b.Digest, sealed)
	}
	if err == nil {
		err = t.Check(b.Digest, plain)
	}
	if err != nil {
		return err
	}
	return tr.content.Blobs.PutBlob(ctx, c.Tenant, seal.BlobAddress(b.Digest), sealed)
}

// pendingPolicy names the content of a policy that came before the event that names
// it. The content stays in memory until then, so that an import stores no policy that
// no session names.
type pendingPolicy struct {
	reader.Caller
	digest turns.Hash
}

// importPolicy takes the content of a policy. It refuses content that has another
// digest, or that this build can't read. A name does not come with the content: in
// this ledger no agent put it.
//
// A daemon that ends before the event comes loses the content. The event is then
// refused, and the same records sent again bring both.
func (tr *Transfer) importPolicy(c reader.Caller, r *api.ExportPolicy) error {
	switch {
	case len(r.Content) > turns.MaxPolicy:
		return &turns.FieldError{Field: "/policy/content", Reason: fmt.Sprintf("%d bytes, the limit is %d", len(r.Content), turns.MaxPolicy), Kind: ledger.ErrTooLarge}
	case policy.DigestOf(r.Content) != r.Digest:
		return fmt.Errorf("%w: the policy's digest is %v, the record says %v", ledger.ErrCorrupt, policy.DigestOf(r.Content), r.Digest)
	}
	p, err := policy.Decode(r.Content)
	if err != nil {
		return &api.Error{Code: api.Unsupported, Message: fmt.Sprintf("policy %v: %v", r.Digest, err)}
	}
	if stored, err := tr.reader.IsStored(c.Tenant, r.Digest); stored || err != nil {
		return err
	}
	tr.pendingPolicies.Put(pendingPolicy{c, r.Digest}, p, len(r.Content)+1<<10)
	return nil
}

// pendingPolicyOf returns the content that the caller's import brought for the policy
// that an event names.
func (tr *Transfer) pendingPolicyOf(c reader.Caller, ref turns.PolicyRef) (policy.Policy, bool) {
	p, ok := tr.pendingPolicies.Get(pendingPolicy{c, ref.Digest})
	return p, ok && p.Name == ref.Name
}

// storePolicy stores the content of the policy that an event names: what the import
// brought, else what this daemon has. It stores nothing if there is neither.
func (tr *Transfer) storePolicy(ctx context.Context, c reader.Caller, ref turns.PolicyRef) error {
	if ref.Digest.IsZero() {
		return nil
	}
	if p, ok := tr.pendingPolicyOf(c, ref); ok {
		return tr.policies.Store(ctx, c, p)
	}
	return tr.policies.Keep(ctx, c, ref)
}

// joinPieces returns the content of a record, whole or from pieces that came before
// it.
func (tr *Transfer) joinPieces(ctx context.Context, c reader.Caller, field string, whole []byte, pieces []turns.Hash) ([]byte, error) {
	if err := request.Expand(ctx, len(pieces)*tr.page.PieceBytes()); err != nil {
		return nil, err
	}
	whole = slices.Clip(whole) // the append must not change the request
	for i, d := range pieces {
		piece, err := tr.content.Blobs.GetBlob(ctx, c.Tenant, d)
		at := fmt.Sprintf("%s/%d", field, i)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, &turns.FieldError{Field: at, Reason: fmt.Sprintf("no piece %s is stored; its record must come first", d), Kind: ledger.ErrNotFound}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if api.PieceDigest(piece) != d {
			return nil, api.FieldErrorf(at, "not a piece")
		}
		if len(whole)+len(piece) > turns.MaxBody {
			return nil, &turns.FieldError{Field: field, Reason: fmt.Sprintf("more than %d bytes", turns.MaxBody), Kind: ledger.ErrTooLarge}
		}
		whole = append(whole, piece...)
	}
	return whole, nil
}

// importEvent appends an event that follows the end of its chain.
//
// Crash states: before the append nothing is stored. The key of a session is stored
// after its first event, so that no import leaves a key for a session that it did
// not open. A crash between the two leaves a session that can't be read. The same
// import brings the key again, and it is stored if it opens the event.
func (tr *Transfer) importEvent(ctx context.Context, c reader.Caller, r *api.ExportEvent, out *api.Imported) error {
	payload, err := tr.joinPieces(ctx, c, "/event/pieces", r.Payload, r.Pieces)
	if err != nil {
		return err
	}
	if got := turns.HashEvent(payload); got != r.Hash {
		return fmt.Errorf("%w: the event's hash is %v, the record says %v", ledger.ErrCorrupt, got, r.Hash)
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return err
	}
	id, ok := ev.Chain.Session()
	if !ok {
		return api.FieldErrorf("/event", "an event of chain %s; only sessions are imported", ev.Chain)
	}
	for _, id := range []turns.ID{id, ev.Successor} {
		if err := tr.writer.CheckID("/event", id); err != nil {
			return err
		}
	}
	if ev.Kind == turns.KindOpened {
		opened, err := tr.writer.HoldOpening(ctx, id)
		if err != nil {
			return err
		}
		defer opened()
	}
	ch, release, err := tr.writer.Hold(ctx, c.Tenant+"/"+id.String())
	if err != nil {
		return err
	}
	defer release()
	for {
		s, err := tr.importTail(ctx, c, ev, id)
		if err != nil {
			return err
		}
		if !s.ID.IsZero() && ev.Index <= s.Tail.Index {
			was, err := tr.reader.Projections.EventAt(id, ev.Index)
			if err != nil {
				return err
			}
			if turns.HashEvent(was) != r.Hash {
				return &api.Error{Code: api.Conflict, Message: fmt.Sprintf("session %s has another event at index %d", id, ev.Index)}
			}
			if err := tr.claimLabel(ctx, c, s, ev.Index); err != nil {
				return err
			}
			out.Existing++
			return nil
		}
		if err := tr.checkImportable(c, s, ev); err != nil {
			return err
		}
		next, err := tr.admitImport(ctx, c, s, ev, payload)
		if errors.Is(err, ledger.ErrConflict) && ctx.Err() == nil {
			continue
		}
		if errors.Is(err, ledger.ErrDuplicateOpening) {
			return notImportable(id)
		}
		if err != nil {
			return err
		}
		after, err := tr.checkImport(ctx, c, ch, s, ev, next)
		if err != nil {
			return err
		}
		var key *seal.Content
		if ev.Kind == turns.KindOpened && tr.content.Keys != nil {
			if key, err = tr.newKey(c, id); err != nil {
				return err
			}
		}
		seq, err := tr.writer.AppendAdmitted(ctx, next)
		if errors.Is(err, ledger.ErrConflict) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		if ev.Kind == turns.KindOpened {
			// Another daemon may have opened the id on another subject.
			if err := tr.reader.Projections.WaitFor(ctx, seq); err != nil {
				return writer.AfterCommit(err)
			}
			if own, err := tr.reader.HasID(id, next.Session.Subject()); err != nil {
				return err
			} else if !own {
				return notImportable(id)
			}
		}
		if key != nil {
			if err := tr.putKey(id, *key); err != nil {
				return &api.Error{Code: api.Indeterminate, Message: fmt.Sprintf("session %s is stored, its key is not yet; import it again: %v", id, err)}
			}
		}
		ch.Seq = seq
		if after != nil {
			ch.Calls = *after
		}
		out.Stored++
		if err := tr.reader.Projections.WaitFor(ctx, seq); err != nil {
			return writer.AfterCommit(err)
		}
		if ev.Kind == turns.KindRedacted {
			tr.content.NoRedactions(false)
		}
		if err := tr.reader.AsideError(c.Tenant, id); err != nil || !holdsSettings(ev.Kind) {
			return err
		}
		now, err := tr.reader.Projections.Session(id)
		if err != nil {
			return err
		}
		return writer.AfterCommit(tr.claimLabel(ctx, c, &now, ev.Index))
	}
}

// holdsSettings reports whether events of a kind have settings.
func holdsSettings(k turns.Kind) bool { return k == turns.KindOpened || k == turns.KindChanged }

// claimLabel claims the label in the settings of the event at index for the session,
// if those settings are in force and the label is free here.
//
// Crash states: between the event and the claim, a session that shows a label which
// does not name it. The same import again claims the label.
func (tr *Transfer) claimLabel(ctx context.Context, c reader.Caller, s *ledger.Session, index uint64) error {
	if s.Final() || s.Settings != index {
		return nil
	}
	_, name, _, err := tr.reader.StoredSettings(s)
	if err != nil || name == "" {
		return nil // unreadable settings have no label
	}
	l, release, err := tr.sessions.HoldLabel(ctx, reader.Caller{Tenant: s.Tenant, Agent: s.Agent, Key: c.Key}, name, s.ID)
	if err == nil {
		defer release()
		if l.Row.Session != s.ID {
			err = l.Claim(ctx, s.ID)
		}
	}
	if errors.Is(err, ledger.ErrConflict) {
		return nil // another session has it here
	}
	return err
}

// importTail returns the fold that an imported event must follow, the zero Session
// for the first event of a chain. The parent of a fork must be stored before it.
func (tr *Transfer) importTail(ctx context.Context, c reader.Caller, ev *turns.Event, id turns.ID) (*ledger.Session, error) {
	end, err := tr.reader.ChainEnd(ctx, c.Tenant, id)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	s, err := tr.reader.Projections.Session(id)
	if errors.Is(err, ledger.ErrNotFound) {
		if end.Seq > 0 {
			return nil, tr.reader.BehindError(&ledger.Session{ID: id, Tenant: c.Tenant}, end.Seq)
		}
		if ev.Index != 0 {
			return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("event %d of session %s comes before its first", ev.Index, id)}
		}
		if f := ev.ForkOf; f != nil {
			_, err := tr.reader.FindSession(ctx, c, f.At.Session, true)
			if err == nil {
				_, err = tr.reader.Projections.Turn(f.At)
			}
			if err != nil {
				return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("session %s forks from %s, which is not stored here", id, f.At)}
			}
		}
		return new(ledger.Session), nil
	}
	if err != nil {
		return nil, err
	}
	if reader.CheckVisible(c, &s) != nil {
		return nil, notImportable(id)
	}
	if s.Tail.Seq < end.Seq && s.Subject() == end.Subject {
		return nil, tr.reader.BehindError(&s, end.Seq)
	}
	if ev.Index > s.Tail.Index+1 {
		return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("event %d of session %s follows event %d", ev.Index, id, s.Tail.Index)}
	}
	return &s, nil
}

// checkImportable checks that the caller may bring an event that is not stored here,
// after s: an event of one of its own sessions, from another ledger, and sealed if
// this ledger seals.
func (tr *Transfer) checkImportable(c reader.Caller, s *ledger.Session, ev *turns.Event) error {
	agent, origin := s.Agent, &s.Origin
	if ev.Kind == turns.KindOpened {
		agent, origin = ev.Agent, ev.Origin
	}
	denied := func(format string, args ...any) error {
		return &api.Error{Code: api.Denied, Message: fmt.Sprintf(format, args...)}
	}
	if origin.Ledger == tr.content.Ledger && origin.Tenant != c.Tenant {
		return denied("session %s was begun in this ledger under another tenant", origin.Session)
	}
	if !c.Operator() {
		switch {
		case agent != c.Agent:
			return denied("session %s belongs to agent %s", origin.Session, agent)
		case ev.Role == turns.Main && ev.ForkOf == nil:
			return denied("session %s is of kind main, which is granted by the daemon's configuration", origin.Session)
		case origin.Ledger == tr.content.Ledger:
			return denied("session %s was begun in this ledger, and event %d of it is not stored here; only the operator brings that back", origin.Session, ev.Index)
		case ev.Kind == turns.KindRedacted: // and so is one taken
			return denied("event %d of session %s redacts another; only the operator brings that", ev.Index, origin.Session)
		case ev.State == turns.Erased: // a key is destroyed by who has the keys, and no event destroys one
			return denied("event %d of session %s says that the session is erased; only the operator brings that", ev.Index, origin.Session)
		case ev.State == turns.Reset && !ev.Successor.IsZero(): // this ledger would open it, in the name of whoever the event says
			if here, err := tr.sessions.IsResetHere(&ledger.Session{ID: s.ID, Successor: ev.Successor}); err == nil && here {
				return denied("event %d of session %s names a successor that this ledger would open, and is not stored here; only the operator brings that back", ev.Index, s.ID)
			}
		}
	}
	if id, ok := ev.Chain.Session(); ok && len(ev.Keys) > 0 {
		if ev.Keys[0] != id {
			return fmt.Errorf("%w: event %s of session %s is sealed under %s first", ledger.ErrCorrupt, ev.ID, id, ev.Keys[0])
		}
		for _, other := range ev.Keys[1:] { // a key that came with this import is stored with the first event of its own session only
			if _, err := tr.reader.Projections.Session(other); err != nil {
				return missingDependency(fmt.Errorf("the session whose key event %s is sealed under, too: %w", ev.ID, err))
			}
		}
	}
	if tenant, name, _ := strings.Cut(ev.Actor, "/"); ev.Actor != "" && (name != agent && (name != api.Operator || ev.State != turns.Erased && ev.Kind != turns.KindRedacted) || !turns.ValidName(tenant)) {
		return fmt.Errorf("%w: event %s of agent %s says that its actor is %q", ledger.ErrCorrupt, ev.ID, agent, ev.Actor)
	}
	switch sealed := ev.Encoding&turns.Sealed != 0; {
	case tr.content.Keys == nil && sealed:
		return &api.Error{Code: api.Unsupported, Message: "this ledger does not seal and keeps no keys; it can't take a sealed event"}
	case tr.content.Keys != nil && !sealed && len(ev.Body) > 0:
		return &api.Error{Code: api.Unsupported, Message: "this ledger seals what it stores; the event is not sealed, and no erasure could reach it"}
	}
	return nil
}

// admitImport asks whether an event may follow s.
func (tr *Transfer) admitImport(ctx context.Context, c reader.Caller, s *ledger.Session, ev *turns.Event, payload []byte) (*writer.Admitted, error) {
	id, _ := ev.Chain.Session()
	root := s.Root
	if ev.Kind == turns.KindOpened {
		root = ev.Root
		if tr.content.Keys != nil && !slices.Equal(ev.Keys, []turns.ID{id}) {
			return nil, fmt.Errorf("%w: the first event of session %s is not sealed under its own key", ledger.ErrCorrupt, id)
		}
	}
	return tr.writer.Admit(ctx, tr.reader.Projections.History(), ledger.SessionSubject(c.Tenant, root, id), s.Tail.Seq, ev, payload)
}

// checkImport checks the content of an admitted event that follows s, as the
// verification does, and that this daemon knows its settings. It then stores the
// content of the policy that the event names. It returns what is
// known of the calls after a turn, nil if nothing is.
func (tr *Transfer) checkImport(ctx context.Context, c reader.Caller, ch *writer.Chain, s *ledger.Session, ev *turns.Event, next *writer.Admitted) (after *paths.KnownCalls, err error) {
	var known paths.KnownCalls
	var open *ledger.Calls
	if ev.Kind.IsTurn() {
		head, err := tr.reader.HeadNode(s)
		if err != nil {
			return nil, err
		}
		switch known, err = tr.paths.OpenCalls(ctx, c.Tenant, s, &ch.Calls, head); {
		case err == nil:
			open = &known.Open
		case !errors.Is(err, ledger.ErrErased) || !c.Operator(): // the redacted event that has its body may follow
			return nil, err
		}
	}
	release, err := tr.waitToOpen(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	body, calls, err := content.CheckBody(tr.keyring(c), ev, next.Node, open)
	if errors.Is(err, ledger.ErrErased) && c.Operator() && tr.isTaken(c, ev) {
		return nil, nil // it was redacted: nobody can read it, and the event that has its body follows
	}
	if err != nil {
		return nil, missingDependency(err)
	}
	if b, ok := body.(*turns.RedactedBody); ok {
		if body, err = tr.reader.CheckRedacted(ev, b); err != nil {
			return nil, err
		}
	}
	if calls != nil && open != nil && ev.Kind.IsTurn() {
		if b, ok := body.(*turns.TurnBody); ok {
			if known, err = known.Then(*calls, b.Messages, b.Response); err != nil {
				return nil, err
			}
		}
		known.At = ev.Ref()
		after = &known
	}
	switch b := body.(type) { // of a redacted event that of the one which it is for
	case *turns.OpenedBody:
		err = tr.checkSettings(ctx, c, b.Label, &b.Settings)
	case *turns.ChangedBody:
		err = tr.checkSettings(ctx, c, b.Label, &b.Settings)
	default:
		err = tr.content.CheckBodySize(body)
	}
	if err != nil {
		return after, err
	}
	var k content.Tree
	if len(ev.Blobs) > 0 {
		if err = tr.content.KeepBlobs(ctx, c.Tenant, ev.Blobs); err == nil {
			k, err = tr.tree(c, next.Session.Root)
		}
		if err == nil {
			err = tr.content.CheckBlobs(ctx, c.Tenant, k, ev, body)
		}
	}
	if err == nil {
		err = tr.content.CheckCounts(ctx, c.Tenant, k, ev, body)
	}
	if wrong := (*content.CountError)(nil); errors.As(err, &wrong) {
		err = api.FieldErrorf("/event", "%s", wrong.Text)
	}
	if err != nil {
		return after, missingDependency(err)
	}
	return after, tr.storePolicy(ctx, c, policyIn(body))
}

// checkSettings checks that this daemon knows the settings, and that a reply can
// show them.
func (tr *Transfer) checkSettings(ctx context.Context, c reader.Caller, label string, set *turns.Settings) error {
	if label != "" {
		if err := turns.ValidateLabel("/event/label", label); err != nil {
			return err
		}
	}
	if _, ok := tr.pendingPolicyOf(c, set.Policy); ok {
		return tr.content.CheckSettingsSize(set)
	}
	if _, err := tr.reader.FindPolicy(ctx, c.Tenant, set.Policy); errors.Is(err, turns.ErrUnsupported) || errors.Is(err, turns.ErrMalformed) {
		return &api.Error{Code: api.Unsupported, Message: fmt.Sprintf("the session's policy: %v", err)}
	} else if err != nil {
		return err
	}
	return tr.content.CheckSettingsSize(set)
}

// isTaken reports whether the key of an event was taken from that of its session.
func (tr *Transfer) isTaken(c reader.Caller, ev *turns.Event) bool {
	if len(ev.Keys) == 0 {
		return false
	}
	k, err := importKeyring{tr, c}.Content(ev.Keys[0])
	return err == nil && !k.Has(ev.Index)
}
