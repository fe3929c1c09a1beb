package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"nexus/cmd/nexusd/daemon/engine/cache"
	"nexus/cmd/nexusd/daemon/engine/content"
	"nexus/cmd/nexusd/daemon/engine/page"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/seal"
)

// maxProblems bounds the problems that one verification lists; it counts all of them. A
// reply lists fewer if they would take more than half a message. problemBytes bounds the text of one.
const maxProblems, problemBytes = 1000, 512

// Verify is audit.verify. It reads the whole log, or the chains of some sessions,
// and checks everything that can be checked: bytes and hashes, chains, lineage,
// coverage, calls, bodies, blobs, and the copies in the projections. It believes
// nothing that the projections derived, and reads no blob from a cache.
func (au *Audit) Verify(ctx context.Context, c reader.Caller, req api.Verify) (*api.Verified, error) {
	began := au.reader.Now()
	leave, err := au.startVerification(c, len(req.Sessions) > 0)
	if err != nil {
		return nil, err
	}
	defer leave()
	st, err := au.reader.Log.State(ctx)
	if err != nil {
		return nil, err
	}
	v := au.newVerifier(c, st.Last)
	if len(req.Sessions) > 0 {
		if v.chains, err = v.subjectsFor(ctx, req.Sessions); err != nil {
			return nil, err
		}
	} else if !c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "only the operator verifies the whole ledger; name sessions"}
	}
	if err := st.Sound(); err != nil {
		v.problem("", api.Problem{Code: api.Corrupt, Message: err.Error()})
	}
	if err := au.reader.Projections.WaitFor(ctx, st.Last); err != nil {
		return nil, err
	}
	if err := v.read(ctx, st.Last); err != nil {
		return nil, err
	}
	if err := v.checkEnds(ctx); err != nil {
		return nil, err
	}
	v.checkMemories()
	if err := v.reportAside(); err != nil {
		return nil, err
	}
	v.out.OK = v.out.Count == 0
	v.out.DurationMS = uint64(au.reader.Now().Sub(began) / time.Millisecond)
	return v.out, nil
}

// verifier folds the log a second time by the same pure rules, and compares the
// result with the projections. It is the [ledger.History] of each event.
//
// It holds a few hundred bytes of each session, label, channel, name of a policy and memory. It looks
// up turns in the projections, after it has compared each with the log, and holds only
// the turns whose rows differ.
//
// Invariant: it looks up nothing of a chain beyond the last admitted event.
type verifier struct {
	audit      *Audit
	content    *content.Store // of this verification alone
	caller     reader.Caller
	out        *api.Verified
	chains     []string // subjects, ancestors first; nil means the whole log
	sessions   map[turns.ID]ledger.Session
	ends       map[turns.ID]uint64        // index of the last event that the projections' row of a session has
	labels     map[string]ledger.Label    // by subject
	policies   map[string]ledger.Policies // by tenant
	channels   map[string]ledger.Channel  // by tenant and id
	names      map[policyName]ledger.PolicyName
	agents     map[string]ledger.Memories                // by subject
	memories   map[string]*agentMemories                 // by subject of the agent's chain
	differing  map[turns.Ref]projections.Turn            // turns that differ from their rows, as they follow from the log
	open       *cache.Cache[turns.Ref, ledger.Calls]     // calls open after a turn, if any
	rows       *cache.Cache[turns.Ref, projections.Turn] // rows of admitted turns that agree with the log
	looked     projections.Turn                          // the row that HasEvent read last
	duplicates map[string]bool                           // subjects of duplicate openings
	broken     map[string]bool                           // subjects of chains that can't be followed further
	short      bool                                      // the log could not be read to the last record
}

// maxOpenBytes bounds the memory of the open calls that a verification remembers. It
// reads others again.
const maxOpenBytes = 64 << 20

// maxBlobBytes bounds the memory of the blobs that a verification has read and may meet
// again: a preamble in the next turns, the pieces of a part.
const maxBlobBytes = 64 << 20

// maxRowBytes bounds the memory of the rows that a verification has compared and may need
// again: mostly the next event of a session looks up its parent.
const maxRowBytes, rowBytes = 16 << 20, 768

