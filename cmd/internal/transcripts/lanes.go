package transcripts

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"nexus/cmd/internal/transcripts/steps"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/turns"
	"nexus/turns/transcript"
)

// A file of conversations holds sessions that have nothing to do with each other, and the
// ledger stores the turns of one session one after the other. So the steps of such a file
// go into lanes, by the ids that they name: a lane does its steps in their order, and several
// lanes work at the same time. What they store is what one lane would, and so is the report.
//
// Crash states: those of an import that is stopped, in several sessions at once. Each holds
// the beginning of what the file has of it, and the same import again stores the rest.

const (
	// importLanes is how many lanes of all files work at the same time. Together with importWorkers
	// they have fewer requests in the daemon than it takes of one agent, 256.
	importLanes = 64
	// laneBytes bounds the content of the steps of one file that wait, or are done. One step
	// alone may have more.
	laneBytes = 1 << 20
)

// lanes are the lanes of one file.
type lanes struct {
	w     *steps.Writer
	ctx   context.Context // ends the reading
	calls context.Context // of the requests: see withGrace
	room  *semaphore.Weighted
	slots chan struct{} // has one for each lane that works
	wg    sync.WaitGroup
	all   []*lane            // in the order of their first steps
	byID  map[turns.ID]*lane // by an id that a step of it named
	steps int                // that were read
	turns int                // of them

	mu     sync.Mutex // of the queues
	failed int        // the first lane with an error; len(all) and more: none has
}

// lane does steps that have to do with each other.
type lane struct {
	in    steps.Intake
	at    int // in all
	queue []queued
	works bool  // a goroutine does its steps
	err   error // of its last step

	sessions []byStep[turns.ID]        // of the report
	losses   []byStep[transcript.Loss] // the same
}

// byStep is something that a step of the file added to the report.
type byStep[T any] struct {
	step  int
	value T
}

// queued is a step that waits.
type queued struct {
	transcript.Step
	bytes int64
	step  int // its place in the file
	turn  int // how many turns of the file came before it
}

func newLanes(ctx, calls context.Context, w *steps.Writer, slots chan struct{}) *lanes {
	if slots == nil {
		slots = make(chan struct{}, importLanes)
	}
	return &lanes{w: w, ctx: ctx, calls: calls, room: semaphore.NewWeighted(laneBytes), slots: slots, byID: make(map[turns.ID]*lane), failed: math.MaxInt}
}

// add queues a step. It waits for room. more is false once no further step is to be added: a lane
// has failed, or ctx has ended.
func (ls *lanes) add(st transcript.Step, rep *tally.Report) (more bool) {
	q := queued{Step: st, bytes: min(stepBytes(st), laneBytes), step: ls.steps, turn: ls.turns}
	if ls.steps++; st.Append != nil {
		ls.turns++
	}
	if ls.room.Acquire(ls.ctx, q.bytes) != nil {
		return false
	}
	l := ls.laneOf(st.IDs(), rep)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.failed < len(ls.all) {
		ls.room.Release(q.bytes)
		return false
	}
	if l.queue = append(l.queue, q); !l.works {
		l.works = true
		ls.wg.Go(func() { ls.work(l) })
	}
	return true
}

// laneOf returns the lane of a step that names ids: that of the first which a step before it
// named. A step that names those of several lanes waits for all others.
func (ls *lanes) laneOf(ids []turns.ID, rep *tally.Report) *lane {
	var l *lane
	for _, id := range ids {
		other := ls.byID[id]
		switch {
		case other == nil || other == l:
		case l == nil:
			l = other
		default:
			ls.wg.Wait()
			ls.join(l, other)
		}
	}
	if l == nil {
		own := &tally.Report{File: rep.File, Format: rep.Format, Sessions: []turns.ID{}, Losses: []transcript.Loss{}}
		l = &lane{at: len(ls.all), in: steps.Intake{Writer: ls.w.Clone(), Report: own, Lane: &steps.Lane{IsLater: len(ls.all) > 0}}}
		ls.all = append(ls.all, l)
	}
	for _, id := range ids {
		ls.byID[id] = l
	}
	return l
}

// join lets the steps of a lane that works no more go to another one.
func (ls *lanes) join(l, gone *lane) {
	l.in.Writer.Join(gone.in.Writer)
	for id, other := range ls.byID {
		if other == gone {
			ls.byID[id] = l
		}
	}
}

// work does the steps of a lane until none waits.
func (ls *lanes) work(l *lane) {
	ls.slots <- struct{}{}
	defer func() { <-ls.slots }()
	for {
		ls.mu.Lock()
		if len(l.queue) == 0 {
			l.works = false
			ls.mu.Unlock()
			return
		}
		q := l.queue[0]
		l.queue[0] = queued{}
		l.queue = l.queue[1:]
		stops := ls.failed <= l.at || ls.ctx.Err() != nil
		ls.mu.Unlock()
		if !stops {
			if l.do(ls.calls, q); l.err != nil {
				ls.mu.Lock()
				ls.failed = min(ls.failed, l.at)
				ls.mu.Unlock()
			}
		}
		ls.room.Release(q.bytes)
	}
}

// do does a step.
func (l *lane) do(ctx context.Context, q queued) {
	rep := l.in.Report
	sessions, losses := len(rep.Sessions), len(rep.Losses)
	l.in.Lane.TurnsBefore = q.turn - rep.Turns
	l.err = l.in.Step(ctx, q.Step)
	rep.Unacknowledged = rep.Unacknowledged || ctx.Err() != nil
	for _, s := range rep.Sessions[sessions:] {
		l.sessions = append(l.sessions, byStep[turns.ID]{q.step, s})
	}
	for _, x := range rep.Losses[losses:] {
		l.losses = append(l.losses, byStep[transcript.Loss]{q.step, x})
	}
}

// end waits for the lanes and adds what they did to a report. It returns the error of the first that
// has one.
func (ls *lanes) end(rep *tally.Report) (err error) {
	ls.wg.Wait()
	var sessions []byStep[turns.ID]
	var losses []byStep[transcript.Loss]
	for _, l := range ls.all {
		rep.AddCounts(l.in.Report)
		for i, x := range l.in.Report.Losses { // the count of one that stands for several has grown since
			l.losses[i].value = x
		}
		sessions, losses = append(sessions, l.sessions...), append(losses, l.losses...)
		ls.w.Join(l.in.Writer)
		if err == nil {
			err = l.err
		}
	}
	slices.SortStableFunc(sessions, func(a, b byStep[turns.ID]) int { return cmp.Compare(a.step, b.step) })
	slices.SortStableFunc(losses, func(a, b byStep[transcript.Loss]) int { return cmp.Compare(a.step, b.step) })
	for _, s := range sessions {
		rep.Sessions = append(rep.Sessions, s.value)
	}
	for _, x := range losses {
		if x.value.Count > 0 { // it stands for several
			rep.Count(x.value)
		} else {
			rep.Lose(x.value)
		}
	}
	if err == nil {
		err = ls.ctx.Err()
	}
	return err
}

// stepBytes is about how many bytes of content a step holds.
func stepBytes(st transcript.Step) int64 {
	n := 1 << 10
	add := func(ms []turns.Message) {
		for i := range ms {
			for j := range ms[i].Parts {
				n += len(ms[i].Parts[j].ContentBytes()) + len(ms[i].Parts[j].Ext)
			}
		}
	}
	switch {
	case st.Append != nil:
		if add(st.Append.Messages); st.Append.Response != nil {
			add([]turns.Message{*st.Append.Response})
		}
	case st.Compaction != nil:
		add(st.Compaction.Replacement)
	}
	return int64(n)
}
