package transcripts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"nexus/cmd/internal/handover"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

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

	laned       bool // the file has further lanes: see [lanes]
	turnsBefore int  // turns of the file that other lanes have, before the step that is done
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
		if isRedacted(err) { // it is here, but for what was taken out
			rep.Existing++
			rep.lose(transcript.Loss{Kind: "kept_first", Reason: "it was redacted here, and stays so", Record: st.ID().String()})
			err = nil
		} else if coded(err, api.Erased) { // for ever: whoever reads the file goes on
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
		return tooLargeTurn(st.Append, rep.Turns+in.turnsBefore, in.laned, err)
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

// isRedacted reports whether an error says that what a step has is stored, and was redacted since.
func isRedacted(err error) bool {
	var refused *api.Error
	return errors.As(err, &refused) && refused.Code == api.Erased && refused.Details["redacted"] != nil
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
// the file, or with lanes in its session, is not stored either, since it would follow another turn. n counts from 1.
func tooLargeTurn(a *transcript.Append, n int, laned bool, err error) error {
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
	what := "what follows it"
	if laned {
		what += " in its session"
	}
	err = fmt.Errorf("turn %d of the file%s, with a part of %s bytes, and %s are not stored: %w", n, at, humanize.Comma(int64(largest)), what, err)
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