// newVerifier returns a verifier of the records up to last.
func (au *Audit) newVerifier(c reader.Caller, last uint64) *verifier {
	return &verifier{audit: au, content: au.content.Fresh(maxBlobBytes), caller: c, out: &api.Verified{Last: last, Problems: []api.Problem{}},
		sessions: make(map[turns.ID]ledger.Session), ends: make(map[turns.ID]uint64), labels: make(map[string]ledger.Label),
		policies: make(map[string]ledger.Policies), channels: make(map[string]ledger.Channel), names: make(map[policyName]ledger.PolicyName),
		agents: make(map[string]ledger.Memories), memories: make(map[string]*agentMemories),
		differing: make(map[turns.Ref]projections.Turn), broken: make(map[string]bool), duplicates: make(map[string]bool),
		open: cache.New[turns.Ref, ledger.Calls](cache.NewBudget(maxOpenBytes), "verify"),
		rows: cache.New[turns.Ref, projections.Turn](cache.NewBudget(maxRowBytes), "verify")}
}

// maxDiffering bounds the held turns that differ from their rows, to about 40 MB.
// One more, and the verification does not follow its chain further.
const maxDiffering = 100_000

// admittedTurn returns the row of an admitted turn, as it follows from the log.
func (v *verifier) admittedTurn(ref turns.Ref) (projections.Turn, error) {
	if t, ok := v.differing[ref]; ok {
		return t, nil
	}
	if t, ok := v.rows.Get(ref); ok {
		return t, nil
	}
	t, err := projections.Turn{}, error(nil)
	s, ok := v.sessions[ref.Session]
	if ok {
		t, err = v.audit.reader.Projections.Turn(ref)
	}
	if !ok || err == nil && t.Index > s.Tail.Index {
		return projections.Turn{}, fmt.Errorf("%w: turn %s", lineage.ErrUnknown, ref)
	}
	return t, err
}

// Node implements [ledger.History].
func (v *verifier) Node(ref turns.Ref) (lineage.Node, error) {
	t, err := v.admittedTurn(ref)
	return t.Node, err
}

// Session implements [ledger.History].
func (v *verifier) Session(id turns.ID) (ledger.Session, error) {
	s, ok := v.sessions[id]
	if !ok {
		return s, fmt.Errorf("%w: session %s", ledger.ErrNotFound, id)
	}
	return s, nil
}

// Label implements [ledger.History].
func (v *verifier) Label(tenant, id string) (ledger.Label, error) {
	return v.labels[ledger.Subject(tenant, id, turns.Chain{Entity: turns.LabelEntity, ID: id})], nil
}

// Policies implements [ledger.History].
func (v *verifier) Policies(tenant string) (ledger.Policies, error) { return v.policies[tenant], nil }

// PolicyName implements [ledger.History].
func (v *verifier) PolicyName(tenant string, name turns.Hash) (ledger.PolicyName, error) {
	return v.names[policyName{tenant, name}], nil
}

// policyName is the name of an agent's policy: its tenant and its digest.
type policyName struct {
	tenant string
	digest turns.Hash
}

// Hash implements [ledger.History].
func (v *verifier) Hash(ref turns.Ref) (turns.Hash, error) {
	t, err := v.admittedTurn(ref)
	return t.Hash, err
}

// Ledger implements [ledger.History].
func (v *verifier) Ledger() turns.ID { return turns.ID(v.content.Ledger) }

// HasEvent implements [ledger.History]. It asks the projections' index of ids, which
// has one ordinal for an id and was compared with each event. So the second of two
// events with one id is found here, or one of them differs from the index.
func (v *verifier) HasEvent(session, event turns.ID) (bool, error) {
	s, ok := v.sessions[session]
	if !ok {
		return false, nil
	}
	t, err := v.audit.reader.Projections.Turn(turns.Ref{Session: session, Turn: event})
	if err == nil {
		v.looked = t
		return t.Index <= s.Tail.Index, nil
	}
	if !errors.Is(err, lineage.ErrUnknown) {
		return false, err
	}
	index, err := v.audit.reader.Projections.Index(session, event)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	return index <= s.Tail.Index, err
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
	copied error // the projections' copy is not the record
}

