package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections/compare"
	"nexus/projections/db"
	"nexus/turns"
)

// maxProblems bounds the problems that one verification lists; it counts all of them. A
// reply lists fewer if they would take more than half a message. problemBytes bounds the text of one.
const maxProblems, problemBytes = 1000, 512

// Verify is audit.verify. It reads the whole log, or the chains of some sessions,
// and checks everything that can be checked: bytes and hashes, chains, lineage,
// coverage, calls, bodies, blobs, and every row of the projections. It believes
// nothing that the projections derived, and reads no blob from a cache.
//
// It ends at the position of the rows that it compares. What is applied later is none of its
// business. With a limit it answers a page; see pagedVerifications.
func (au *Audit) Verify(ctx context.Context, c reader.Caller, req api.Verify) (_ *api.Verified, err error) {
	limit, err := req.LimitOf(math.MaxInt, maxPage)
	if err != nil {
		return nil, err
	}
	if len(req.Sessions) == 0 && req.Page != (api.Page{}) {
		return nil, api.FieldErrorf("/sessions", "a verification in pages is of sessions: name them")
	}
	if req.Checkpoint != "" && len(req.Sessions) > 0 {
		return nil, api.FieldErrorf("/checkpoint", "a checkpoint is of the whole ledger: name no sessions")
	}
	if req.After != "" {
		return au.nextPage(ctx, c, req, limit)
	}
	leave, err := au.startVerification(c, len(req.Sessions) > 0)
	if err != nil && len(req.Sessions) > 0 && au.paged.giveWay(c.Actor()) {
		leave, err = au.startVerification(c, true)
	}
	if err != nil {
		return nil, err
	}
	v := au.newVerifier(c, leave)
	if req.Limit > 0 {
		return au.makePage(ctx, &paged{name: rand.Text(), sessions: req.Sessions, v: v, working: true, waits: allWaits}, req, limit)
	}
	defer func() { err = errors.Join(err, v.close()) }()
	_, err = v.advance(ctx, req, limit)
	return v.out, err
}

// advance checks the next events, limit of them at most. With what they leave of the limit it
// compares rows. more is whether anything is left.
func (v *verifier) advance(ctx context.Context, req api.Verify, limit int) (more bool, err error) {
	defer func(began time.Time) {
		v.took += v.audit.reader.Now().Sub(began)
		v.out.DurationMS = uint64(v.took / time.Millisecond)
		v.content = nil // what a page opened does not wait for the next one
	}(v.audit.reader.Now())
	if lost := v.audit.reader.AccessNow().Lost; lost != nil {
		return false, v.reportLost(req, lost)
	}
	if v.rows == nil {
		if err := v.begin(ctx, req); err != nil {
			return false, err
		}
	}
	v.content = v.audit.content.Fresh(maxBlobBytes)
	more, err = v.check(ctx, req, limit)
	if damaged := (*db.DamagedError)(nil); errors.As(err, &damaged) {
		v.problem("", api.Problem{Code: api.Corrupt, Message: err.Error()})
	} else if err != nil || more {
		return more, err
	}
	if err := v.reportAside(); err != nil {
		return false, err
	}
	v.out.OK = v.out.Count == 0
	return false, nil
}

// begin takes the rows that are compared, at whose position the verification ends.
func (v *verifier) begin(ctx context.Context, req api.Verify) error {
	r := v.audit.reader
	st, err := r.Log.State(ctx)
	if err != nil {
		return err
	}
	if len(req.Sessions) > 0 {
		if v.chains, err = v.subjectsFor(ctx, req.Sessions); err != nil {
			return err
		}
	} else if !v.caller.Operator() {
		return notOperator()
	}
	if err := st.Sound(); err != nil {
		v.problem("", api.Problem{Code: api.Corrupt, Message: err.Error()})
	}
	if err := r.Projections.WaitFor(ctx, st.Last); err != nil {
		return err
	}
	if v.chains == nil {
		v.rows, err = r.Projections.Compare(st.Identity)
	} else {
		v.rows, err = r.Projections.CompareSome()
	}
	if err == nil {
		v.out.Last = api.Uint(v.rows.Last())
	}
	return err
}

