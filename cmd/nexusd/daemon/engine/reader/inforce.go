package reader

import (
	"context"

	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/turns"
)

// PolicyOf is the policy and the settings that a session is under.
func (rd *Reader) PolicyOf(ctx context.Context, s *ledger.Session) (policy.Policy, turns.Settings, error) {
	_, set, err := rd.SettingsInForce(ctx, s)
	if err != nil {
		return policy.Policy{}, set, err
	}
	pol, err := policy.Resolve(set.Policy)
	return pol, set, err
}

// SettingsInForce is a session's label and settings at its tail.
func (rd *Reader) SettingsInForce(ctx context.Context, s *ledger.Session) (label string, set turns.Settings, err error) {
	if _, label, set, err = rd.StoredSettings(s); err == nil {
		err = rd.content.LoadPreamble(ctx, s.Tenant, s.Root, &set)
	}
	return label, set, err
}

// StoredSettings is the event that the settings in force stand in, and what it says.
// A large preamble is still in its blob.
func (rd *Reader) StoredSettings(s *ledger.Session) (ev *turns.Event, label string, set turns.Settings, err error) {
	payload, err := rd.Projections.EventAt(s.ID, s.Settings)
	if err != nil {
		return nil, "", set, err
	}
	return rd.settingsIn(payload)
}

// SettingsAt is the settings that were in force when the session's chain had the
// event at index, and the event that they stand in.
func (rd *Reader) SettingsAt(ctx context.Context, s *ledger.Session, index uint64) (event turns.ID, set turns.Settings, err error) {
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
	return ev.ID, set, rd.content.LoadPreamble(ctx, s.Tenant, s.Root, &set)
}

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
