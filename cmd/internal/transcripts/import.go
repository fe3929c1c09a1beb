package transcripts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"nexus/cmd/internal/handover"
	"nexus/cmd/internal/repository"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Report is what the import of one file did.
type Report struct {
	File        string            `json:"file"`
	Format      string            `json:"format"`
	Sessions    []turns.ID        `json:"sessions"`
	Opened      int               `json:"opened,omitzero"` // of the sessions: those that this import opened
	Hidden      int               `json:"hidden,omitzero"` // of them: those that were hidden, and stay so
	Turns       int               `json:"turns"`
	Split       int               `json:"split,omitzero"` // of the turns: several turns of the ledger hold each
	Forks       int               `json:"forks"`
	Compactions int               `json:"compactions"`
	Stored      int               `json:"stored"`
	Existing    int               `json:"existing"`
	KeptFirst   int               `json:"kept_first"`
	Older       int               `json:"older_reader,omitzero"` // sessions that an older reader read, or one that left no version
	Renewed     int               `json:"renewed,omitzero"`      // by a refresh: sessions that read differently, and have a successor now
	Same        int               `json:"same,omitzero"`         // by a refresh: sessions of an older reader that read the same
	Losses      []transcript.Loss `json:"losses"`
	Error       string            `json:"error,omitzero"` // why it ended before the end of the file

	// Unacknowledged is set where the import was stopped and a request of it had no reply: it
	// may be stored.
	Unacknowledged bool `json:"-"`

	kinds   map[lossKind]int  // by kind and reason: the index in Losses of what stands for several
	records []record          // what Turns, Split, Forks and Compactions count
	added   map[turns.ID]bool // records of the reports that were added
}

// record is a turn, a fork or a compaction that a report counts.
type record struct {
	id    turns.ID
	of    func(*Report) *int // the field that counts it
	split bool
}

// lossKind is what losses that are counted together have in common.
type lossKind struct{ what, reason string }

// maxLosses is how many losses a report has, at most: further ones are counted by what
// they are.
const maxLosses = 1000

// Add adds what another import did. A turn that several files have counts once. Losses are
// added up by what they are.
func (r *Report) Add(o *Report) {
	r.Turns, r.Forks, r.Compactions = r.Turns+o.Turns, r.Forks+o.Forks, r.Compactions+o.Compactions
	r.Stored, r.Existing, r.KeptFirst = r.Stored+o.Stored, r.Existing+o.Existing, r.KeptFirst+o.KeptFirst
	r.Older, r.Renewed, r.Same = r.Older+o.Older, r.Renewed+o.Renewed, r.Same+o.Same
	r.Split += o.Split
	r.Opened, r.Hidden = r.Opened+o.Opened, r.Hidden+o.Hidden
	if r.added == nil {
		r.added = make(map[turns.ID]bool)
	}
	for _, x := range o.records {
		if !r.added[x.id] {
			r.added[x.id] = true
			continue
		}
		if *x.of(r)--; x.split {
			r.Split--
		}
	}
	r.Unacknowledged = r.Unacknowledged || o.Unacknowledged
	for _, l := range o.Losses {
		r.count(l)
	}
}

// Fields of reports that records count.
func turnsOf(r *Report) *int       { return &r.Turns }
func forksOf(r *Report) *int       { return &r.Forks }
func compactionsOf(r *Report) *int { return &r.Compactions }

// countRecord counts a record in the field of it.
func (r *Report) countRecord(id turns.ID, of func(*Report) *int) {
	*of(r)++
	r.records = append(r.records, record{id: id, of: of})
}

// Clear takes away what was reported so far, but for the sessions and the counts.
func (r *Report) Clear() { r.Stored, r.Losses, r.kinds = 0, nil, nil }

// lose adds a loss. Those after the first [maxLosses] are counted by what they are.
func (r *Report) lose(l transcript.Loss) {
	if len(r.Losses) < maxLosses {
		r.Losses = append(r.Losses, l)
		return
	}
	r.count(l)
}

