package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/disk"
	"nexus/turns"
)

// The states of a run in a [Salvage]. A damaged one is [Damaged].
const (
	Whole      = "whole"
	Unfinished = "unfinished" // the file ends in it
)

// Salvage is what can be restored of a file that is damaged or incomplete: every sound
// record. A record that is lost has its place in the totals.
type Salvage struct {
	// Begin says whose records they are, as far as a sound frame does.
	Begin  Begin      `json:"begin"`
	Totals Totals     `json:"totals"`
	Digest turns.Hash `json:"digest,omitzero"` // as the last run that ended states it
	// Bytes is where what can be restored ends: before an unfinished run, unless it is the first one.
	Bytes int64      `json:"bytes,string"`
	Runs  []RunState `json:"runs"`
	// LostEvents and LostChunks are the numbers of positions in Lost.
	LostEvents uint64      `json:"lost_events,string"`
	LostChunks uint64      `json:"lost_chunks,string"`
	Lost       []Loss      `json:"lost,omitempty"`   // by stream, sorted by position
	Chains     []ChainLoss `json:"chains,omitempty"` // sorted by the position before the loss
	// Content is the events whose content is lost with a chunk, sorted by position.
	Content []ContentLoss `json:"content,omitempty"`
}

// RunState is what is left of a run.
type RunState struct {
	Run   uint64    `json:"run"`
	State string    `json:"state"`
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// First and Last are the positions of the log that it has, lost ones included; 0: none.
	First      uint64 `json:"first,string,omitzero"`
	Last       uint64 `json:"last,string,omitzero"`
	LostEvents uint64 `json:"lost_events,string,omitzero"`
	LostChunks uint64 `json:"lost_chunks,string,omitzero"`
	Problem    string `json:"problem,omitempty"` // the first one
	implicit   bool   // no sound frame begins it
}

// Loss is positions [First, Last] of a stream of which the file has no sound record.
type Loss struct {
	Blobs  bool   `json:"blobs,omitzero"`  // a stream of blobs, not the log
	Number uint64 `json:"number,omitzero"` // of the stream of blobs
	First  uint64 `json:"first,string"`
	Last   uint64 `json:"last,string"`
	Run    uint64 `json:"run"`
	// After and Before are when the sound records around them were stored; zero: there is none.
	After  time.Time `json:"after,omitzero"`
	Before time.Time `json:"before,omitzero"`
}

// Chain is a [turns.Chain] in a report.
type Chain struct {
	Entity turns.Entity `json:"entity"`
	ID     string       `json:"id"`
}

// ChainLoss is a chain that has lost events.
type ChainLoss struct {
	Tenant string `json:"tenant"`
	Chain  Chain  `json:"chain"`
	Lost   uint64 `json:"lost,string"` // events, as far as the records tell
	// After is the position of the newest event before the loss, Before that of the first one
	// after it; 0: there is none.
	After  uint64 `json:"after,string,omitzero"`
	Before uint64 `json:"before,string,omitzero"`
}

// maxGap bounds how many positions may be missing without bytes that they were in: a wrong
// position is no loss of all before it.
const maxGap = 1 << 20

// salvager reads one file. Its pairs are of the log and of the blobs.
type salvager struct {
	*frames
	c        *Checker
	visit    Visit
	out      *Salvage
	subjects map[uint64]string // of lost records of the log, if they are known
	legible  map[uint64]string // subjects in damaged records, which may be wrong
	breaks   []chainBreak
	content  content

	isDamaged bool      // anything is
	tail      bool      // the bytes before the next frame are
	failed    error     // of visit
	run       [2]uint64 // in which the first damage since the last sound record is; 0: there is none
	bytes     [2]int64  // that are damaged since then
	known     [2]uint64 // damaged records since then whose head is sound
	stored    [2]time.Time
	isLost    [2]bool // the last record is
}

// chainBreak is an event that does not continue its chain.
type chainBreak struct {
	subject     string
	before      chainEnd
	seq, missed uint64
}

