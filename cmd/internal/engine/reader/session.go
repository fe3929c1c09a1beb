package reader

import (
	"context"
	"errors"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Describe returns s as the contract shows it.
func (rd *Reader) Describe(ctx context.Context, s *ledger.Session) (*api.Session, error) {
	out := Outline(s)
	out.SpawnedBy = rd.spawnedBy(s, s.Spawned)
	label, set, err := rd.SettingsInForce(ctx, s)
	erased := errors.Is(err, turns.ErrErased)
	if err != nil && !erased {
		return nil, err
	}
	head, err := rd.HeadNode(s)
	if err != nil {
		return nil, err
	}
	out.Label, out.Depth, out.Model, out.Limits, out.User, out.Meta = label, head.Depth, set.Model, set.Limits, set.User, set.Meta
	out.Reset, out.SupersededBy = set.Reset, rd.SupersededBy(s, &set)
	said, err := rd.Description(s)
	if err != nil && !errors.Is(err, turns.ErrErased) {
		return nil, err
	}
	out.Title, out.Tags = said.Title, said.Tags
	if s.Hidden {
		var b turns.HiddenBody
		if err := rd.remark(s.ID, s.HiddenAt, &b); err != nil && !errors.Is(err, turns.ErrErased) {
			return nil, err
		}
		out.HiddenCause = b.Cause
	}
	_, out.Project = rd.ProjectOf(s, &set, said.Project)
	out.SpawnedBy = rd.spawnedBy(s, SpawnerOf(s, &set))
	if out.Ended, err = rd.ended(s); err != nil && !errors.Is(err, turns.ErrErased) {
		return nil, err
	}
	out.Policy = api.PolicyInForce{Name: set.Policy.Name, Set: set.Policy.Set, Digest: set.Policy.Digest}
	if erased {
		out.State = turns.Erased.String()
		return out, nil
	}
	g, pol, err := rd.Gauge(ctx, s, &set, head)
	if err != nil {
		return nil, err
	}
	out.Policy.Version = pol.Version
	out.Overhead = rd.content.Overhead(pol.CounterOf(), &set)
	if out.Reported, err = rd.ReportedTokens(s, &set, head); err != nil {
		return nil, err
	}
	g = WithReported(g, out.Overhead, out.Reported)
	out.Tokens, out.Budget, out.Pressure = g.Tokens, g.Budget, g.Pressure
	out.WindowGuess = WindowGuessed(pol, rd.Limits(&set))
	if due, _, ok, err := rd.ResetDue(ctx, s); err == nil && ok {
		at := api.Time(due.UTC())
		out.ResetDue = &at
	}
	return out, nil
}

// ended returns how a session ended, nil if it is open.
func (rd *Reader) ended(s *ledger.Session) (*api.Ended, error) {
	if s.State != turns.Reset && s.State != turns.Closed {
		return nil, nil
	}
	payload, err := rd.Projections.EventAt(s.ID, s.Ended)
	if err != nil {
		return nil, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return nil, err
	}
	var b turns.StateBody
	if err := rd.content.Open(ev, &b); err != nil {
		return nil, err
	}
	out := &api.Ended{Cause: b.Cause, Time: api.UnixTime(ev.Recorded)}
	if b.Due != 0 {
		due := api.UnixTime(b.Due)
		out.Due = &due
	}
	return out, nil
}

// Outline returns the part of a session's description that follows from its fold
// alone.
func Outline(s *ledger.Session) *api.Session {
	out := &api.Session{
		ID: s.ID, Agent: s.Agent, Kind: s.Kind, State: s.State.String(), Turns: s.Turns, Compactions: s.Compactions,
		Successor: s.Successor, Usage: s.Usage, Uncounted: api.Uncounted{Calls: s.Uncounted.Calls, InputTokens: s.Uncounted.Input, OutputTokens: s.Uncounted.Output}, Created: api.UnixTime(s.Recorded), Updated: api.UnixTime(s.Updated),
		Hash: s.Tail.Hash, Position: page.FormatPosition(s.Tail.Seq), Hidden: s.Hidden, Notes: s.Notes,
	}
	if !s.Head.IsZero() {
		out.Head = &s.Head.Turn
		if s.Head.Session != s.ID {
			out.HeadSession = s.Head.Session
		}
	}
	if f := s.ForkOf; f != nil {
		out.ForkedFrom = &api.ForkedFrom{Session: f.At.Session, Turn: f.At.Turn, Hash: f.Hash, Mode: f.Mode.String()}
	}
	return out
}

// SpawnerOf returns what a session says that it serves: what it was opened with, else its
// settings.
func SpawnerOf(s *ledger.Session, set *turns.Settings) turns.Ref {
	if !s.Spawned.IsZero() {
		return s.Spawned
	}
	return set.SpawnedBy
}

// SupersededBy returns the session that an import made in place of s. It is zero while the
// agent of s has no such session, or it is hidden: lists have nothing else then that holds what s
// holds.
func (rd *Reader) SupersededBy(s *ledger.Session, set *turns.Settings) turns.ID {
	by := turns.SupersededBy(set.Meta)
	if by.IsZero() || by == s.ID {
		return turns.ID{}
	}
	if next, err := rd.Projections.Session(by); err != nil || next.Tenant != s.Tenant || next.Agent != s.Agent || next.Hidden {
		return turns.ID{}
	}
	return by
}

// spawnedBy returns what s serves, as far as its agent has it by now: nil while the
// session is not there or is another agent's, and without the turn while that is not there.
func (rd *Reader) spawnedBy(s *ledger.Session, by turns.Ref) *api.SpawnedBy {
	if by.IsZero() {
		return nil
	}
	up, err := rd.Projections.Session(by.Session)
	if err != nil || up.Tenant != s.Tenant || up.Agent != s.Agent {
		return nil
	}
	out := &api.SpawnedBy{Session: by.Session}
	if !by.Turn.IsZero() {
		if _, err := rd.FindTurn(&up, by.Turn); err == nil {
			out.Turn = by.Turn
		}
	}
	return out
}

// DescribeListed returns a session as a list shows it. A session that can't be read,
// or whose chain was set aside, comes as its outline with an error code, so that it
// does not stop the list.
func (rd *Reader) DescribeListed(ctx context.Context, s *ledger.Session) *api.Session {
	out, err := rd.Describe(ctx, s)
	if err != nil {
		out = rd.ListedOutline(s)
	} else if rd.Projections.SetAside() > 0 {
		err = rd.AsideError(s.Tenant, s.ID)
	}
	if err != nil {
		out.Error, out.MissingKey = WhyUnreadable(err)
	}
	return out
}

// ListedOutline returns [Outline] with the depth of the head, which its header has.
func (rd *Reader) ListedOutline(s *ledger.Session) *api.Session {
	out := Outline(s)
	out.SpawnedBy = rd.spawnedBy(s, s.Spawned)
	if head, err := rd.HeadNode(s); err == nil {
		out.Depth = head.Depth
	}
	return out
}

// WhyUnreadable returns the code of the error for which an item of a list comes without
// its content, and the id of the content key if that is missing.
func WhyUnreadable(err error) (api.Code, turns.ID) {
	var missing *content.MissingKeyError
	if errors.As(err, &missing) {
		return api.Corrupt, missing.ID
	}
	return api.FromError(err).Code, turns.ID{}
}

// Get is session.get.
func (rd *Reader) Get(ctx context.Context, c Caller, id turns.ID, r api.Read) (*api.Session, error) {
	if err := rd.WaitPosition(ctx, r); err != nil {
		return nil, err
	}
	s, err := rd.FindSession(ctx, c, id, !r.StaleOK)
	if err != nil {
		return nil, err
	}
	return rd.Describe(ctx, s)
}