// check is advance without what ends a verification.
func (v *verifier) check(ctx context.Context, req api.Verify, limit int) (more bool, err error) {
	if v.chains == nil {
		if err := v.read(ctx, uint64(v.out.Last)); err != nil {
			return false, err
		}
		if err := v.reportRows(ctx); err != nil {
			return false, err
		}
		return false, v.reportCheckpoints(req)
	}
	n, err := v.readChains(ctx, uint64(v.out.Last), limit)
	if err != nil || n == limit {
		return err == nil, err
	}
	if req.Limit > 0 {
		if more, err := v.rows.CompareSomeRows(ctx, (limit-n)*rowsPerEvent); err != nil || more {
			return more, err
		}
	}
	return false, v.reportRows(ctx)
}

// close gives back what the verification holds.
func (v *verifier) close() (err error) {
	if v.rows != nil {
		err = v.rows.Close()
	}
	v.leave()
	return err
}

func notOperator() error {
	return &api.Error{Code: api.Denied, Message: "only the operator verifies the whole ledger; name sessions"}
}

// reportLost says what the log has lost: the projections, from which reads are answered, are of
// another history than the log, so nothing else is compared, and what was found before is left out.
func (v *verifier) reportLost(req api.Verify, lost []reader.Problem) error {
	if len(req.Sessions) == 0 && !v.caller.Operator() {
		return notOperator()
	}
	v.out = &api.Verified{Problems: []api.Problem{}, Last: api.Uint(v.audit.reader.Projections.Applied().Seq)}
	for _, p := range lost {
		if len(req.Sessions) == 0 || slices.Contains(req.Sessions, p.Session) && p.Tenant == v.caller.Tenant {
			v.problem(p.Tenant, p.Problem)
		}
	}
	if v.out.Count == 0 {
		v.problem("", api.Problem{Code: api.Corrupt, Message: "the log has lost records, none of these sessions; they were not compared"})
	}
	return nil
}

// verifier checks the records of the log one after the other. The comparison of the
// projections' rows folds them by the same pure rules, and says what each leads to.
type verifier struct {
	audit          *Audit
	content        *content.Store // of the page alone
	leave          func()         // gives its place back
	took           time.Duration  // it worked for so long
	caller         reader.Caller
	out            *api.Verified
	chains         []string // subjects, ancestors first; nil means the whole log
	chain          int      // index in chains of the one that is read
	at             uint64   // position of the last record of it that was checked; 0: of none
	through        api.Through
	total          uint64 // events that the projections have of chains
	rows           *compare.Pass
	open           *cache.Cache[turns.Ref, ledger.Calls] // calls open after a turn, if any
	duplicates     map[string]bool                       // subjects of duplicate openings
	erasedChannels map[string]bool                       // subjects of those whose keys went with sessions; nil: not looked for
	broken         map[string]bool                       // subjects of chains that can't be followed further
	isCut          bool                                  // the log could not be read to the end
}

// maxOpenBytes bounds the memory of the open calls that a verification remembers. It
// reads others again.
const maxOpenBytes = 64 << 20

// maxBlobBytes bounds the memory of the blobs that a verification has read and may meet
// again: a preamble in the next turns, the pieces of a part.
const maxBlobBytes = 64 << 20

// newVerifier returns a verifier that has a place until leave is called.
func (au *Audit) newVerifier(c reader.Caller, leave func()) *verifier {
	return &verifier{audit: au, leave: leave, caller: c, out: &api.Verified{Problems: []api.Problem{}},
		broken: make(map[string]bool), duplicates: make(map[string]bool),
		open: cache.New[turns.Ref, ledger.Calls](cache.NewBudget(maxOpenBytes), "verify")}
}

