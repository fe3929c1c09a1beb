package transcripts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// An import with Refresh compares what the present reader reads in a file with what the
// ledger holds of it. A session that reads differently gets a successor, which holds what is
// read now: a session of its own, whose ids are derived from those of the session and the
// version of the reader, so that the same refresh again changes nothing. The old session is
// closed, and its meta names the successor. Lists and costs leave it out.
//
// Nothing is hidden that the file does not hold. Where the reader is the one that read the
// session before, another response is of another file: one that was written anew, or that
// names the same session. A file that has nothing which the ledger lacks is an older copy:
// nothing is made of it. And no content of a file is made a successor twice.
//
// Where the file has lost turns that the old session holds, the successor is a fork at the last turn that both have, or a session of its own if
// there is none, and the old session stays in lists and costs: nothing else has those turns.
//
// Crash states: after the successor is opened, before the old session is marked: the next
// refresh makes the same successor, and marks it.

// renewal is a successor in the making.
type renewal struct {
	id    turns.ID
	old   *api.Session
	point turns.Ref      // the last turn that both have, where the file has lost others; zero: none
	lost  bool           // the file has lost turns that the old session holds
	also  []*api.Session // branches of the old session that the successor holds
}

// storedTurn is a turn of the ledger, as it is compared.
type storedTurn struct {
	parent   turns.ID
	sum      [sha256.Size]byte // of what a step says
	response [sha256.Size]byte // zero: none
	time     time.Time
	normal   bool
	child    bool // another turn of the session follows it
	named    bool // a step names it
	changed  bool // with another response
}

// comparison is a session of the source beside that of the ledger.
type comparison struct {
	line    *line
	turns   map[turns.ID]*storedTurn
	from    turns.ID // the session of the source that it is forked from
	differs bool
	last    turns.Ref // the last turn that both have alike, before the first that differs
	joined  bool      // the ledger has its first turns in other sessions: see joined.go
	skipped bool      // a compaction that the ledger has not
	changed int       // turns that the ledger holds with another response
	read    []any     // what the file has of it, for a digest
	news    []newTurn // what the ledger has not

	branches []*comparison // sessions that the ledger has branches of it in: see place
}

// newTurn is a turn that the ledger lacks.
type newTurn struct {
	time     time.Time
	response [sha256.Size]byte
}