// count adds a loss to the others of its kind and reason.
func (r *Report) count(l transcript.Loss) {
	if r.kinds == nil {
		r.kinds = make(map[lossKind]int)
	}
	k := lossKind{l.Kind, l.Reason}
	i, ok := r.kinds[k]
	if !ok && len(r.kinds) >= maxLosses {
		k.reason, l.Reason = "other reasons", "other reasons"
		i, ok = r.kinds[k]
	}
	if ok {
		sum := &r.Losses[i]
		sum.Count, sum.Usage = sum.Count+max(l.Count, 1), turns.AddUsage(sum.Usage, l.Usage)
		return
	}
	r.kinds[k] = len(r.Losses)
	r.Losses = append(r.Losses, transcript.Loss{Kind: l.Kind, Reason: l.Reason, Count: max(l.Count, 1), Usage: l.Usage})
}

// AddUncounted adds to the losses the usage of a turn that came after the turn was stored.
// None is not a loss.
func (r *Report) AddUncounted(turn turns.ID, u turns.Usage) {
	if u != (turns.Usage{}) {
		r.lose(transcript.Loss{Kind: "kept_first", Reason: "usage that came after its turn was stored is not counted", Record: turn.String(), Usage: &u})
	}
}

// transcriptSource is a file and how it is read.
type transcriptSource struct {
	name   string
	final  bool
	copied bool // read the copied history of a fork, since the ledger lacks its parent
	grown  bool // import an export of this ledger as any transcript, since it has more in it
}

// Importer imports files. The zero Format is that of auto. Not safe for concurrent use.
type Importer struct {
	Client *client.Client
	Stdin  io.Reader     // read for the name -
	Format string        // a name of [FormatNames]
	Final  bool          // files will not grow
	Settle time.Duration // after so long without a write, a file will not grow either; 0: any may
	Window uint64        // context window of the sessions that it opens, in tokens; 0: the default
	Read   func(int)     // called with the number of bytes that were read; nil: not called
	// Refresh makes successors of sessions that read differently now: see refresh.go.
	Refresh bool
	// Unit is the id of the import, which stands in the meta of the sessions that it opens; zero: none.
	Unit turns.ID
	// Projects finds the repositories of folders; nil: it asks git for each session.
	Projects *repository.Cache

	acked  string             // the position of the newest turn that it stored; "": none
	stop   context.CancelFunc // of Files
	splits splitTurns
	placed placement
	// Of the file that is read.
	clock    clock
	lines    map[turns.ID]*line // by the source's session
	byID     map[turns.ID]*line // by the session of the ledger
	renamed  map[turns.ID]turns.ID
	renewing map[turns.ID]*renewal // by the source's session
	lacking  []turns.ID            // sessions that hold what the file lacks, and get no successor
	older    map[turns.ID]turns.ID // by session: that of an older copy, which takes what the session lacks
	into     map[turns.ID]turns.ID // by session that a file copied from: that which takes the copy; see noteShortCopy
	joined   map[turns.ID]*joined  // by session of the ledger: those that may begin with turns of others
}

// File imports one file. It reads a fork of a session that the ledger lacks again, with
// the history that the fork copied, and an export of this ledger that another program
// continued as any transcript.
func (im *Importer) File(ctx context.Context, name string) (*Report, error) {
	return im.file(ctx, name, false)
}

