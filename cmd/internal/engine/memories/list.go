package memories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/projections/rows"
	"nexus/turns"
)

// maxRepeats bounds the events that said the same whose sources a reply shows.
const maxRepeats = 8

// List is memory.list: the memories of the caller, newest first; for the operator those
// of every agent of the tenant, one agent after the other. A page looks at
// [Memories.MaxScan] memories at most, so it may hold fewer than its limit.
func (ms *Memories) List(ctx context.Context, c reader.Caller, req api.ListMemories) (*api.MemoryList, error) {
	limit, err := req.LimitOf(100, 1000)
	if err != nil {
		return nil, err
	}
	f, err := newFilter(req.Kind, req.State, req.Trust, req.Since)
	if err != nil {
		return nil, err
	}
	agent, err := agentOf(c, req.Agent)
	if err != nil {
		return nil, err
	}
	after, err := parseCursor(req.After)
	if err != nil {
		return nil, err
	}
	v, err := ms.viewerOf(ctx, c, req.Session, req.Read)
	if err != nil {
		return nil, err
	}
	if s := v.session; s != nil {
		agent = s.Agent // of which the operator may ask, too
	}
	if agent != "" && !req.StaleOK {
		if _, err := ms.catchUp(ctx, c.Tenant, agent); err != nil && !errors.Is(err, ledger.ErrCorrupt) {
			return nil, err
		}
	}
	out, size, scanned := &api.MemoryList{Memories: []api.Memory{}}, 0, 0
	op := ms.opener()
	for m, err := range ms.from(c.Tenant, agent, after) {
		if err != nil {
			return nil, err
		}
		if len(out.Memories) >= limit || size > ms.page.PageBytes() || scanned >= ms.MaxScan {
			out.Next = after.String()
			break
		}
		scanned++
		after = cursor{m.agent, projections.MemoryPlace{Seq: m.Seq, Item: m.Item}}
		st := m.Now()
		if !f.takes(&m.Memory, st) {
			continue
		}
		ok, err := v.sees(ms.reader.Projections, st)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		x := ms.describe(op, c.Tenant, m.agent, m.NamedMemory, st)
		if !req.Hidden {
			hidden, err := ms.allHidden(v, namedIn(x))
			if err != nil {
				return nil, err
			}
			if hidden {
				continue
			}
		}
		n, err := page.EncodedSize(x)
		if err != nil {
			return nil, err
		}
		if n > ms.page.ItemBytes() {
			x.Text, x.Sources, x.Error, n = "", []api.MemorySource{}, api.TooLarge, page.OutlineBytes
		}
		out.Memories, size = append(out.Memories, *x), size+n
	}
	return out, nil
}

// agentMemory is a memory with its agent.
type agentMemory struct {
	agent string
	ledger.NamedMemory
}

// from yields the memories of an agent from behind a place; "": of all agents of the
// tenant, by name.
func (ms *Memories) from(tenant, agent string, after cursor) func(func(agentMemory, error) bool) {
	return func(yield func(agentMemory, error) bool) {
		one := func(agent string, before projections.MemoryPlace) bool {
			for m, err := range ms.reader.Projections.ListMemories(tenant, agent, before) {
				if !yield(agentMemory{agent, m}, err) || err != nil {
					return false
				}
			}
			return true
		}
		if agent != "" {
			one(agent, after.MemoryPlace)
			return
		}
		if after.agent != "" && !one(after.agent, after.MemoryPlace) {
			return
		}
		for agent, err := range ms.reader.Projections.RememberingAgents(tenant, after.agent) {
			if err != nil {
				yield(agentMemory{}, err)
				return
			}
			if !one(agent, projections.MemoryPlace{}) {
				return
			}
		}
	}
}

// cursor is the place of the last memory that a page looked at.
type cursor struct {
	agent string
	projections.MemoryPlace
}

func (c cursor) String() string { return fmt.Sprintf("%s~%d~%d", c.agent, c.Seq, c.Item) }