// ReadDamaged reads a file that [Check] calls damaged or incomplete, through size, and goes on
// behind what is damaged. visit is called with each sound record, and in its place with one
// that says that it is lost, which is no event: with the subject that plan knows of it. plan is nil, or what ReadDamaged
// returned of the same file before. The checker has what visit got.
// Errors: [ledger.ErrUnsupported]: it is no backup; those of file, visit and ctx.
func ReadDamaged(ctx context.Context, file io.ReaderAt, size int64, plan *Plan, visit Visit) (*Plan, *Checker, error) {
	s := &salvager{frames: &frames{file: file, size: size}, c: NewChecker(), visit: visit, out: new(Salvage), legible: make(map[uint64]string)}
	if plan != nil {
		s.subjects = plan.subjects
	}
	s.c.broken = func(subject string, before chainEnd, seq, missed uint64) {
		s.breaks = append(s.breaks, chainBreak{subject, before, seq, missed})
	}
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, size), start); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, err
	}
	s.seek(int64(len(magic)))
	if string(start) != magic {
		_, b, err := s.next()
		if err != nil || b != nil || s.frame[0] != beginKind {
			return nil, nil, fmt.Errorf("%w: it is no backup of version 1, or its first bytes are damaged", ledger.ErrUnsupported)
		}
		s.seek(int64(len(magic)))
		s.isDamaged = true
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		at, bad, err := s.next()
		if err == nil && bad == nil {
			if err = s.take(at); s.failed != nil {
				return nil, nil, s.failed
			} else if errors.Is(err, ledger.ErrCorrupt) {
				bad, err = &hole{kind: s.frame[0], end: at + int64(len(s.frame)), why: err.Error()}, nil
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, errShort):
			return s.finish(at)
		case err != nil:
			return nil, nil, err
		case bad != nil:
			s.damage(at, bad)
		default:
			s.tail = false
		}
	}
}

// Plan is what [ReadDamaged] found.
type Plan struct {
	Salvage
	subjects map[uint64]string
}

// State returns the state of the file.
func (p *Plan) State() string {
	switch {
	case slices.ContainsFunc(p.Runs, func(r RunState) bool { return r.State == Damaged }):
		return Damaged
	case len(p.Runs) == 0 || p.Runs[len(p.Runs)-1].State == Unfinished:
		return Incomplete
	}
	return Complete
}

// Restore reads the file again, through what can be restored, and calls visit as
// [ReadDamaged] does.
func (p *Plan) Restore(ctx context.Context, file io.ReaderAt, visit Visit) (Report, *Checker, error) {
	again, c, err := ReadDamaged(ctx, file, p.Bytes, p, visit)
	if err != nil {
		return Report{}, nil, err
	}
	out := again.Salvage
	out.Runs = p.Runs // the unfinished one, too
	report := Report{State: p.State(), Ledger: out.Begin.Ledger, Totals: out.Totals, Digest: out.Digest, Bytes: out.Bytes, Read: p.Bytes, Salvage: &out}
	for _, r := range p.Runs {
		if r.State == Whole {
			report.Runs++
		} else if report.Problem == "" {
			report.Problem = fmt.Sprintf("run %d: %s", r.Run, r.Problem)
		}
	}
	return report, c, nil
}

// current returns the run that is begun and not ended, and begins one where none is.
func (s *salvager) current() *RunState {
	if !s.c.inRun {
		s.begin(s.c.begin.Run + 1)
	}
	return &s.out.Runs[len(s.out.Runs)-1]
}

// begin begins a run that no sound frame begins. Runs that are missing before it are damaged.
func (s *salvager) begin(run uint64) {
	s.close("it has no sound end")
	for n := s.c.begin.Run + 1; n < run && n < s.c.begin.Run+1000; n++ {
		s.out.Runs = append(s.out.Runs, RunState{Run: n, State: Damaged, Problem: "nothing of it is sound"})
	}
	s.c.begin.Run, s.c.inRun = run, true
	s.out.Runs = append(s.out.Runs, RunState{Run: run, implicit: true})
}

// close ends a run without its end.
func (s *salvager) close(why string) {
	if s.c.inRun {
		r := s.current()
		r.State, r.Problem = Damaged, cmp.Or(r.Problem, why)
		s.c.inRun, s.isDamaged = false, true
	}
}