// file is File. With waits it returns [ErrNoParent] for a fork of a session that the ledger
// lacks: another file may bring that.
func (im *Importer) file(ctx context.Context, name string, waits bool) (*Report, error) {
	im.into = nil
	how := transcriptSource{name: name, final: im.Final || im.IsSettled(name)}
	r, err := im.once(ctx, how)
	for superseded := false; !isStream(name); {
		switch {
		case errors.Is(err, ErrNoParent) && !how.copied && !waits:
			how.copied = true
		case errors.Is(err, ErrGrown) && !how.grown:
			how.grown = true
		case errors.Is(err, ErrSuperseded) && !superseded:
			superseded = true
		default:
			return r, err
		}
		before := r
		if r, err = im.once(ctx, how); r != nil && before != nil {
			r.Stored, r.Existing = r.Stored+before.Stored, r.Existing-min(r.Existing, before.Stored)
		}
	}
	return r, err
}

// SettleTime is how long a file that will not grow has been left alone. An agent that
// waits for its model or for a tool writes sooner.
const SettleTime = time.Hour

// IsSettled reports whether nobody has written to a file for a while.
func (im *Importer) IsSettled(name string) bool {
	st, err := os.Stat(name)
	return im.Settle > 0 && err == nil && st.Mode().IsRegular() && time.Since(st.ModTime()) > im.Settle
}

func (im *Importer) once(ctx context.Context, how transcriptSource) (*Report, error) {
	in, err := OpenContext(ctx, how.name, im.Stdin, im.Format, im.Read)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r := &Report{File: how.name, Format: in.Format.Name, Sessions: []turns.ID{}, Losses: []transcript.Loss{}}
	if in.Format.Open == nil {
		return r, ImportExport(ctx, im.Client, in.Reader, r)
	}
	im.clock, im.lines, im.byID, im.renamed, im.renewing, im.older, im.joined = nil, nil, nil, nil, nil, nil, nil
	var current []*api.Session
	if refresh := im.Refresh && !isStream(how.name); refresh {
		if current, err = im.findChanged(ctx, how, r.Format); err != nil {
			return r, err
		}
	}
	if err := im.steps(ctx, in.Format.Open(in, ReadOptions(how.name, in.Format.Name, transcript.Options{Final: how.final, Copied: how.copied})), how.grown || isStream(how.name), how.copied, r); err != nil {
		return r, err
	}
	return r, im.renew(ctx, r, current)
}

// ErrNoParent: the session that a transcript was forked from is not in the ledger.
var ErrNoParent = errors.New("the session that it was forked from is not in the ledger")

// ErrGrown: an export of ours holds what is not in the ledger.
var ErrGrown = errors.New("an export of this ledger, with more in it")

// steps does the steps of a transcript in order. Those before an error stay; doing them
// again stores nothing. all says to store an export of this ledger too, which otherwise is
// not stored a second time; copied, that the transcript has what it copied of other sessions.
func (im *Importer) steps(ctx context.Context, r *transcript.Reader, all, copied bool, rep *Report) error {
	in := Intake{Importer: im, Report: rep, All: all}
	graced, done := withGrace(ctx)
	defer done()
	for st, err := range r.Steps() {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = in.Step(graced, st)
			rep.Unacknowledged = rep.Unacknowledged || graced.Err() != nil
		}
		if err != nil {
			return err
		}
	}
	if in.Own() {
		in.endOwn()
		return nil
	}
	if in.fork != nil && !in.grown {
		rep.lose(ownExport(in.fork.from.Session))
		return nil
	}
	if err := im.endJoined(graced, copied, rep); err != nil {
		return err
	}
	for _, l := range r.Losses() {
		rep.lose(l)
	}
	if err := im.noteUncounted(ctx, rep); err != nil {
		return err
	}
	return im.Titles(ctx, r.Titles(), rep)
}

// stopGrace is how long an import that is stopped waits for the replies to its requests, so
// that it can say what is stored.
const stopGrace = 2 * time.Second

// withGrace returns a context that ends [stopGrace] after ctx does.
func withGrace(ctx context.Context) (graced context.Context, done func()) {
	graced, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(stopGrace):
			cancel()
		case <-graced.Done():
		}
	})
	return graced, func() { stop(); cancel() }
}

