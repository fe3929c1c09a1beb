package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"nexus/cmd/internal/handover"
	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/transcripts/written"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Intake stores the steps of one transcript, in their order.
type Intake struct {
	*Writer
	Report *tally.Report // what was done is added to it; its Format is set before the first step
	All    bool          // store an export of this ledger too
	Lane   *Lane         // nil: the intake stores all steps of its file

	begun bool
	own   turns.ID            // the session of this ledger that the transcript was exported from; zero: it is none
	joint *handover.Joint     // nil: not a transcript that "continue" wrote, and no export with a mark
	fork  *written.ExportFork // takes what was added to an export; nil: the transcript is none
	grown bool                // something was added to it
	last  turns.Ref

	refused map[turns.ID]bool // forks that were not made, as what they continue was erased
	erased  error             // why nothing of the transcript is stored: this ledger wrote it of what was erased since
}

// Lane says which steps of a file an intake stores, where several share them.
type Lane struct {
	IsLater     bool // the first step of the file is not among them
	TurnsBefore int  // turns of the file that other lanes have, before the next step
}

// isBegun reports whether the file's first step was done, or is another intake's.
func (in *Intake) isBegun() bool { return in.begun || in.Lane != nil && in.Lane.IsLater }

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

// End does what follows the last step. isOurs says that the transcript is one that this ledger
// exported, and that nothing was added to it: then there is nothing else to do. copied says that
// it had what it copied of other sessions.
func (in *Intake) End(ctx context.Context, copied bool) (isOurs bool, err error) {
	if in.Own() {
		in.Report.Sessions = append(in.Report.Sessions, in.own)
		in.Report.Lose(ownExport(in.own))
		return true, nil
	}
	if in.fork != nil && !in.grown {
		in.Report.Lose(ownExport(in.fork.From.Session))
		return true, nil
	}
	return false, in.endJoined(ctx, copied, in.Report)
}

func ownExport(session turns.ID) transcript.Loss {
	return transcript.Loss{Kind: "skipped", Reason: "an export of a session of this ledger, which holds all of it", Record: session.String()}
}