// parse decodes a record, checks its hash, and compares the projections' copy of it. It
// needs nothing of the records before, so it runs ahead of the checks that do.
func (v *verifier) parse(r ledger.Record) (p parsed) {
	p.Record = r
	if p.tenant, p.chain, p.bad = ledger.ParseSubject(r.Subject); p.bad != nil {
		return p
	}
	if got := turns.HashEvent(r.Payload); got != r.Hash {
		p.bad = fmt.Errorf("%w: its hash is %v, stored with it is %v", ledger.ErrCorrupt, got, r.Hash)
	} else if p.event, p.bad = turns.Decode(r.Payload); p.bad == nil && p.event.Chain != p.chain {
		p.bad = fmt.Errorf("%w: an event of chain %s on subject %s", ledger.ErrCorrupt, p.event.Chain, r.Subject)
	}
	if p.bad != nil {
		return p
	}
	copied, err := v.audit.reader.Projections.Record(r.Seq)
	if err != nil || copied.Hash != r.Hash {
		p.copied = fmt.Errorf("the projections' copy differs: %v", err)
	}
	return p
}

// checkRecord checks one record of the log, with what parse found.
func (v *verifier) checkRecord(ctx context.Context, x parsed) error {
	v.out.Events++
	r, tenant, chain, ev, err := x.Record, x.tenant, x.chain, x.event, x.bad
	p := api.Problem{Code: api.Corrupt, Seq: r.Seq}
	p.Session, _ = chain.Session()
	if err != nil {
		v.broken[r.Subject] = true
		p.Message = err.Error()
		v.problem(tenant, p)
		return nil
	}
	p.Event = ev.ID
	if x.copied != nil {
		p := p
		p.Message = x.copied.Error()
		v.problem(tenant, p)
	}
	if v.broken[r.Subject] {
		return nil // the problem is listed already
	}
	switch chain.Entity {
	case turns.SessionEntity:
		err = v.checkSession(ctx, r, ev)
	case turns.LabelEntity:
		err = v.checkLabel(tenant, r, ev)
	case turns.TenantEntity:
		err = v.checkPolicy(tenant, r, ev)
	case turns.ChannelEntity:
		err = v.checkReceived(ctx, tenant, r, ev)
	case turns.AgentEntity:
		err = v.checkMemory(tenant, r, ev)
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

// checkLabel checks an event of a label's chain.
func (v *verifier) checkLabel(tenant string, r ledger.Record, ev *turns.Event) error {
	next, err := ledger.Admit(v, r.Subject, r.Seq, r.Hash, ev)
	if err != nil {
		v.broken[r.Subject] = true
		return err
	}
	v.labels[r.Subject] = next.Label
	if row, err := v.audit.reader.Projections.Label(tenant, ev.Chain.ID); err != nil || row.Tail.Index < ev.Index {
		return fmt.Errorf("%w: the projections lack it (%v)", ledger.ErrCorrupt, err)
	}
	return nil
}

// checkPolicy checks an event of a tenant's chain, and opens its body.
func (v *verifier) checkPolicy(tenant string, r ledger.Record, ev *turns.Event) error {
	next, err := ledger.Admit(v, r.Subject, r.Seq, r.Hash, ev)
	if err != nil {
		v.broken[r.Subject] = true
		return err
	}
	v.policies[tenant] = next.Policies
	if name := ev.Policy.Name; !name.IsZero() {
		v.names[policyName{tenant, name}] = next.PolicyName
	}
	body := new(turns.PolicyBody)
	if err := v.content.Open(ev, body); err != nil {
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
	if row, err := v.audit.reader.Projections.Policies(tenant); err != nil || row.Stored <= ev.Index {
		return fmt.Errorf("%w: the projections lack it (%v)", ledger.ErrCorrupt, err)
	}
	if _, ok, err := v.audit.reader.Projections.PolicyContent(tenant, ev.Policy.Digest); err != nil || !ok {
		return fmt.Errorf("%w: the projections' index of policies lacks it (%v)", ledger.ErrCorrupt, err)
	}
	return nil
}

// checkSession checks an event of a session's chain.
func (v *verifier) checkSession(ctx context.Context, r ledger.Record, ev *turns.Event) error {
	next, err := ledger.Admit(v, r.Subject, r.Seq, r.Hash, ev)
	if errors.Is(err, ledger.ErrDuplicateOpening) && !v.duplicates[r.Subject] {
		v.duplicates[r.Subject] = true
		v.out.Duplicates++
		return nil
	}
	if err != nil {
		v.broken[r.Subject] = true
		return err
	}
	s := &next.Session
	if ev.Index == 0 {
		v.out.Sessions++
	}
	v.sessions[s.ID] = *s
	var differs error
	if ev.Kind.IsTurn() {
		differs = v.checkRow(next.Node, r, ev) // with its ordinal
	} else if index, err := v.audit.reader.Projections.Index(s.ID, ev.ID); err != nil || index != ev.Index {
		differs = errors.Join(differs, fmt.Errorf("%w: the projections' index of ids has it at %d (%v)", ledger.ErrCorrupt, index, err))
	}
	if ev.Kind == turns.KindOpened || ev.Kind == turns.KindChanged {
		if at, err := v.audit.reader.Projections.SettingsAt(s.ID, ev.Index); err != nil || !bytes.Equal(at, r.Payload) {
			differs = errors.Join(differs, fmt.Errorf("%w: the projections' index of settings has others at %d (%v)", ledger.ErrCorrupt, ev.Index, err))
		}
	}
	if ev.Kind == turns.KindCompaction {
		if err := lineage.CheckPlaced(v, next.Node, ev.Span.Elisions); err != nil {
			return err
		}
	}
	differs = errors.Join(differs, v.learn(s, ev, r.Seq), v.checkSessionRow(s))
	if err := v.checkContent(ctx, s, next.Node, ev); err != nil {
		return errors.Join(err, differs)
	}
	return differs
}

// checkSessionRow checks that the projections' row of a session has the event at which the
// fold s ends, and is that fold where it ends there too. A row never goes back. One that
// ends further on is looked at again, by a later event or by [verifier.checkEnds].
func (v *verifier) checkSessionRow(s *ledger.Session) error {
	if end, ok := v.ends[s.ID]; ok && s.Tail.Index < end {
		return nil
	}
	row, err := v.audit.reader.Projections.Session(s.ID)
	if err != nil || row.Tail.Index < s.Tail.Index {
		return fmt.Errorf("%w: the projections lack it (%v)", ledger.ErrCorrupt, err)
	}
	v.ends[s.ID] = row.Tail.Index
	if row.Tail.Index == s.Tail.Index && !reflect.DeepEqual(&row, s) {
		return fmt.Errorf("%w: the projections' row of session %s differs from the log", ledger.ErrCorrupt, s.ID)
	}
	return nil
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
	if err != nil {
		return err
	}
	var k seal.Key
	if len(ev.Blobs) > 0 {
		if k, err = v.content.BlobKey(s.Root); err != nil {
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
// the turn can't be read. A row without open calls was compared with its header;
// other calls are remembered, or read again.
func (v *verifier) openAt(ctx context.Context, s *ledger.Session, ref turns.Ref) *ledger.Calls {
	if ref.IsZero() {
		return new(ledger.Calls)
	}
	if calls, ok := v.open.Get(ref); ok {
		return &calls
	}
	t, err := v.admittedTurn(ref)
	if err != nil {
		return nil
	}
	if t.Open == 0 {
		return new(ledger.Calls)
	}
	calls, err := v.audit.paths.OpenCalls(ctx, s.Tenant, s, nil, t.Node)
	if err != nil {
		return nil
	}
	return &calls
}

// checkRow compares the projections' row of a turn with the log. If they differ, it
// keeps the row that follows from the log.
func (v *verifier) checkRow(node lineage.Node, r ledger.Record, ev *turns.Event) error {
	want := projections.Turn{Node: node, Index: ev.Index, Seq: r.Seq, Hash: r.Hash, Open: ev.Open, Recorded: ev.Recorded}
	switch {
	case ev.Kind != turns.KindTurn:
	case ev.Usage != nil && ev.Usage.InputTokens > 0:
		want.Input, want.Reported = ev.Usage.InputTokens, node.Ref
	case !ev.Parent.IsZero():
		up, err := v.admittedTurn(ev.Parent)
		if err != nil {
			return err
		}
		want.Reported = up.Reported
	}
	row, err := v.looked, error(nil)
	if row.Ref != node.Ref {
		row, err = v.audit.reader.Projections.Turn(node.Ref)
	}
	if err == nil && row == want {
		v.rows.Put(node.Ref, row, rowBytes)
		return nil
	}
	if len(v.differing) >= maxDiffering {
		v.broken[r.Subject] = true
	}
	v.differing[node.Ref] = want
	if err != nil {
		return fmt.Errorf("%w: the projections lack turn %s: %w", ledger.ErrCorrupt, node.Ref, err)
	}
	return fmt.Errorf("%w: the projections' row of turn %s differs from the log", ledger.ErrCorrupt, node.Ref)
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
		p := api.Problem{Code: api.Corrupt, Seq: a.Seq, Message: "set aside: " + a.Why}
		p.Session, _ = chain.Session()
		v.problem(tenant, p)
	}
	return nil
}