// Intake stores the steps of one transcript, in their order.
type Intake struct {
	*Importer
	Report *Report // what was done is added to it; its Format is set before the first step
	All    bool    // store an export of this ledger too

	begun bool
	own   turns.ID        // the session of this ledger that the transcript was exported from; zero: it is none
	joint *handover.Joint // nil: not a transcript that "continue" wrote, and no export with a mark
	fork  *exportFork     // takes what was added to an export; nil: the transcript is none
	grown bool            // something was added to it
	last  turns.Ref
}

// Last returns the last turn with a response of those that the intake did or resumed, as
// the ledger has it; zero: there was none.
func (in *Intake) Last() turns.Ref { return in.last }

func (in *Intake) noteLast(st transcript.Step) {
	if a := st.Append; a != nil && a.Response != nil {
		in.last = turns.Ref{Session: in.placed.of(a.ID, a.Session), Turn: in.splits.last(a.ID)}
	}
}

// Own reports whether the steps so far are an export of a session of this ledger, which
// holds them: none was stored.
func (in *Intake) Own() bool { return !in.own.IsZero() }

func (in *Intake) endOwn() {
	in.Report.Sessions = append(in.Report.Sessions, in.own)
	in.Report.lose(ownExport(in.own))
}

func ownExport(session turns.ID) transcript.Loss {
	return transcript.Loss{Kind: "skipped", Reason: "an export of a session of this ledger, which holds all of it", Record: session.String()}
}

// Resume takes a step that an earlier intake did, before those of [Intake.Step], and stores
// nothing. The earlier intake may have stored other turns than the steps name, which Step
// then answers with an error.
func (in *Intake) Resume(ctx context.Context, st transcript.Step) error {
	if err := in.findJoint(ctx, st); err != nil {
		return err
	}
	in.begun = true
	if in.joint != nil {
		own, written, err := in.addedStep(ctx, st)
		if written || err != nil {
			return err
		}
		st = own
	}
	st, _, err := in.rename(ctx, in.boundTime(st))
	if err != nil {
		return err
	}
	in.noteLast(st)
	if isDelayed, err := in.resumeJoined(ctx, st, in.Report); isDelayed || err != nil {
		return err
	}
	if err := in.resumeOlder(ctx, st, in.Report); err != nil {
		return err
	}
	switch {
	case st.Open != nil:
		in.Report.Sessions = append(in.Report.Sessions, st.Open.ID)
	case st.Fork != nil:
		in.Report.Sessions = append(in.Report.Sessions, st.Fork.ID)
	}
	return nil
}

// findJoint finds where a transcript that "continue" wrote goes on, at its first step.
func (in *Intake) findJoint(ctx context.Context, st transcript.Step) (err error) {
	if !in.begun && st.Open != nil {
		in.joint, err = in.jointOf(ctx, in.Report.Format, st.Open.Meta, in.Report)
		if err == nil && in.joint == nil && !in.All {
			in.joint, in.fork, err = in.exportOf(ctx, in.Report.Format, st.Open.Exported)
		}
		if in.fork != nil {
			in.Report.Sessions = append(in.Report.Sessions, in.fork.from.Session)
		}
	}
	return err
}

// addedStep returns a step that came after what was written, as one of the ledger; written
// says that the step is no such one. The fork for what was added to an export is made
// first.
func (in *Intake) addedStep(ctx context.Context, st transcript.Step) (out transcript.Step, written bool, err error) {
	out, written, err = in.joint.Step(st)
	if in.fork == nil || written {
		return out, written, err
	}
	if errors.Is(err, handover.ErrRewound) {
		return out, false, ErrGrown
	}
	if err == nil && !in.grown {
		if err = in.fork.make(ctx, in.Client); err == nil {
			in.grown = true
			in.Report.Sessions = append(in.Report.Sessions, in.fork.id)
		}
	}
	return out, false, err
}

