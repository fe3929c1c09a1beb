package reader

import (
	"context"
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // the names of zones are the same on every machine

	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/turns"
)

// SessionZone returns the zone by whose clock the days of a session are told: that of its rule
// of reset; "UTC" where this daemon does not know it.
func (r *Reader) SessionZone(ctx context.Context, tenant string, set *turns.Settings) (string, error) {
	rule, err := r.ResetRule(ctx, tenant, set)
	if err != nil {
		return "", err
	}
	if _, err := Zone(rule.Zone()); err != nil {
		return "UTC", nil
	}
	return rule.Zone(), nil
}

// zones are the zones that were loaded, by name. There are some hundred.
var zones sync.Map

// Zone returns the zone with an IANA name.
func Zone(name string) (*time.Location, error) {
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%.80q is not the IANA name of a zone", name)
	}
	zones.Store(name, loc)
	return loc, nil
}

// ResetRule returns the rule by which settings of a tenant reset a session: their own, or
// that of their policy. What was stored as a rule and is none resets by hand only.
func (rd *Reader) ResetRule(ctx context.Context, tenant string, set *turns.Settings) (policy.Reset, error) {
	if set.Reset != nil {
		rule, err := policy.ParseReset("/reset", set.Reset)
		if err != nil {
			return policy.Reset{}, nil
		}
		return rule, nil
	}
	pol, err := rd.ResolvePolicy(ctx, tenant, set.Policy)
	return pol.Reset, err
}

// ResetDue returns when the reset of a session by time is due, and its rule. ok is false
// for a session that time does not reset: it has no such rule, no turn of its own, or has
// ended; or it came from another ledger, whose timers it belongs to.
func (rd *Reader) ResetDue(ctx context.Context, s *ledger.Session) (due time.Time, rule policy.Reset, ok bool, err error) {
	if !s.Timed || s.Turns == 0 || s.Final() || s.Origin.Ledger != rd.content.Ledger {
		return due, rule, false, nil
	}
	_, _, set, err := rd.StoredSettings(s)
	if err != nil {
		return due, rule, false, err
	}
	if rule, err = rd.ResetRule(ctx, s.Tenant, &set); err != nil {
		return due, rule, false, err
	}
	loc, err := Zone(rule.Zone())
	if err != nil {
		return due, rule, false, fmt.Errorf("%w: session %s is reset by the clock of a zone that this daemon does not know: %v", ledger.ErrUnsupported, s.ID, err)
	}
	a := policy.Activity{First: time.Unix(0, s.First), Latest: time.Unix(0, s.Latest)}
	if !s.Head.IsZero() {
		head, err := rd.Projections.Turn(s.Head)
		if err != nil {
			return due, rule, false, err
		}
		a.Waits = head.Open > 0 || head.Kind == turns.KindTurn && !head.Halves.Has(turns.ResponseHalf)
	}
	due, ok = rule.DueAt(a, loc)
	return due, rule, ok, nil
}