// problem notes a problem of a chain of a tenant. It tells other tenants only where
// the problem is.
func (v *verifier) problem(tenant string, p api.Problem) {
	if tenant != v.caller.Tenant && tenant != "" {
		p = api.Problem{Code: p.Code, Seq: p.Seq, Message: "an event of another tenant"}
	}
	v.out.Count++
	p.Message = page.ClipJSON(p.Message, problemBytes)
	if len(v.out.Problems) < min(maxProblems, v.audit.page.Payload()/2/(2*problemBytes)) {
		v.out.Problems = append(v.out.Problems, p)
	}
}

// parsed is a record with what can be said of it alone.
type parsed struct {
	ledger.Record
	tenant string
	chain  turns.Chain
	event  *turns.Event
	bad    error // the record is not what its subject and hash say
}

// parse decodes a record and checks its hash. It needs nothing of the records before, so it
// runs ahead of the checks that do.
func parse(r ledger.Record) (p parsed) {
	p.Record = r
	if p.tenant, p.chain, p.bad = ledger.ParseSubject(r.Subject); p.bad != nil {
		return p
	}
	if got := turns.HashEvent(r.Payload); got != r.Hash {
		p.bad = fmt.Errorf("%w: its hash is %v, stored with it is %v", ledger.ErrCorrupt, got, r.Hash)
	} else if p.event, p.bad = turns.Decode(r.Payload); p.bad == nil && p.event.Chain != p.chain {
		p.bad = fmt.Errorf("%w: an event of chain %s on subject %s", ledger.ErrCorrupt, p.event.Chain, r.Subject)
	}
	return p
}

// checkRecord checks one record of the log, with what parse found.
func (v *verifier) checkRecord(ctx context.Context, x parsed) error {
	v.out.Events++
	v.at = x.Seq
	r, tenant, chain, ev := x.Record, x.tenant, x.chain, x.event
	next, refused, err := v.rows.Apply(r, ev, x.bad)
	if err != nil {
		return err
	}
	p := api.Problem{Code: api.Corrupt, Seq: api.Uint(r.Seq)}
	p.Session, _ = chain.Session()
	v.through = api.Through{Session: p.Session, Seq: api.Uint(r.Seq)}
	if x.bad != nil {
		v.broken[r.Subject] = true
		p.Message = x.bad.Error()
		v.problem(tenant, p)
		return nil
	}
	p.Event, v.through.Event = ev.ID, ev.ID
	if v.broken[r.Subject] {
		return nil // the problem is listed already
	}
	if errors.Is(refused, ledger.ErrDuplicateOpening) && !v.duplicates[r.Subject] {
		v.duplicates[r.Subject] = true
		v.out.Duplicates++
		return nil
	}
	if err = refused; err != nil {
		v.broken[r.Subject] = true
	} else {
		err = v.checkEvent(ctx, tenant, ev, &next)
	}
	if errors.Is(err, ledger.ErrErased) {
		if erased, aerr := v.isErased(tenant, ev); aerr != nil {
			return aerr
		} else if erased {
			v.out.Erased++
			return nil
		}
		err = fmt.Errorf("%w, and no event says that it was erased", err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		p.Code, p.Message = api.FromError(err).Code, err.Error()
		if p.Code == api.Internal {
			p.Code = api.Corrupt
		}
		v.problem(tenant, p)
	}
	return nil
}

// maxAnswers bounds the turns that a verification looks at of those that name an external event.
const maxAnswers = 10_000

// isErased reports whether a key of an event is that of a session that was erased, or of the files of its turns: the
// one event that makes a key that is gone no damage. That event may follow on the log.
func (v *verifier) isErased(tenant string, ev *turns.Event) (bool, error) {
	if session, ok := ev.Chain.Session(); ok { // another event of the chain has its body
		if _, redacted, err := v.audit.reader.Projections.RedactedBy(session, v.redactedFor(ev)); redacted || err != nil {
			return redacted, err
		}
	}
	for _, id := range ev.Keys {
		s, err := v.audit.reader.Projections.Session(id)
		if err == nil && s.State == turns.Erased {
			return true, nil
		}
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return false, err
		}
	}
	if ev.Chain.Entity == turns.AgentEntity {
		return v.isForgotten(tenant, ev)
	}
	if ev.Chain.Entity != turns.ChannelEntity {
		return false, nil
	}
	by, err := v.audit.reader.Projections.TurnsOf(tenant, ev.Chain.ID, ev.ID, maxAnswers)
	if err != nil {
		return false, err
	}
	for _, turn := range by { // it was erased with a session that answered it
		if s, err := v.audit.reader.Projections.Session(turn.Session); err != nil {
			return false, err
		} else if s.State == turns.Erased {
			return true, nil
		}
	}
	if v.erasedChannels == nil {
		v.erasedChannels = make(map[string]bool)
		for s, err := range v.audit.reader.Projections.Erased() {
			if err != nil {
				return false, err
			}
			ch, err := v.audit.reader.ChannelOf(s.Tenant, s.Agent, reader.CodeChannel(s.ID))
			if err != nil {
				return false, err
			}
			v.erasedChannels[ch.Subject] = true
		}
	}
	return v.erasedChannels[ledger.Subject(tenant, ev.Chain.ID, ev.Chain)], nil
}