// Step does one step. A step that was done before is counted, and no error. The errors
// [ErrNoParent] and [ErrGrown] say to begin again: with [transcript.Options].Copied, or
// with All.
func (in *Intake) Step(ctx context.Context, st transcript.Step) (err error) {
	rep := in.Report
	defer func() {
		if coded(err, api.Erased) { // for ever: whoever reads the file goes on
			rep.lose(transcript.Loss{Kind: "skipped", Reason: "its session was erased", Record: st.ID().String()})
			err = nil
		}
	}()
	if err := in.findJoint(ctx, st); err != nil {
		return err
	}
	if in.joint != nil {
		var written bool
		if st, written, err = in.addedStep(ctx, st); err != nil {
			return err
		}
		if written {
			in.begun = true
			rep.Existing++
			return nil
		}
	}
	if !in.begun && !in.All && in.joint == nil && st.Open != nil {
		if in.own, err = in.exportedSession(ctx, st.Open.Meta); err != nil {
			return err
		}
	}
	in.begun = true
	if in.Own() {
		if !isOwnStep(st) {
			return ErrGrown
		}
		rep.Existing++
		return nil
	}
	st, refused := withoutExcess(st)
	if refused != nil {
		rep.lose(transcript.Loss{Kind: "skipped", Reason: "usage with a count that is larger than any call has", Record: st.ID().String(), Usage: refused})
	}
	st, shared, err := in.rename(ctx, in.boundTime(st))
	if err != nil {
		return err
	}
	dup := shared
	if !shared {
		if dup, err = in.isInherited(ctx, st, rep); err == nil && !dup {
			dup, err = in.step(ctx, st, rep)
		} else if dup {
			in.countStep(st, rep)
		}
	}
	in.noteLast(st)
	switch {
	case errors.As(err, new(otherAgentError)):
		return err
	case coded(err, api.Closed) && in.isSuperseded(ctx, st):
		return ErrSuperseded
	case coded(err, api.TooLarge) && st.Append != nil:
		return tooLargeTurn(st.Append, rep.Turns, err)
	case coded(err, api.IDReused):
		rep.KeptFirst++
		rep.lose(transcript.Loss{Kind: "kept_first", Reason: "an earlier import stored this record with other content; that one stays", Record: st.ID().String()})
	case err != nil:
		return err
	case dup:
		rep.Existing++
	default:
		rep.Stored++
	}
	return nil
}

// withoutExcess returns a step without a usage that no event can hold: one such number
// would end the import of its file. refused is not nil where it had one, and has none of
// its counts.
func withoutExcess(st transcript.Step) (out transcript.Step, refused *turns.Usage) {
	isExcess := func(u *turns.Usage) bool {
		return u != nil && max(u.InputTokens, u.OutputTokens, u.CacheRead, u.CacheCreation) > turns.MaxCount
	}
	switch {
	case st.Append != nil && isExcess(st.Append.Usage):
		a := *st.Append
		a.Usage = nil
		return transcript.Step{Append: &a}, new(turns.Usage)
	case st.Compaction != nil && isExcess(st.Compaction.Usage):
		k := *st.Compaction
		k.Usage = nil
		return transcript.Step{Compaction: &k}, new(turns.Usage)
	}
	return st, nil
}

// isSuperseded reports whether the session that a step goes to has a successor.
func (im *Importer) isSuperseded(ctx context.Context, st transcript.Step) bool {
	id := turns.ID{}
	switch {
	case st.Append != nil:
		id = st.Append.Session
	case st.Compaction != nil:
		id = st.Compaction.Session
	}
	s, err := im.sessionIfAny(ctx, id)
	if s == nil || err != nil {
		return false
	}
	l := linksOf(s.Meta)
	return !l.next().IsZero()
}

