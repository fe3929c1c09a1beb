package reader

import (
	"context"

	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/turns"
)

// PolicyOf returns the policy and the settings in force at the session's tail.
func (rd *Reader) PolicyOf(ctx context.Context, s *ledger.Session) (policy.Policy, turns.Settings, error) {
	_, set, err := rd.SettingsInForce(ctx, s)
	if err != nil {
		return policy.Policy{}, set, err
	}
	pol, err := rd.ResolvePolicy(ctx, s.Tenant, set.Policy)
	return pol, set, err
}

// SettingsInForce returns the label and the settings in force at the session's tail.
func (rd *Reader) SettingsInForce(ctx context.Context, s *ledger.Session) (label string, set turns.Settings, err error) {
	epoch := rd.Epoch()
	if _, label, set, err = rd.StoredSettings(s); err == nil {
		err = rd.content.LoadPreamble(ctx, epoch, s.Tenant, s.Root, &set)
	}
	return label, set, err
}

// settingsKey names an event with settings: the session, and its place on the chain.
type settingsKey struct {
	session turns.ID
	index   uint64
}

// storedSettings is what such an event holds. It never changes.
type storedSettings struct {
	event *turns.Event // without its body, which set was made of
	label string
	set   turns.Settings
}

// StoredSettings returns the event with the settings in force, without its body, and its
// label and settings. A large preamble is still in its blob. Callers share what is returned and
// must not change it.
func (rd *Reader) StoredSettings(s *ledger.Session) (ev *turns.Event, label string, set turns.Settings, err error) {
	k := settingsKey{s.ID, s.Settings}
	if x, ok := rd.settings.Get(k); ok {
		return x.event, x.label, x.set, nil
	}
	epoch := rd.Epoch()
	payload, err := rd.Projections.EventAt(s.ID, s.Settings)
	if err != nil {
		return nil, "", set, err
	}
	if ev, label, set, err = rd.settingsIn(payload); err != nil {
		return nil, "", set, err
	}
	ev.Body = nil // and the payload is free
	rd.settings.PutIn(epoch, k, storedSettings{ev, label, set}, sizeOf(label, &set))
	return ev, label, set, nil
}

// Epoch is of before a key is read: what was opened with a key that is destroyed meanwhile is not kept.
func (rd *Reader) Epoch() uint64 { return rd.settings.Epoch() }

// RememberSettings keeps what an event that was stored as ev says: body is what it was sealed
// from, and nobody changes it any more. So the first reader need not open it, and settings that
// one session has of another are once in memory. epoch is that of before its key was read.
func (rd *Reader) RememberSettings(epoch uint64, ev *turns.Event, body *turns.OpenedBody) {
	set := body.Settings
	if len(set.Preamble.System) == 0 { // as they are read
		set.Preamble.System = nil
	}
	if len(set.Preamble.Tools) == 0 {
		set.Preamble.Tools = nil
	}
	header := *ev
	header.Body = nil
	rd.settings.PutIn(epoch, settingsKey{ev.Ref().Session, ev.Index}, storedSettings{&header, body.Label, set}, sizeOf(body.Label, &set))
}

// sizeOf is about how many bytes decoded settings take, with their event and their place in the
// cache.
func sizeOf(label string, set *turns.Settings) int {
	const frame, section, tool = 1280, 48, 40
	n := frame + len(label) + len(set.Model) + len(set.Meta) + len(set.User) + len(set.Reset) + len(set.Policy.Set)
	for _, x := range set.Preamble.System {
		n += section + len(x.Name) + len(x.Content)
	}
	for _, x := range set.Preamble.Tools {
		n += tool + len(x)
	}
	return n
}

// SettingsAt returns the settings that were in force after the event at index, and
// the id of the event that has them.
func (rd *Reader) SettingsAt(ctx context.Context, s *ledger.Session, index uint64) (event turns.ID, set turns.Settings, err error) {
	epoch := rd.Epoch()
	var ev *turns.Event
	if s.Settings <= index {
		ev, _, set, err = rd.StoredSettings(s)
	} else {
		var payload []byte
		if payload, err = rd.Projections.SettingsAt(s.ID, index); err == nil {
			ev, _, set, err = rd.settingsIn(payload)
		}
	}
	if err != nil {
		return event, set, err
	}
	return ev.ID, set, rd.content.LoadPreamble(ctx, epoch, s.Tenant, s.Root, &set)
}

// SettingsIndex returns the index of the event whose settings were in force after the event at
// index.
func (rd *Reader) SettingsIndex(s *ledger.Session, index uint64) (uint64, error) {
	if s.Settings <= index {
		return s.Settings, nil
	}
	payload, err := rd.Projections.SettingsAt(s.ID, index)
	if err != nil {
		return 0, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return 0, err
	}
	return ev.Index, nil
}

// MetaIn returns the meta in the settings that the event of a session at index has. It keeps
// nothing: who goes through all sessions would drive out what the contexts of agents are made of.
func (rd *Reader) MetaIn(session turns.ID, index uint64) (turns.Raw, error) {
	if x, ok := rd.settings.Get(settingsKey{session, index}); ok {
		return x.set.Meta, nil
	}
	payload, err := rd.Projections.EventAt(session, index)
	if err != nil {
		return nil, err
	}
	_, _, set, err := rd.settingsIn(payload)
	return set.Meta, err
}

// settingsIn decodes an event with settings.
func (rd *Reader) settingsIn(payload []byte) (ev *turns.Event, label string, set turns.Settings, err error) {
	if ev, err = turns.Decode(payload); err != nil {
		return nil, "", set, err
	}
	if ev.Kind == turns.KindOpened {
		var b turns.OpenedBody
		err = rd.content.Open(ev, &b)
		return ev, b.Label, b.Settings, err
	}
	var b turns.ChangedBody
	err = rd.content.Open(ev, &b)
	return ev, b.Label, b.Settings, err
}