// damage notes bytes that are no sound frame.
func (s *salvager) damage(at int64, h *hole) {
	r := s.current()
	r.Problem = cmp.Or(r.Problem, fmt.Sprintf("at byte %d: %s", at, h.why))
	s.isDamaged, s.tail = true, true
	for i := range s.run {
		s.run[i] = cmp.Or(s.run[i], r.Run)
		s.bytes[i] += h.end - at
	}
	switch h.kind {
	case logKind:
		s.known[0]++
		if _, rec, err := parseRecord(s.frame); err == nil && rec.Seq == s.c.totals.Log.Seq+s.known[0] {
			s.legible[rec.Seq] = rec.Subject
		}
	case blobKind:
		s.known[1]++
	}
}

// take takes a sound frame. [ledger.ErrCorrupt]: it does not belong there.
func (s *salvager) take(at int64) error {
	switch s.frame[0] {
	case beginKind:
		return s.takeBegin(at)
	case endKind:
		return s.takeEnd(at)
	}
	stream, r, err := parseRecord(s.frame)
	if err != nil {
		return err
	}
	i, due := 0, s.c.totals.Log.Seq+1
	if stream.Blobs {
		if i, due = 1, s.c.totals.Blobs.Seq+1; stream.Number > s.c.totals.BlobStream {
			due = 1
		}
		if _, err = jetstream.CheckChunk(r.Subject, r.Header, r.Payload); stream.Number < s.c.totals.BlobStream {
			err = fmt.Errorf("%w: chunk %d of stream %s", ledger.ErrCorrupt, r.Seq, jetstream.BlobsStream(stream.Number))
		}
	} else {
		_, err = jetstream.CheckRecord(r.Seq, r.Subject, r.Header, r.Payload, r.Stored)
	}
	if err != nil {
		return err
	}
	if r.Seq < due {
		return fmt.Errorf("%w: record %d, due is %d", ledger.ErrCorrupt, r.Seq, due)
	}
	run := s.current()
	if err := s.lose(stream, due, r.Seq-1, r.Stored); err != nil {
		return err
	}
	if err := s.c.Frame(s.frame); err != nil {
		return err
	}
	if stream.Blobs {
		s.content.chunk(stream.Number, r)
	} else {
		s.content.event(r.Subject, r.Seq, r.Payload)
		run.note(r.Seq)
	}
	s.run[i], s.bytes[i], s.known[i], s.stored[i], s.isLost[i] = 0, 0, 0, r.Stored, false
	return s.pass()
}

func (r *RunState) note(seq uint64) {
	r.First, r.Last = cmp.Or(r.First, seq), seq
}

func (s *salvager) pass() error {
	if s.visit == nil {
		return nil
	}
	s.failed = s.visit(s.c.stream, s.c.last)
	return s.failed
}

// lose gives up the positions from first to last of a stream. before is when the record
// after them was stored.
func (s *salvager) lose(stream Stream, first, last uint64, before time.Time) error {
	if first > last {
		return nil
	}
	i := 0
	if stream.Blobs {
		i = 1
	}
	if n := last - first + 1; n > maxGap+uint64(s.bytes[i])/(headSize+recordHead) {
		return fmt.Errorf("%w: record %d, due is %d", ledger.ErrCorrupt, last+1, first)
	}
	run := s.current()
	if at := slices.IndexFunc(s.out.Runs, func(r RunState) bool { return r.Run == s.run[i] }); at >= 0 {
		run = &s.out.Runs[at]
	}
	s.isDamaged, run.State = true, Damaged
	l := Loss{Blobs: stream.Blobs, Number: stream.Number, First: first, Last: last, Run: run.Run, After: s.stored[i], Before: before}
	run.Problem = cmp.Or(run.Problem, fmt.Sprintf("record %d is missing", first))
	s.out.Lost = append(s.out.Lost, l)
	stored := l.After
	for _, t := range []time.Time{l.Before, s.c.begin.Began} {
		if stored.IsZero() {
			stored = t
		}
	}
	name := jetstream.StreamName
	if stream.Blobs {
		name = jetstream.BlobsStream(stream.Number)
	}
	for seq := first; seq <= last; seq++ {
		subject := ""
		if !stream.Blobs {
			subject = s.subjects[seq]
		}
		r := disk.LostRecord(name, subject, seq, stored, turns.Hash{})
		var err error
		if stream.Blobs {
			err = s.c.chunk(stream, r)
			run.LostChunks++
			s.out.LostChunks++
		} else {
			err = s.c.event(stream, r)
			run.note(seq)
			run.LostEvents++
			s.out.LostEvents++
		}
		if err != nil {
			return err
		}
		s.c.stream, s.c.last = stream, r
		if err := s.pass(); err != nil {
			return err
		}
	}
	s.run[i], s.bytes[i], s.known[i], s.isLost[i] = 0, 0, 0, true
	return nil
}