func parseCursor(s string) (c cursor, err error) {
	if s == "" {
		return c, nil
	}
	f := strings.Split(s, "~")
	if len(f) == 3 && turns.ValidName(f[0]) {
		c.agent = f[0]
		var err2 error
		c.Seq, err = strconv.ParseUint(f[1], 10, 64)
		c.Item, err2 = strconv.ParseUint(f[2], 10, 64)
		if err == nil && err2 == nil && c.Seq > 0 {
			return c, nil
		}
	}
	return cursor{}, api.FieldErrorf("/after", "not what a page gave as next")
}

// filter says which memories a list shows.
type filter struct {
	kind  turns.MemoryKind // 0: all
	trust turns.Trust      // 0: all
	state string           // "": all
	since int64
	from  bool // since is set
}

func newFilter(kind, state, trust string, since *api.Time) (f filter, err error) {
	if kind != "" {
		if f.kind, err = turns.ParseMemoryKind(kind); err != nil {
			return f, err
		}
	}
	if trust != "" {
		if f.trust, err = turns.ParseTrust(trust); err != nil {
			return f, err
		}
	}
	switch state {
	case "", "proposed", "accepted", "superseded", "withdrawn":
		f.state = state
	default:
		return f, api.FieldErrorf("/state", "%.40q is not one of proposed, accepted, superseded, withdrawn", state)
	}
	if since != nil {
		ns, ok := since.UnixNano()
		if !ok {
			return f, api.FieldErrorf("/since", "before 1678, after 2261 or 1970-01-01T00:00:00Z")
		}
		f.since, f.from = ns, true
	}
	return f, nil
}

func (f *filter) takes(m *ledger.Memory, st ledger.MemoryStatus) bool {
	return (f.kind == 0 || m.Kind == f.kind) && (f.trust == 0 || m.Trust == f.trust) && (f.state == "" || stateWord(st) == f.state) &&
		(!f.from || rows.MemoryTime(m) >= f.since)
}

// stateWord is the state of a memory as the contract has it.
func stateWord(st ledger.MemoryStatus) string {
	if st.State != turns.Withdrawn && !st.SupersededBy.IsZero() {
		return "superseded"
	}
	return st.State.String()
}

// opened is the content of a memory.
type opened struct {
	Text, Zone, User, Type string
	extracted              bool
	sources                []api.TurnName // of a compaction's memory; empty if it names none
}

// opener opens the texts of memories for one request. It keeps the compaction that it
// opened last, as the memories of one follow each other.
type opener struct {
	ms      *Memories
	seq     uint64 // of the compaction; 0: none
	event   *turns.Event
	learned []learned
	err     error
}

func (ms *Memories) opener() *opener { return &opener{ms: ms} }

// textOf opens the text of a memory. It returns the event that holds it also if the
// text can't be read.
func (op *opener) textOf(m ledger.NamedMemory) (opened, *turns.Event, error) {
	if m.Item == 0 {
		ev, err := op.ms.eventAt(m.Seq)
		if err != nil {
			return opened{}, nil, err
		}
		body := new(turns.MemoryBody)
		err = op.ms.content.Open(ev, body)
		return opened{Text: body.Text, Zone: body.Zone, User: body.User, extracted: body.Extracted}, ev, err
	}
	if op.seq != m.Seq {
		op.openCompaction(m.Seq)
	}
	switch {
	case op.err != nil:
		return opened{}, op.event, op.err
	case m.Item > uint64(len(op.learned)):
		return opened{}, op.event, fmt.Errorf("%w: compaction %s has %d memories, its header names more", ledger.ErrCorrupt, op.event.ID, len(op.learned))
	}
	l := op.learned[m.Item-1]
	return opened{Text: l.Text, Zone: l.Zone, Type: l.Kind, sources: l.Source}, op.event, nil
}