// findChanged compares a file with the ledger and notes in im.renewing what gets a
// successor. current are the sessions that read the same, by the present reader or not.
func (im *Importer) findChanged(ctx context.Context, how transcriptSource, format string) (current []*api.Session, err error) {
	in, err := Open(how.name, im.Stdin, im.Format, nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	probe := Importer{Client: im.Client}
	c := comparer{im: &probe, format: format, all: make(map[turns.ID]*comparison), responses: make(map[[sha256.Size]byte]int),
		placed: make(map[turns.ID]*comparison), branches: make(map[turns.ID]*comparison)}
	first := true
	for st, err := range in.Format.Open(in, ReadOptions(how.name, in.Format.Name, transcript.Options{Final: how.final, Copied: how.copied})).Steps() {
		if err != nil {
			return nil, err
		}
		if first {
			first = false
			x := Intake{Importer: &probe, Report: &Report{Format: in.Format.Name}, All: how.grown}
			if err := x.findJoint(ctx, st); err != nil || x.joint != nil || x.fork != nil {
				return nil, err // what "continue" or "export" wrote
			}
			if st.Open != nil && !how.grown {
				if own, err := probe.exportedSession(ctx, st.Open.Meta); err != nil || !own.IsZero() {
					return nil, err
				}
			}
		}
		st, _ = withoutExcess(st)
		if err := c.step(ctx, probe.boundTime(st), in.Format.Name); err != nil {
			return nil, err
		}
	}
	return im.plan(ctx, &c, format)
}

// plan decides what gets a successor.
func (im *Importer) plan(ctx context.Context, c *comparer, format string) (current []*api.Session, err error) {
	im.renewing = make(map[turns.ID]*renewal)
	for _, source := range c.order { // a parent before its forks
		x := c.all[source]
		old := x.line.had
		if old == nil {
			continue
		}
		if im.renewing[x.from] != nil && !im.renewing[x.from].lost || x.skipped && isOlder(old, format) {
			x.differs = true
		}
		for _, b := range x.branches {
			x.differs = x.differs || b.differs
		}
		if !x.differs {
			current = append(current, old)
			continue
		}
		older := isOlder(old, format)
		r := &renewal{id: successorID(old.ID, format), old: old, lost: c.hasLost(x, older)}
		if r.lost && x.isPart() {
			im.lacking = append(im.lacking, old.ID)
			continue
		}
		if !older { // the reader is the same, and the file is another: once for each that it can be
			r.id = turns.DeriveID(old.ID.Time(), "refresh", successorID(source, format).String(), x.digest())
			had, err := im.sessionIfAny(ctx, r.id)
			if err != nil {
				return nil, err
			}
			if r.id == old.ID || had != nil && hasNext(had) {
				im.lacking = append(im.lacking, old.ID)
				continue
			}
		}
		if r.lost && x.from.IsZero() {
			r.point = x.last
		}
		for _, b := range x.branches {
			if b.isNamed() {
				r.also = append(r.also, b.line.had)
			}
		}
		im.renewing[source] = r
	}
	return current, nil
}

// successorID returns the id of a session's successor that the present reader makes.
func successorID(session turns.ID, format string) turns.ID {
	return turns.DeriveID(session.Time(), "refresh", session.String(), format, strconv.Itoa(versionOf(format)))
}

// hasNext reports whether a session has a successor.
func hasNext(s *api.Session) bool {
	l := linksOf(s.Meta)
	return !l.next().IsZero()
}

// isPart reports whether the file has nothing of a session that the ledger lacks: it is an
// older copy.
func (x *comparison) isPart() bool { return len(x.news) == 0 && x.changed == 0 }

// isBeginning reports whether a response is the beginning of another: the file was copied
// while the answer came.
func isBeginning(m, of *turns.Message) bool {
	if m == nil || of == nil || len(m.Parts) > len(of.Parts) {
		return m == nil
	}
	for i := range m.Parts {
		p, q := m.Parts[i], of.Parts[i]
		if i == len(m.Parts)-1 && p.Type == q.Type && p.Type == turns.Text && strings.HasPrefix(q.Content, p.Content) {
			continue
		}
		if sumOf(p) != sumOf(q) {
			return false
		}
	}
	return true
}

// digest names what a file has of a session.
func (x *comparison) digest() string {
	sum := sumOf(x.read...)
	return hex.EncodeToString(sum[:])
}

// comparer compares the steps of a file with the ledger.
type comparer struct {
	im        *Importer
	format    string
	all       map[turns.ID]*comparison // by session of the source
	order     []turns.ID
	responses map[[sha256.Size]byte]int // how often the file holds each, or what it is forked from
	placed    map[turns.ID]*comparison  // by turn: of another session than the steps say
	branches  map[turns.ID]*comparison  // by session: those that hold such turns; nil: none
}

func (c *comparer) step(ctx context.Context, st transcript.Step, format string) error {
	switch {
	case st.Open != nil:
		_, err := c.begin(ctx, st.Open.ID, nil)
		return err
	case st.Fork != nil:
		return c.fork(ctx, st.Fork)
	case st.Append != nil:
		return c.turn(ctx, st.Append)
	}
	return c.compaction(ctx, st.Compaction)
}

// begin begins the comparison of a session.
func (c *comparer) begin(ctx context.Context, source turns.ID, f *transcript.Fork) (*comparison, error) {
	l, err := c.im.lineOf(ctx, source)
	if err != nil {
		return nil, err
	}
	x := &comparison{line: l, turns: make(map[turns.ID]*storedTurn)}
	c.all[source], c.order = x, append(c.order, source)
	if l.had == nil {
		return x, nil
	}
	if l.before == nil {
		if x.differs, err = c.isElsewhere(ctx, x, f); err != nil {
			return nil, err
		}
	}
	return x, c.load(ctx, x)
}

// isElsewhere reports whether the ledger has a session begin otherwise than its file: not as a
// fork, or as one. Where turns have the same ids in all files, it is in no other place if it
// has the same turns before it: another file brought them. See joined.go.
func (c *comparer) isElsewhere(ctx context.Context, x *comparison, f *transcript.Fork) (bool, error) {
	had := x.line.had
	if (f == nil) == (had.ForkedFrom == nil) {
		return false, nil
	}
	if f == nil {
		x.joined = sharesIDs(c.format) && !x.line.renamed
		return !x.joined, nil
	}
	if !sharesIDs(c.format) && !isStandIn(had.Meta) {
		return true, nil
	}
	at, err := c.im.turnIn(ctx, x.line, f.At.Turn)
	if err != nil {
		return false, err
	}
	_, err = c.im.Client.Turn(ctx, x.line.id, c.im.splits.last(at))
	if coded(err, api.NotFound) {
		return true, nil
	}
	return false, err
}

func (c *comparer) fork(ctx context.Context, f *transcript.Fork) error {
	if up := c.all[f.At.Session]; up != nil && !f.First.IsZero() && up.turns[f.First] != nil {
		c.all[f.ID] = up // the ledger has its turns there, and no fork was needed
		return nil
	}
	parent, at, err := c.forkPoint(ctx, f)
	if err != nil {
		return err
	}
	x, err := c.begin(ctx, f.ID, f)
	if err != nil {
		return err
	}
	x.from, x.line.fork, x.line.at = f.At.Session, f.At, turns.Ref{Session: parent.id, Turn: at}
	if had := x.line.had; had != nil && had.ForkedFrom != nil && had.ForkedFrom.Turn != at && x.line.before == nil {
		x.differs = true
	}
	if x.differs && parent.had != nil {
		return c.inherited(ctx, parent.id, at)
	}
	return nil
}

// forkPoint returns the session that has the turn of a fork, and the turn's id there. A fork
// of a session that this file has needs no look: its turn may be one that the ledger lacks.
// Errors: [ErrNoParent].
func (c *comparer) forkPoint(ctx context.Context, f *transcript.Fork) (parent *line, at turns.ID, err error) {
	for _, ref := range append([]turns.Ref{f.At}, f.Else...) {
		if parent, err = c.im.lineOf(ctx, ref.Session); err != nil {
			return nil, at, err
		}
		if at, err = c.im.turnIn(ctx, parent, ref.Turn); err != nil {
			return nil, at, err
		}
		at = c.im.splits.last(at)
		if b := c.placed[at]; b != nil {
			return b.line, at, nil
		}
		if c.all[ref.Session] != nil {
			return parent, at, nil
		}
		if parent.had == nil {
			continue
		}
		if _, err := c.im.Client.Turn(ctx, parent.id, at); !coded(err, api.NotFound) {
			return parent, at, err
		}
	}
	return nil, at, ErrNoParent
}

// inherited notes the responses on the path of a turn: a fork that is placed there has them.
func (c *comparer) inherited(ctx context.Context, session, at turns.ID) error {
	for t, err := range c.im.Client.Turns(ctx, session, api.ListTurns{At: at, Full: true}) {
		if coded(err, api.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, response, err := c.sums(ctx, session, &t); err != nil {
			return err
		} else if response != (storedTurn{}).response {
			c.responses[response]++
		}
	}
	return nil
}

// load reads the turns of a session, on all branches.
func (c *comparer) load(ctx context.Context, x *comparison) error {
	tree, err := c.im.Client.Tree(ctx, x.line.id)
	if err != nil {
		return err
	}
	for i := range tree.Sessions {
		s := &tree.Sessions[i]
		if s.ID != x.line.id {
			continue
		}
		for _, b := range s.Branches {
			list := api.ListTurns{At: b.Tip, Full: true}
			if b.Parent != nil {
				list.After = b.Parent.String()
			}
			for t, err := range c.im.Client.Turns(ctx, s.ID, list) {
				if err != nil {
					return err
				}
				if err := c.note(ctx, x, &t); err != nil {
					return err
				}
			}
		}
	}
	for _, t := range x.turns {
		if up := x.turns[t.parent]; up != nil {
			up.child = true
		}
	}
	return nil
}

func (c *comparer) note(ctx context.Context, x *comparison, t *api.Turn) error {
	if t.Session != x.line.id || x.turns[t.ID] != nil {
		return nil
	}
	s := &storedTurn{normal: t.Type == "normal", time: time.Time(t.Recorded)}
	if t.Time != nil {
		s.time = time.Time(*t.Time)
	}
	if t.Parent != nil {
		s.parent = *t.Parent
	}
	var err error
	s.sum, s.response, err = c.sums(ctx, x.line.id, t)
	x.turns[t.ID] = s
	return err
}

// sums returns the sums of a turn of the ledger, and of its response.
func (c *comparer) sums(ctx context.Context, session turns.ID, t *api.Turn) (all, response [sha256.Size]byte, err error) {
	if t.Compaction != nil {
		summary := ""
		if t.Compaction.Summary != nil {
			summary = *t.Compaction.Summary
		}
		return sumOf("compaction", summary), response, nil
	}
	if err := c.im.fetchContent(ctx, session, t); err != nil {
		return all, response, err
	}
	if t.Time != nil {
		all = turnSum(t.Messages, t.Response, t.Model, t.Usage, time.Time(*t.Time), t.Meta)
	} else {
		all = turnSum(t.Messages, t.Response, t.Model, t.Usage, time.Time{}, t.Meta)
	}
	return all, responseSum(t.Response), nil
}

// storedTime returns a time as the ledger has it: zero where no event can hold it.
func storedTime(t time.Time) time.Time {
	if claimedTime(t) == nil {
		return time.Time{}
	}
	return t
}

// turnSum is the sum of what a step says of a turn.
func turnSum(messages []turns.Message, response *turns.Message, model string, u *turns.Usage, at time.Time, meta turns.Raw) [sha256.Size]byte {
	var m map[string]turns.Raw
	_ = turns.DecodeJSON(meta, &m) // its members may be in another order
	when := ""
	if !at.IsZero() {
		when = at.UTC().Format(time.RFC3339Nano)
	}
	if messages == nil {
		messages = []turns.Message{}
	}
	return sumOf(messages, response, model, u, when, m)
}

func responseSum(m *turns.Message) [sha256.Size]byte {
	if m == nil {
		return [sha256.Size]byte{}
	}
	return sumOf(m.Parts)
}

func sumOf(values ...any) [sha256.Size]byte {
	b, err := turns.EncodeJSON(values)
	if err != nil {
		return [sha256.Size]byte{1} // like nothing that is stored
	}
	return sha256.Sum256(b)
}

// turn compares a turn.
func (c *comparer) turn(ctx context.Context, a *transcript.Append) error {
	response := responseSum(a.Response)
	c.responses[response]++
	x := c.all[a.Session]
	if x == nil || x.line.had == nil {
		return nil
	}
	id, parent, shared, err := c.ids(ctx, x, a.ID, a.Parent)
	if err != nil || shared {
		return err
	}
	x.read = append(x.read, a.ID, a.Parent, sumOf(a.Messages, a.Response))
	t := x.turns[id]
	if t == nil {
		b, err := c.place(ctx, x, a, id, parent)
		if err != nil {
			return err
		}
		if b != nil {
			x, t = b, b.turns[id]
		}
	}
	if t == nil && x.joined {
		if s, err := c.im.Client.Turn(ctx, x.line.id, id); err == nil && s.Session != x.line.id {
			_, alike := c.im.copyOf(ctx, s.Session, id, a)
			c.settle(x, id, alike)
			return nil
		} else if err != nil && !coded(err, api.NotFound) {
			return err
		}
	}
	if t == nil {
		x.news = append(x.news, newTurn{a.Time, response})
		if a.Continues && a.Parent.IsZero() { // it follows what the ledger has
			return nil
		}
		if c.format == "otel" && !a.Branch.IsZero() { // spans come in any order: it begins a branch there, and a successor would lack the usage of other files
			return nil
		}
		return c.missing(x, parent)
	}
	t.named = true
	alike := x.above(t.parent) == x.above(parent) && t.sum == turnSum(a.Messages, a.Response, a.Model, a.Usage, storedTime(a.Time), a.Meta)
	if !alike && !a.Branch.IsZero() {
		_, alike = c.im.copyOf(ctx, x.line.id, id, a)
	}
	if !alike {
		if alike, err = c.inPieces(ctx, x, a, id, parent); err != nil {
			return err
		}
	}
	if !alike && t.response != response {
		stored, err := c.im.Client.Turn(ctx, x.line.id, id)
		if err != nil {
			return err
		}
		if !isBeginning(a.Response, stored.Response) {
			x.changed++
			t.changed = true
		}
	}
	c.settle(x, id, alike)
	return nil
}

// place returns the session that has a turn of x in the ledger, where another turn followed
// its parent and it began a fork: see [Importer.place]. Nil: none has it.
func (c *comparer) place(ctx context.Context, x *comparison, a *transcript.Append, id, parent turns.ID) (*comparison, error) {
	if a.Branch.IsZero() {
		return nil, nil
	}
	b := c.placed[parent]
	if b == nil || b.turns[id] == nil {
		var ok bool
		if b, ok = c.branches[a.Branch]; !ok {
			had, err := c.im.sessionIfAny(ctx, a.Branch)
			if err != nil {
				return nil, err
			}
			if had != nil && had.State == "open" { // else it has a successor
				b = &comparison{line: &line{id: a.Branch, had: had}, turns: make(map[turns.ID]*storedTurn)}
				if err := c.load(ctx, b); err != nil {
					return nil, err
				}
			}
			c.branches[a.Branch] = b
		}
	}
	if b == nil || b.turns[id] == nil {
		return nil, nil
	}
	if c.placed[id] = b; !slices.Contains(x.branches, b) {
		x.branches = append(x.branches, b)
	}
	return b, nil
}

// isNamed reports whether the file holds all turns of a session.
func (x *comparison) isNamed() bool {
	for _, t := range x.turns {
		if t.normal && !t.named {
			return false
		}
	}
	return true
}

// ids returns the ids of a turn and its parent in the ledger. shared says that the turn is
// of the session that x goes on from.
func (c *comparer) ids(ctx context.Context, x *comparison, id, parent turns.ID) (own, up turns.ID, shared bool, err error) {
	if up, err = c.im.turnIn(ctx, x.line, parent); err == nil {
		shared, err = c.im.renameOwn(ctx, x.line, &id)
	}
	return id, c.im.splits.last(up), shared, err
}

// above returns the turn at or above one that is no compaction: the ledger puts a turn after
// the compactions that follow its parent.
func (x *comparison) above(turn turns.ID) turns.ID {
	for t := x.turns[turn]; t != nil && !t.normal; t = x.turns[turn] {
		turn = t.parent
	}
	return turn
}

// settle notes whether a turn is alike.
func (c *comparer) settle(x *comparison, id turns.ID, alike bool) {
	if !alike {
		x.differs = true
	}
	if !x.differs {
		x.last = turns.Ref{Session: x.line.id, Turn: c.im.splits.last(id)}
	}
}

// missing notes a turn or compaction that the ledger has not. What follows the end of the
// session is what the file got since.
func (c *comparer) missing(x *comparison, parent turns.ID) error {
	up := x.turns[parent]
	switch {
	case up != nil && up.child, up == nil && parent == x.line.at.Turn && len(x.turns) > 0:
		x.differs = true
	}
	return nil
}

// inPieces reports whether the ledger holds a turn in several: see grown.go.
func (c *comparer) inPieces(ctx context.Context, x *comparison, a *transcript.Append, id, parent turns.ID) (bool, error) {
	first := x.turns[id]
	if x.above(first.parent) != x.above(parent) || !first.normal {
		return false, nil
	}
	var pieces []*api.Turn
	last := id
	for at := id; x.turns[at] != nil && len(pieces) < maxPieces; at = turns.DeriveID(at.Time(), "rest", at.String()) {
		t, err := c.im.Client.Turn(ctx, x.line.id, at)
		if err != nil {
			return false, err
		}
		pieces, last = append(pieces, t), at
	}
	if len(pieces) < 2 {
		return false, nil
	}
	rest, _, ok := restOf(pieces, a)
	if !ok || rest != nil {
		return false, nil
	}
	for _, p := range pieces {
		x.turns[p.ID].named = true
	}
	c.im.addSplit(id, id, last)
	return true, nil
}

func (c *comparer) compaction(ctx context.Context, k *transcript.Compaction) error {
	x := c.all[k.Session]
	if x == nil || x.line.had == nil {
		return nil
	}
	id, parent, shared, err := c.ids(ctx, x, k.ID, k.Parent)
	if err != nil || shared {
		return err
	}
	t := x.turns[id]
	if t == nil && x.joined {
		if s, err := c.im.Client.Turn(ctx, x.line.id, id); err == nil && s.Session != x.line.id {
			return nil
		} else if err != nil && !coded(err, api.NotFound) {
			return err
		}
	}
	if t == nil { // what follows it may follow its parent in the ledger
		if up := x.turns[parent]; up != nil && up.child {
			x.skipped = true
		}
		if !parent.IsZero() {
			c.im.addSplit(id, parent, parent)
		}
		return nil
	}
	t.named = true
	if k.Parent.IsZero() { // the file begins with it: it stands after what the ledger had, or for it
		return nil
	}
	c.settle(x, id, x.above(t.parent) == x.above(parent) && (k.Summary == "" || t.sum == sumOf("compaction", k.Summary)))
	return nil
}

// hasLost reports whether the file has lost turns that the session holds: its responses are
// nowhere in the file, and no turn took their places. An older reader may have read a
// response otherwise, or twice; from the same reader, another response is of another file, and
// each of equal responses is one of its own.
func (c *comparer) hasLost(x *comparison, older bool) bool {
	var last time.Time
	had := make(map[[sha256.Size]byte]int)
	gone := 0
	for _, t := range x.turns {
		if t.changed && !older && t.normal && t.response != (storedTurn{}).response && c.responses[t.response] == 0 {
			return true
		}
		if t.time.After(last) {
			last = t.time
		}
		if t.normal && t.response != (storedTurn{}).response {
			had[t.response]++
		}
	}
	for response, n := range had {
		switch in := c.responses[response]; {
		case in == 0, !older && n > in:
			gone += min(n-in, x.unnamed(response))
		}
	}
	for _, n := range x.news {
		if had[n.response] == 0 && !n.time.After(last) {
			gone--
		}
	}
	return gone > 0
}

// unnamed counts the turns of a session with a response that the file does not name.
func (x *comparison) unnamed(response [sha256.Size]byte) (n int) {
	for _, t := range x.turns {
		if t.normal && !t.named && t.response == response {
			n++
		}
	}
	return n
}

// renew marks what a refresh found: the sessions that have a successor now, and those that
// read the same.
func (im *Importer) renew(ctx context.Context, rep *Report, current []*api.Session) error {
	for _, s := range current {
		if !isOlder(s, rep.Format) {
			continue
		}
		now, err := im.Client.Session(ctx, s.ID)
		if err != nil {
			return err
		}
		if err := im.setMeta(ctx, now, "read again", map[string]turns.Raw{"reader": readerMark(rep.Format)}); err != nil {
			return err
		}
		rep.Same++
	}
	for _, id := range im.lacking {
		rep.lose(transcript.Loss{Kind: "kept_first", Reason: "the file has less of this session than the ledger, or what another file replaced; nothing was made of it", Record: id.String()})
	}
	for source, r := range im.renewing {
		for _, old := range append([]*api.Session{r.old}, r.also...) {
			if err := im.supersede(ctx, r, old, im.lines[source]); err != nil {
				return err
			}
		}
		rep.Renewed++
	}
	return nil
}

// supersede marks the session that a successor took the place of, and closes it.
func (im *Importer) supersede(ctx context.Context, r *renewal, old *api.Session, next *line) error {
	if next == nil || next.id != r.id {
		return errors.New("internal error: a session was read anew, and nothing was stored")
	}
	s, err := im.Client.Session(ctx, old.ID)
	if err != nil {
		return err
	}
	name := "superseded_by"
	if r.lost && old == r.old {
		name = "continued_by"
	}
	if err := im.setMeta(ctx, s, "successor", map[string]turns.Raw{name: turns.RawText(r.id.String())}); err != nil {
		return err
	}
	if s.State != "open" {
		return nil
	}
	id := turns.DeriveID(s.ID.Time(), "import", "superseded", s.ID.String(), r.id.String())
	if _, err := im.Client.Close(ctx, s.ID, api.CloseSession{ID: id, Cause: "session " + r.id.String() + " holds what its transcript reads as now"}); err != nil {
		return err
	}
	if s.Label == "" {
		return nil
	}
	set := api.SetSession{ID: turns.DeriveID(s.ID.Time(), "import", "label", s.ID.String(), r.id.String())}
	set.Label = &s.Label
	_, err = im.Client.Set(ctx, r.id, set)
	if coded(err, api.IDReused) {
		return nil
	}
	return err
}

// openRenewed makes the session of a step the fork that goes on from the old one, where the
// file has lost turns; ok is false for another step.
func (im *Importer) openRenewed(ctx context.Context, o *transcript.Open, format string) (had, ok bool, err error) {
	for _, r := range im.renewing {
		if r.id != o.ID || r.point.IsZero() {
			continue
		}
		l := im.byID[r.id]
		if l != nil && l.had != nil {
			return true, true, nil
		}
		meta := withMember(im.opening(ctx, r.id, o.Meta, format), "continues", turns.RawText(r.old.ID.String()))
		s, err := im.Client.Fork(ctx, r.point.Session, api.CreateFork{ID: r.id, Turn: r.point.Turn, Meta: meta})
		if err == nil && l != nil {
			l.had = s
		}
		return false, true, err
	}
	return false, false, nil
}

// ofRenewal returns the meta of a successor, which names the session before it; meta itself
// for any other session.
func (im *Importer) ofRenewal(id turns.ID, meta turns.Raw) turns.Raw {
	for _, r := range im.renewing {
		if r.id == id {
			name := map[bool]string{true: "continues", false: "supersedes"}[r.lost]
			return withMember(meta, name, turns.RawText(r.old.ID.String()))
		}
	}
	return meta
}