func (s *salvager) takeBegin(at int64) error {
	var b Begin
	if err := turns.DecodeJSON(s.frame[headSize:], &b); err != nil {
		return fmt.Errorf("%w: the beginning of a run: %w", ledger.ErrCorrupt, err)
	}
	was := s.c.begin
	isAdopted := s.c.inRun && s.current().implicit && b.Run == was.Run
	if b.Ledger == "" || !isAdopted && b.Run <= was.Run || was.Ledger != "" && (b.Ledger != was.Ledger || !b.Created.Equal(was.Created)) {
		return fmt.Errorf("%w: the beginning of run %d follows run %d", ledger.ErrCorrupt, b.Run, was.Run)
	}
	if !isAdopted {
		s.begin(b.Run)
		s.out.Bytes = at
	}
	r := s.current()
	r.Began, r.implicit = b.Began, false
	s.c.begin = b
	s.c.accept(s.frame)
	return nil
}

func (s *salvager) takeEnd(at int64) error {
	var e End
	if err := turns.DecodeJSON(s.frame[headSize:], &e); err != nil {
		return fmt.Errorf("%w: the end of a run: %w", ledger.ErrCorrupt, err)
	}
	if e.Run < s.c.begin.Run || e.Run == s.c.begin.Run && !s.c.inRun {
		return fmt.Errorf("%w: the end of run %d follows run %d", ledger.ErrCorrupt, e.Run, s.c.begin.Run)
	}
	if e.Run > s.c.begin.Run {
		s.begin(e.Run)
	}
	run := s.current()
	if b := e.Begin; run.implicit && b.Ledger != "" {
		run.Began, s.c.begin = b.Began, b
	}
	t := e.Totals
	if t.BlobStream < s.c.totals.BlobStream {
		return fmt.Errorf("%w: the end of run %d has stream %s, the file %s", ledger.ErrCorrupt, e.Run, jetstream.BlobsStream(t.BlobStream), jetstream.BlobsStream(s.c.totals.BlobStream))
	}
	first := s.c.totals.Blobs.Seq + 1
	if t.BlobStream > s.c.totals.BlobStream {
		first = 1
	}
	if err := errors.Join(s.lose(Stream{}, s.c.totals.Log.Seq+1, t.Log.Seq, e.Ended), s.lose(Stream{Blobs: true, Number: t.BlobStream}, first, t.Blobs.Seq, e.Ended)); err != nil {
		return err
	}
	run = s.current()
	have, want := s.c.totals, e.Totals
	fits := have.Log.Seq == want.Log.Seq && have.BlobStream == want.BlobStream && have.Blobs.Seq == want.Blobs.Seq &&
		(s.isLost[0] || have.Log.Sum == want.Log.Sum) && (s.isLost[1] || have.Blobs.Sum == want.Blobs.Sum)
	if !s.isDamaged { // all of it can be compared
		exact := s.c.makeEnd()
		fits = fits && exact.isEnd(e)
	}
	if !fits {
		run.Problem = cmp.Or(run.Problem, fmt.Sprintf("the end of run %d does not fit what is before it", e.Run))
	}
	if run.implicit {
		run.Problem = cmp.Or(run.Problem, "it has no sound beginning")
	}
	if run.State, run.Ended = Whole, e.Ended; run.Problem != "" {
		run.State, s.isDamaged = Damaged, true
	}
	s.c.inRun, s.c.end = false, &e
	s.c.accept(s.frame)
	s.out.Bytes, s.out.Digest = at+int64(len(s.frame)), e.Digest
	s.run, s.bytes, s.known = [2]uint64{}, [2]int64{}, [2]uint64{}
	return nil
}