// isForgotten reports whether an event of an agent's chain is a memory that was withdrawn, or an old version of its document: the key
// of one that has a text is taken when that is redacted.
func (v *verifier) isForgotten(tenant string, ev *turns.Event) (bool, error) {
	p := v.audit.reader.Projections
	if ev.Kind == turns.KindDocument {
		now, err := p.Memories(tenant, ev.Chain.ID)
		return err == nil && ev.Document.Version < now.Document.Version, err
	}
	if ev.Kind != turns.KindMemory {
		return false, nil
	}
	m, err := p.Memory(tenant, ev.Chain.ID, ev.ID) // or the one that it is evidence of
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	return err == nil && m.Now().State == turns.Withdrawn, err
}

// redactedFor is the event that an event is, or that it redacts: of several that redact one, the newest can be read.
func (v *verifier) redactedFor(ev *turns.Event) turns.ID {
	if ev.Kind == turns.KindRedacted {
		return ev.To.Turn
	}
	return ev.ID
}

// checkEvent checks of an admitted event what its chain does not say.
func (v *verifier) checkEvent(ctx context.Context, tenant string, ev *turns.Event, next *ledger.Admitted) error {
	switch ev.Chain.Entity {
	case turns.SessionEntity:
		return v.checkSession(ctx, ev, next)
	case turns.TenantEntity:
		return v.checkPolicy(tenant, ev)
	case turns.ChannelEntity:
		return v.checkReceived(ctx, tenant, ev)
	case turns.AgentEntity:
		return v.checkMemory(tenant, ev.Chain.ID, ev)
	}
	return nil
}

// checkPolicy opens the body of an event of a tenant's chain, and compares it with the
// header.
func (v *verifier) checkPolicy(tenant string, ev *turns.Event) error {
	body := new(turns.PolicyBody)
	if err := content.OpenCommitted(v.content.OpeningKeyring(), ev, body); err != nil {
		return err
	}
	if _, err := reader.CheckPolicy(ev.Policy.Digest, body); err != nil {
		return err
	}
	if name := ev.Policy.Name; !name.IsZero() {
		if want, err := v.audit.reader.PolicyNameDigest(tenant, body.Name); err != nil || want != name || body.Version != ev.Policy.Version {
			return fmt.Errorf("%w: its body has version %d of a policy, its header version %d, or another name (%v)", ledger.ErrCorrupt, body.Version, ev.Policy.Version, err)
		}
	}
	return nil
}

// checkSession checks an event of a session's chain.
func (v *verifier) checkSession(ctx context.Context, ev *turns.Event, next *ledger.Admitted) error {
	if ev.Index == 0 {
		v.out.Sessions++
		// The tenant is in the subject, which no hash covers.
		if o := ev.Origin; o.Ledger == v.content.Ledger && o.Tenant != next.Session.Tenant {
			return fmt.Errorf("%w: the session was begun in this ledger under another tenant", ledger.ErrCorrupt)
		}
	}
	if ev.Kind == turns.KindCompaction {
		if err := lineage.CheckPlaced(v.rows, next.Node, ev.Span.Elisions); err != nil {
			return err
		}
	}
	return v.checkContent(ctx, &next.Session, next.Node, ev)
}