// Resume takes a step that an earlier intake did, before those of [Intake.Step], and stores
// nothing. The earlier intake may have stored other turns than the steps name, which Step
// then answers with an error.
func (in *Intake) Resume(ctx context.Context, st transcript.Step) (err error) {
	defer func() {
		if api.HasCode(err, api.Erased) { // what it says can't be compared with the ledger any more
			in.noteErased(st)
			err = nil
		}
	}()
	if err := in.findJoint(ctx, st); err != nil {
		return err
	}
	in.begun = true
	if in.joint != nil {
		own, isOld, err := in.addedStep(ctx, st)
		if isOld || err != nil {
			return err
		}
		st = own
	}
	if st, _, err = in.rename(ctx, in.BoundTime(st)); err != nil {
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

// findJoint finds where a transcript that "continue" wrote goes on, at its first step. Of one that has what was erased since,
// each step is [api.Erased].
func (in *Intake) findJoint(ctx context.Context, st transcript.Step) (err error) {
	if in.erased != nil || in.isBegun() || st.Open == nil {
		return in.erased
	}
	defer func() {
		if api.HasCode(err, api.Erased) {
			in.erased = err
		}
	}()
	joint, session, err := written.ContinuedJoint(ctx, in.Client, in.Report.Format, st.Open.Meta)
	if !session.IsZero() {
		in.Report.Sessions = append(in.Report.Sessions, session)
	}
	if in.joint = joint; err != nil || joint != nil {
		return err
	}
	if in.All {
		return written.CheckExport(ctx, in.Client, in.Report.Format, st.Open.Exported)
	}
	if in.joint, in.fork, err = written.ExportJoint(ctx, in.Client, in.Report.Format, st.Open.Exported); in.fork != nil {
		in.Report.Sessions = append(in.Report.Sessions, in.fork.From.Session)
	}
	return err
}

// IsOurs reports whether the first step of a transcript says that "continue" or "export" wrote it.
func (in *Intake) IsOurs(ctx context.Context, st transcript.Step) (bool, error) {
	switch err := in.findJoint(ctx, st); {
	case api.HasCode(err, api.Erased):
		return true, nil
	case err != nil || in.joint != nil:
		return true, err
	}
	if st.Open == nil || in.All {
		return false, nil
	}
	own, err := written.ExportedSession(ctx, in.Client, st.Open.Meta)
	return !own.IsZero(), err
}

// addedStep returns a step that came after what this ledger wrote, as one of the ledger; isOld
// says that the step is no such one. The fork for what was added to an export is made
// first.
func (in *Intake) addedStep(ctx context.Context, st transcript.Step) (out transcript.Step, isOld bool, err error) {
	out, isOld, err = in.joint.Step(st)
	if in.fork == nil || isOld {
		return out, isOld, err
	}
	if errors.Is(err, handover.ErrRewound) {
		return out, false, ErrGrown
	}
	if err == nil && !in.grown {
		if err = in.fork.Make(ctx, in.Client); err == nil {
			in.grown = true
			in.Report.Sessions = append(in.Report.Sessions, in.fork.ID)
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
		if isRedacted(err) { // it is here, but for what was taken out
			rep.Existing++
			rep.Lose(transcript.Loss{Kind: "kept_first", Reason: "it was redacted here, and stays so", Record: st.ID().String()})
			err = nil
		} else if api.HasCode(err, api.Erased) { // for ever: whoever reads the file goes on
			rep.Lose(transcript.Loss{Kind: "skipped", Reason: "its session was erased", Record: st.ID().String()})
			in.noteErased(st)
			err = nil
		}
	}()
	if err := in.findJoint(ctx, st); err != nil {
		return err
	}
	if in.joint != nil {
		var isOld bool
		if st, isOld, err = in.addedStep(ctx, st); err != nil {
			return err
		}
		if isOld {
			in.begun = true
			rep.Existing++
			return nil
		}
	}
	if !in.isBegun() && !in.All && in.joint == nil && st.Open != nil {
		if in.own, err = written.ExportedSession(ctx, in.Client, st.Open.Meta); err != nil {
			return err
		}
	}
	in.begun = true
	if in.Own() {
		if !written.IsOwnStep(st) {
			return ErrGrown
		}
		rep.Existing++
		return nil
	}
	st, refused := WithoutExcess(st)
	if refused != nil {
		rep.Lose(transcript.Loss{Kind: "skipped", Reason: "usage with a count that is larger than any call has", Record: st.ID().String(), Usage: refused})
	}
	st, shared, err := in.rename(ctx, in.BoundTime(st))
	if err != nil {
		return err
	}
	dup := shared
	if !shared {
		if dup, err = in.isInherited(ctx, st, rep); err == nil && !dup {
			dup, err = in.step(ctx, st, rep)
		} else if dup {
			countStep(st, rep)
		}
	}
	in.noteLast(st)
	switch {
	case errors.As(err, new(otherAgentError)):
		return err
	case api.HasCode(err, api.Closed) && in.isSuperseded(ctx, st):
		return ErrSuperseded
	case api.HasCode(err, api.NotFound) && in.isRefused(st): // a fork of an erased session was not made
		return api.Errorf(api.Erased, nil, "%v", err)
	case api.HasCode(err, api.TooLarge) && st.Append != nil:
		return in.tooLarge(st.Append, err)
	case api.HasCode(err, api.IDReused):
		rep.KeptFirst++
		rep.Lose(transcript.Loss{Kind: "kept_first", Reason: "an earlier import stored this record with other content; that one stays", Record: st.ID().String()})
	case err != nil:
		return err
	case dup:
		rep.Existing++
	default:
		rep.Stored++
	}
	return nil
}

// noteErased notes that the session of a step was erased. A fork that would begin there was not made.
func (in *Intake) noteErased(st transcript.Step) {
	in.last = turns.Ref{} // nothing is kept beside a turn of it
	id := turns.ID{}
	switch {
	case in.isRefused(st):
		in.Report.Orphaned = true
		return
	case st.Fork != nil:
		id, in.Report.Orphaned = st.Fork.ID, true
	case st.Append != nil:
		id, in.Report.Erased = st.Append.Branch, true
	default:
		in.Report.Erased = true
	}
	if id.IsZero() {
		return
	}
	if in.refused == nil {
		in.refused = make(map[turns.ID]bool)
	}
	in.refused[id] = true
}

// isRefused reports whether a step goes to a fork that was not made.
func (in *Intake) isRefused(st transcript.Step) bool {
	switch {
	case st.Fork != nil:
		return in.refused[st.Fork.At.Session]
	case st.Append != nil:
		return in.refused[st.Append.Session]
	case st.Compaction != nil:
		return in.refused[st.Compaction.Session]
	}
	return false
}

// isRedacted reports whether an error says that what a step has is stored, and was redacted since.
func isRedacted(err error) bool {
	var refused *api.Error
	return errors.As(err, &refused) && refused.Code == api.Erased && refused.Details["redacted"] != nil
}

// WithoutExcess returns a step without a usage that no event can hold: one such number
// would end the import of its file. refused is not nil where it had one, and has none of
// its counts.
func WithoutExcess(st transcript.Step) (out transcript.Step, refused *turns.Usage) {
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
func (w *Writer) isSuperseded(ctx context.Context, st transcript.Step) bool {
	id := turns.ID{}
	switch {
	case st.Append != nil:
		id = st.Append.Session
	case st.Compaction != nil:
		id = st.Compaction.Session
	}
	s, err := w.SessionIfAny(ctx, id)
	return err == nil && s != nil && !sessionmeta.Successor(s.Meta).IsZero()
}

// tooLarge says which turn of a file is larger than a turn may be. What follows it in the
// file, or with lanes in its session, is not stored either, since it would follow another turn.
func (in *Intake) tooLarge(a *transcript.Append, err error) error {
	n, what := in.Report.Turns, "what follows it" // n counts from 1
	if in.Lane != nil {
		n, what = n+in.Lane.TurnsBefore, "what follows it in its session"
	}
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
	err = fmt.Errorf("turn %d of the file%s, with a part of %s bytes, and %s are not stored: %w", n, at, humanize.Comma(int64(largest)), what, err)
	if largest > turns.MaxPart {
		return err
	}
	return hinted{err, "a NATS server with a larger max_payload takes more beside the content of large parts"}
}