// finish ends the file at a byte.
func (s *salvager) finish(at int64) (*Plan, *Checker, error) {
	if s.c.inRun {
		blobs := Stream{Blobs: true, Number: s.c.totals.BlobStream}
		t := s.c.totals
		if err := errors.Join(s.lose(Stream{}, t.Log.Seq+1, t.Log.Seq+s.known[0], time.Time{}), s.lose(blobs, t.Blobs.Seq+1, t.Blobs.Seq+s.known[1], time.Time{})); err != nil {
			return nil, nil, err
		}
		if s.tail {
			s.close("it has no sound end")
			s.out.Bytes = at
		} else {
			r := s.current()
			r.State, r.Problem = Unfinished, cmp.Or(r.Problem, fmt.Sprintf("the file ends in it, at byte %d", at))
			if len(s.out.Runs) == 1 {
				s.out.Bytes = at
			}
		}
	}
	if !s.tail && at < s.size && len(s.out.Runs) > 0 && s.out.Runs[len(s.out.Runs)-1].State == Whole { // within the beginning of a run
		s.out.Runs = append(s.out.Runs, RunState{Run: s.c.begin.Run + 1, State: Unfinished, Problem: fmt.Sprintf("the file ends in it, at byte %d", at)})
	}
	if s.isDamaged && len(s.out.Runs) > 0 && !slices.ContainsFunc(s.out.Runs, func(r RunState) bool { return r.State == Damaged }) {
		s.out.Runs[0].State, s.out.Runs[0].Problem = Damaged, cmp.Or(s.out.Runs[0].Problem, "the first bytes of the file are damaged")
	}
	s.out.Begin, s.out.Totals = s.c.begin, s.c.totals
	slices.SortStableFunc(s.out.Lost, func(a, b Loss) int {
		if a.Blobs != b.Blobs {
			return map[bool]int{true: 1, false: -1}[a.Blobs]
		}
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.First, b.First))
	})
	p := &Plan{Salvage: *s.out, subjects: s.subjects}
	if p.subjects == nil {
		p.subjects = s.confirmed()
	}
	p.Chains = s.chains(p.subjects)
	if s.out.LostChunks > 0 || len(s.out.Runs) == 1 && s.out.Runs[0].State != Whole {
		p.Content = s.content.lost()
	}
	return p, s.c, nil
}

// confirmed returns the subjects of lost records that a sound one has too: a flipped bit must
// not set an innocent chain aside.
func (s *salvager) confirmed() map[uint64]string {
	out := make(map[uint64]string)
	for seq, subject := range s.legible {
		if tail, ok := s.c.chains[subject]; ok && tail.seq > 0 && s.hasLost(seq-1, seq+1) {
			out[seq] = subject
		}
	}
	return out
}

// hasLost reports whether a position of the log between two others is lost.
func (s *salvager) hasLost(after, before uint64) bool {
	return slices.ContainsFunc(s.out.Lost, func(l Loss) bool { return !l.Blobs && l.Last > after && l.First < before })
}

// chains returns the chains that have lost events: those that an event does not continue,
// and those of lost records whose subject is known.
func (s *salvager) chains(subjects map[uint64]string) []ChainLoss {
	found := make(map[string]*ChainLoss)
	add := func(subject string, after, before, lost uint64) {
		l, ok := found[subject]
		if !ok {
			tenant, chain, err := ledger.ParseSubject(subject)
			if err != nil {
				return
			}
			l = &ChainLoss{Tenant: tenant, Chain: Chain{chain.Entity, chain.ID}, After: after, Before: before}
			found[subject] = l
		}
		l.Lost += lost
	}
	for _, b := range s.breaks {
		if s.hasLost(b.before.seq, b.seq) {
			add(b.subject, b.before.seq, b.seq, b.missed)
		}
	}
	for seq, subject := range subjects { // at the end of its chain
		if tail := s.c.chains[subject]; tail.seq < seq {
			add(subject, tail.seq, 0, 1)
		}
	}
	out := make([]ChainLoss, 0, len(found))
	for _, l := range found {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b ChainLoss) int {
		return cmp.Or(cmp.Compare(a.After, b.After), cmp.Compare(a.Before, b.Before), cmp.Compare(a.Chain.ID, b.Chain.ID))
	})
	return out
}