// tooLargeTurn says which turn of a file is larger than a turn may be. What follows it in
// the file is not stored either, since it would follow another turn. n counts from 1.
func tooLargeTurn(a *transcript.Append, n int, err error) error {
	largest := 0
	messages := a.Messages
	if a.Response != nil {
		messages = append(slices.Clip(messages), *a.Response)
	}
	for _, m := range messages {
		for _, p := range m.Parts {
			largest = max(largest, len(p.ContentBytes()))
		}
	}
	at := ""
	if !a.Time.IsZero() {
		at = " (" + a.Time.UTC().Format(time.RFC3339) + ")"
	}
	err = fmt.Errorf("turn %d of the file%s, with a part of %s bytes, and what follows it are not stored: %w", n, at, humanize.Comma(int64(largest)), err)
	if largest > turns.MaxPart {
		return err
	}
	return hinted{err, "a NATS server with a larger max_payload takes more beside the content of large parts"}
}

// writerMeta is the part of a step's meta that names its writer.
type writerMeta struct {
	Session string `json:"session_id"`
	Version string `json:"version"` // if it differs from that of the step before
}

// exportedSession returns the session of this ledger that export --format claude-code
// wrote the transcript from; zero for any other transcript.
func (im *Importer) exportedSession(ctx context.Context, meta turns.Raw) (turns.ID, error) {
	var by writerMeta
	if err := json.Unmarshal(meta, &by); err != nil || by.Version != transcript.WriterName {
		return turns.ID{}, nil
	}
	u, err := uuid.Parse(by.Session)
	if err != nil {
		return turns.ID{}, nil
	}
	if had, err := im.has(ctx, turns.ID(u)); !had || err != nil {
		return turns.ID{}, err
	}
	return turns.ID(u), nil
}

// isOwnStep reports whether export wrote a step, not another program.
func isOwnStep(st transcript.Step) bool {
	var meta turns.Raw
	switch {
	case st.Append != nil:
		meta = st.Append.Meta
	case st.Open != nil:
		meta = st.Open.Meta
	case st.Fork != nil:
		return false // an export is one path
	}
	var by writerMeta
	err := json.Unmarshal(meta, &by)
	return len(meta) == 0 || err == nil && (by.Version == "" || by.Version == transcript.WriterName)
}

// Titles stores the titles of sessions in their meta, at the end: a transcript states
// them late and changes them. Each title is stored once, so that one which was set by
// hand later stays.
func (im *Importer) Titles(ctx context.Context, titles map[turns.ID]string, rep *Report) error {
	titles = maps.Clone(titles)
	for source, l := range im.lines {
		if t, ok := titles[source]; ok {
			titles[l.id] = t
		}
	}
	for _, id := range slices.Compact(slices.SortedFunc(slices.Values(rep.Sessions), turns.ID.Compare)) {
		title := titles[id]
		if title == "" {
			continue
		}
		s, err := im.Client.Session(ctx, id)
		if err != nil {
			return err
		}
		meta := make(map[string]turns.Raw)
		if err := json.Unmarshal(s.Meta, &meta); len(s.Meta) > 0 && err != nil {
			return err
		}
		if was, _ := meta["title"].Text(); was == title || s.State != "open" {
			continue
		}
		meta["title"] = turns.RawText(title)
		r := api.SetSession{ID: turns.DeriveID(id.Time(), "import", "title", id.String(), title)}
		if r.Meta, err = turns.EncodeJSON(meta); err != nil {
			return err
		}
		now, err := im.Client.Set(ctx, id, r)
		switch {
		case coded(err, api.IDReused): // this title was there, and meta is another since
		case err != nil:
			return err
		case now.Hash != s.Hash:
			rep.Stored++
		}
	}
	return nil
}

// step does one step. dup says that it was done before.
func (im *Importer) step(ctx context.Context, st transcript.Step, rep *Report) (dup bool, err error) {
	switch {
	case st.Open != nil:
		return im.open(ctx, st.Open, rep)
	case st.Fork != nil:
		im.countStep(st, rep)
		return im.fork(ctx, st.Fork, rep)
	case st.Append != nil:
		im.countStep(st, rep)
		dup, err := im.place(ctx, st.Append, rep)
		if p, split := im.splits[st.Append.ID]; split && p.first != p.last {
			rep.Split++
			rep.records[len(rep.records)-1].split = true
		}
		return dup, err
	default:
		im.countStep(st, rep)
		return im.compaction(ctx, st.Compaction, rep)
	}
}