func (op *opener) openCompaction(seq uint64) {
	op.seq, op.learned = seq, nil
	if op.event, op.err = op.ms.eventAt(seq); op.err != nil {
		return
	}
	body := new(turns.CompactionBody)
	if op.err = op.ms.content.Open(op.event, body); op.err == nil {
		op.learned, op.err = learnedOf(body)
	}
}

// describe returns a memory with a status as the contract shows it. One that can't be
// read comes without its text, with an error code, so that it stops no list.
func (ms *Memories) describe(op *opener, tenant, agent string, m ledger.NamedMemory, st ledger.MemoryStatus) *api.Memory {
	o, ev, err := op.textOf(m)
	out := &api.Memory{ID: m.ID, Agent: agent, Kind: m.Kind.String(), Text: o.Text, State: stateWord(st), Trust: m.Trust.String(), Visibility: "all",
		Sources: []api.MemorySource{}, From: m.From, Type: o.Type, Repeated: m.Evidence, Supersedes: m.Supersedes, Superseded: st.SupersededBy, With: st.With,
		Time: api.UnixTime(rows.MemoryTime(&m.Memory)), Zone: o.Zone, User: o.User, Extracted: o.extracted, Position: page.FormatPosition(m.Seq)}
	switch {
	case !st.Branch.IsZero():
		out.Visibility, out.Private, out.Branch = "branch", st.Private, &api.TurnName{Session: st.Branch.Session, Turn: st.Branch.Turn}
	case st.Private:
		out.Visibility = "main"
	}
	if err != nil {
		out.Error, out.MissingKey = reader.WhyUnreadable(err)
	}
	if ev == nil {
		return out
	}
	ms.addSources(out, ev, o.sources)
	if at := episodeTurn(ev); m.Item == 0 && !at.IsZero() {
		out.Episode = &api.TurnName{Session: at.Session, Turn: at.Turn}
	}
	if m.Item > 0 {
		out.Compaction = &api.TurnName{Session: ev.Ref().Session, Turn: ev.ID}
	}
	places, err := ms.reader.Projections.MemoryEvidence(tenant, agent, m.ID, maxRepeats)
	for _, p := range places {
		again, aerr := ms.eventAt(p.Seq)
		if err = errors.Join(err, aerr); aerr == nil {
			ms.addSources(out, again, nil)
		}
	}
	if st.Changed != 0 && st.State == turns.Withdrawn {
		body := new(turns.MemoryChangedBody)
		change, cerr := ms.eventAt(st.Changed)
		if cerr == nil && ms.content.Open(change, body) == nil {
			out.Reason = body.Reason
		}
		err = errors.Join(err, cerr)
	}
	if err != nil && out.Error == "" {
		out.Error = api.FromError(err).Code
	}
	return out
}

// addSources adds the turns that an event of a memory names: those of its header, or of
// a compaction the ones that the summarizer named, else the last turn that it covers.
func (ms *Memories) addSources(out *api.Memory, ev *turns.Event, named []api.TurnName) {
	add := func(ref turns.Ref, hash turns.Hash) {
		s := api.MemorySource{Session: ref.Session, Turn: ref.Turn, Hash: hash}
		if !slices.Contains(out.Sources, s) && len(out.Sources) < turns.MaxMemorySources {
			out.Sources = append(out.Sources, s)
		}
	}
	if ev.Memory != nil {
		for _, s := range ev.Memory.Sources {
			add(s.Turn, s.Hash)
		}
		return
	}
	if ev.Span == nil {
		return
	}
	if len(named) == 0 && !ev.Span.Through.IsZero() {
		named = []api.TurnName{{Session: ev.Span.Through.Session, Turn: ev.Span.Through.Turn}}
	}
	for _, n := range named {
		ref := turns.Ref{Session: n.Session, Turn: n.Turn}
		if t, err := ms.reader.Projections.Turn(ref); err == nil {
			add(ref, t.Hash)
		}
	}
}