// checkContent checks the body and the blobs of an event.
func (v *verifier) checkContent(ctx context.Context, s *ledger.Session, node lineage.Node, ev *turns.Event) error {
	var open *ledger.Calls
	if ev.Kind.IsTurn() {
		open = v.openAt(ctx, s, ev.Parent)
	}
	body, after, err := content.CheckBody(v.content.OpeningKeyring(), ev, node, open)
	if after != nil && ev.Kind.IsTurn() && len(*after) > 0 {
		size := openBytes
		for _, id := range *after {
			size += openBytes + len(id)
		}
		v.open.Put(ev.Ref(), *after, size)
	}
	switch ev.Kind {
	case turns.KindTurn:
		v.out.Turns++
	case turns.KindCompaction:
		v.out.Compactions++
	}
	v.out.Blobs += uint64(len(ev.Blobs))
	if b, ok := body.(*turns.RedactedBody); ok && err == nil {
		body, err = v.audit.reader.CheckRedacted(ev, b)
	}
	if err != nil {
		return err
	}
	var k content.Tree
	if len(ev.Blobs) > 0 {
		if k, err = v.content.Tree(s.Root); err != nil {
			return err
		}
		if err := v.content.CheckBlobs(ctx, s.Tenant, k, ev, body); err != nil {
			return err
		}
	}
	err = v.content.CheckCounts(ctx, s.Tenant, k, ev, body)
	if wrong := (*content.CountError)(nil); errors.As(err, &wrong) {
		err = fmt.Errorf("%w: %w", ledger.ErrCorrupt, err)
	}
	return err
}

// openBytes is about what a turn with open calls, and each of its calls, takes in
// memory.
const openBytes = 64

// openAt returns the calls that wait after an admitted turn, nil if the content of
// the turn can't be read. A row without open calls follows from its header;
// other calls are remembered, or read again.
func (v *verifier) openAt(ctx context.Context, s *ledger.Session, ref turns.Ref) *ledger.Calls {
	if ref.IsZero() {
		return new(ledger.Calls)
	}
	if calls, ok := v.open.Get(ref); ok {
		return &calls
	}
	t, err := v.rows.Turn(ref)
	if err != nil {
		return nil
	}
	if t.Open == 0 {
		return new(ledger.Calls)
	}
	known, err := v.audit.paths.OpenCalls(ctx, s.Tenant, s, nil, t.Node)
	if err != nil {
		return nil
	}
	return &known.Open
}

// reportRows lists the rows of the projections that differ from the log.
func (v *verifier) reportRows(ctx context.Context) error {
	found, more, err := v.rows.Differences(ctx)
	if err != nil {
		return err
	}
	for _, d := range found {
		v.problem(d.Tenant, api.Problem{Code: api.Corrupt, Session: d.Session, Event: d.Event, Seq: api.Uint(d.Seq), Message: fmt.Sprintf("%v: %s", ledger.ErrCorrupt, &d)})
	}
	if more > 0 {
		v.problem("", api.Problem{Code: api.Corrupt, Message: fmt.Sprintf("%v: the projections have %d other rows that differ from the log", ledger.ErrCorrupt, more)})
	}
	return nil
}

// reportAside adds the chains that the projections set aside and that are not among
// the problems yet.
func (v *verifier) reportAside() error {
	for a, err := range v.audit.reader.Projections.AllAside() {
		if err != nil {
			return err
		}
		if v.broken[a.Subject] || (v.chains != nil && !slices.Contains(v.chains, a.Subject)) {
			continue
		}
		tenant, chain, _ := ledger.ParseSubject(a.Subject)
		p := api.Problem{Code: api.Corrupt, Seq: api.Uint(a.Seq), Message: "set aside: " + a.Why}
		p.Session, _ = chain.Session()
		v.problem(tenant, p)
	}
	return nil
}