// countStep counts what a step is, but for the opening of a session.
func (*Importer) countStep(st transcript.Step, rep *Report) {
	switch {
	case st.Fork != nil:
		rep.countRecord(st.Fork.ID, forksOf)
	case st.Append != nil:
		rep.countRecord(st.Append.ID, turnsOf)
	case st.Compaction != nil:
		rep.countRecord(st.Compaction.ID, compactionsOf)
	}
}

// otherAgentError says that another agent of the ledger has a session of a transcript.
// The ids of a transcript are the same for all agents, so only the first agent of
// the ledger that imports it, of any tenant, can have them.
type otherAgentError struct{ refused *api.Error }

func (e otherAgentError) Error() string { return e.refused.Error() }

func (e otherAgentError) Unwrap() error {
	return hinted{e.refused, "import it as that agent (--tenant and --agent), or into another ledger (--server)"}
}

// ownID returns err, or an otherAgentError if err says that the id of a session is used
// and the agent has no such session.
func (im *Importer) ownID(ctx context.Context, session turns.ID, err error) error {
	if !coded(err, api.IDReused) {
		return err
	}
	switch own, lookup := im.has(ctx, session); {
	case lookup != nil:
		return lookup
	case own:
		return err
	}
	return otherAgentError{api.Errorf(api.IDReused, nil, "session %s of this transcript belongs to another agent of the ledger", session)}
}

// has reports whether the agent has a session.
func (im *Importer) has(ctx context.Context, id turns.ID) (bool, error) {
	_, err := im.Client.Session(ctx, id)
	if coded(err, api.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// open opens a session. had says that the ledger has it, or that it is not opened yet: see
// joined.go.
func (im *Importer) open(ctx context.Context, o *transcript.Open, rep *Report) (had bool, err error) {
	if had, ok, err := im.openRenewed(ctx, o, rep.Format); ok {
		rep.Sessions = append(rep.Sessions, o.ID)
		return had, im.ownID(ctx, o.ID, err)
	}
	l, err := im.sessionOf(ctx, o.ID)
	if err != nil {
		return false, err
	}
	if l.had == nil && !l.renamed && sharesIDs(rep.Format) {
		im.delay(o)
		return true, nil
	}
	rep.Sessions = append(rep.Sessions, o.ID)
	if l.had != nil {
		if l.had.ForkedFrom != nil && l.before == nil && sharesIDs(rep.Format) {
			im.join(o.ID, new(joined))
		}
		if done, err := im.openStandIn(ctx, o, rep.Format); done || err != nil {
			return true, err
		}
		return true, im.known(ctx, l, o.SpawnedBy, rep)
	}
	l.had, err = im.create(ctx, o, rep)
	return false, err
}

// create creates the session of a step.
func (im *Importer) create(ctx context.Context, o *transcript.Open, rep *Report) (*api.Session, error) {
	r := api.CreateSession{ID: o.ID, SpawnedBy: spawnedBy(o.SpawnedBy)}
	r.Meta, r.Model = im.ofRenewal(o.ID, im.opening(ctx, o.ID, o.Meta, rep.Format)), &o.Model
	if len(o.System) > 0 {
		r.System = (*api.System)(&o.System)
	}
	if len(o.Tools) > 0 {
		r.Tools = &o.Tools
	}
	if im.Window > 0 {
		r.Limits = &turns.Limits{ContextWindow: im.Window}
	}
	s, err := im.Client.Create(ctx, r)
	s, err = im.unlessOpened(ctx, o.ID, r.Meta, s, err)
	rep.countOpened(s, err)
	return s, im.ownID(ctx, o.ID, err)
}

// sessionOf returns what the ledger has of a session with an id of the ledger.
func (im *Importer) sessionOf(ctx context.Context, id turns.ID) (*line, error) {
	if l := im.byID[id]; l != nil {
		return l, nil
	}
	return im.lineOf(ctx, id)
}

// known counts a session that the ledger has, and links it to what started it.
func (im *Importer) known(ctx context.Context, l *line, by turns.Ref, rep *Report) error {
	if isOlder(l.had, rep.Format) && !im.Refresh {
		rep.Older++
	}
	if l.had.Hidden {
		rep.Hidden++
	}
	return im.linkSpawner(ctx, l.had, by, rep)
}

func spawnedBy(r turns.Ref) *api.SpawnedBy {
	if r.IsZero() {
		return nil
	}
	return &api.SpawnedBy{Session: r.Session, Turn: r.Turn}
}

// claimedTime returns a time that a source states, nil if an event can't hold it.
func claimedTime(t time.Time) *api.Time {
	if _, ok := api.Time(t).UnixNano(); !ok {
		return nil
	}
	return (*api.Time)(&t)
}

func (im *Importer) compaction(ctx context.Context, k *transcript.Compaction, rep *Report) (dup bool, err error) {
	r := api.RecordCompaction{ID: k.ID, Parent: im.splits.last(k.Parent), Time: claimedTime(k.Time), Trigger: k.Trigger, Model: k.Model, Usage: k.Usage, Replacement: k.Replacement, Summary: k.Summary,
		FirstKept: im.splits.first(k.FirstKept), TokensBefore: k.TokensBefore, Dropped: k.Dropped, Meta: k.Meta}
	for _, x := range k.Cleared {
		at, err := im.turnOfResult(ctx, k.Session, x)
		if err != nil {
			return false, err
		}
		r.Cleared = append(r.Cleared, api.ClearedResult{Turn: at, Call: x.Call})
	}
	to := im.placed.of(k.Parent, k.Session)
	if to != k.Session {
		if had, err := im.hasOwn(ctx, k.Session, k.ID); had || err != nil { // another file of the session begins with it
			return had, err
		}
		im.placed.record(k.ID, k.Session, to)
	}
	if k.Parent.IsZero() {
		to, err = im.olderPlace(ctx, to, k.ID, k.Time, true, false, rep)
	} else {
		to, err = im.beside(ctx, to, k.ID)
	}
	if err != nil {
		return false, err
	}
	if to != k.Session {
		placed := *k
		placed.Session = to
		k = &placed
	}
	t, err := im.Client.Record(ctx, to, r)
	if err == nil && !t.Duplicate {
		im.acked = t.Position
	}
	reason := ""
	switch {
	case err == nil:
		return t.Duplicate, nil
	case k.Parent.IsZero() && coded(err, api.IDReused) && im.hasCompaction(ctx, k):
		return true, nil
	case k.Parent.IsZero() && im.isFirst(ctx, k, err):
		if k.Usage != nil {
			rep.lose(transcript.Loss{Kind: "skipped", Reason: "usage of a compaction, which is stored as a turn", Record: k.ID.String(), Usage: k.Usage})
		}
		return im.append(ctx, replacementTurn(k), rep)
	case coded(err, api.IDReused) && im.isBounded(ctx, k, rep):
		return true, nil
	case errors.Is(err, api.ErrNothing):
		reason = "a recorded compaction that covers nothing"
	case coded(err, api.Conflict): // an earlier import skipped it, and went on
		reason = "a recorded compaction, after which something else follows in the ledger"
	default:
		return false, err
	}
	im.addSplit(k.ID, r.Parent, r.Parent) // what follows it follows its parent
	rep.lose(transcript.Loss{Kind: "skipped", Reason: reason, Record: k.ID.String()})
	return true, nil
}
