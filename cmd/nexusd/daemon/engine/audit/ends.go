package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// checkEnds compares the projections' row of each chain with the fold of the chain, once
// the records are read. A row that says it ends further on is compared with the fold up to
// there: the chain has grown since, or the row is wrong.
//
// It leaves out the sessions whose row was compared where the fold ends, and the chains
// that can't be followed. What a row lacks is listed with its event. It does nothing if the
// log could not be read to the verification's last record.
func (v *verifier) checkEnds(ctx context.Context) error {
	if v.short {
		return nil
	}
	rows := v.audit.reader.Projections
	var further []turns.ID
	for id, end := range v.ends {
		if end > v.sessions[id].Tail.Index {
			further = append(further, id)
		}
	}
	slices.SortFunc(further, turns.ID.Compare)
	for _, id := range further {
		s := v.sessions[id]
		err := checkEnd(ctx, v, s.Subject(), s, func(s *ledger.Session) *ledger.Tail { return &s.Tail },
			func() (ledger.Session, error) { return rows.Session(id) },
			func(s *ledger.Session, seq uint64, hash turns.Hash, e *turns.Event) error {
				return s.Apply(s.Tenant, seq, hash, e)
			})
		if err != nil {
			return err
		}
	}
	return errors.Join(
		checkFolds(ctx, v, v.labels, (*ledger.Label).Apply, func(l *ledger.Label) *ledger.Tail { return &l.Tail }, rows.Label),
		checkFolds(ctx, v, v.agents, (*ledger.Memories).Apply, func(m *ledger.Memories) *ledger.Tail { return &m.Tail }, rows.Memories),
		checkFolds(ctx, v, v.policiesBySubject(), (*ledger.Policies).Apply, func(p *ledger.Policies) *ledger.Tail { return &p.Tail },
			func(tenant, _ string) (ledger.Policies, error) { return rows.Policies(tenant) }),
		checkFolds(ctx, v, v.channelsBySubject(), (*ledger.Channel).Apply, func(c *ledger.Channel) *ledger.Tail { return &c.Tail }, rows.Channel),
		v.checkNames(ctx),
	)
}

// checkNames compares the row of each name of a policy with what the log says of it. A row
// of a later version is compared with the event that it names.
func (v *verifier) checkNames(ctx context.Context) error {
	names := slices.SortedFunc(maps.Keys(v.names), func(a, b policyName) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), bytes.Compare(a.digest[:], b.digest[:]))
	})
	for _, name := range names {
		subject, want := policySubject(name.tenant), v.names[name]
		row, err := v.audit.reader.Projections.PolicyName(name.tenant, name.digest)
		if v.broken[subject] || err == nil && row == want {
			continue
		}
		if err == nil && row.Seq > v.out.Last && row.Agent == want.Agent && row.Version > want.Version {
			r, gerr := v.audit.reader.Log.Get(ctx, row.Seq)
			if gerr != nil && !errors.Is(gerr, ledger.ErrNotFound) && !errors.Is(gerr, ledger.ErrCorrupt) {
				return gerr
			}
			e, derr := turns.Decode(r.Payload)
			if errors.Is(gerr, ledger.ErrCorrupt) || gerr == nil && r.Subject == subject && derr == nil && e.Policy != nil && e.Policy.Name == name.digest && e.Policy.Version == row.Version {
				continue
			}
		}
		if err == nil {
			err = errors.New("its row of a policy's name differs from the log")
		}
		if err := v.reportEnd(subject, want.Seq, err); err != nil {
			return err
		}
	}
	return nil
}

// policySubject returns the subject of a tenant's chain.
func policySubject(tenant string) string {
	return ledger.Subject(tenant, tenant, turns.Chain{Entity: turns.TenantEntity, ID: tenant})
}

// policiesBySubject returns the folds of the tenants' chains, by subject.
func (v *verifier) policiesBySubject() map[string]ledger.Policies {
	out := make(map[string]ledger.Policies, len(v.policies))
	for tenant, p := range v.policies {
		out[policySubject(tenant)] = p
	}
	return out
}

// channelsBySubject returns the folds of the channels' chains, by subject.
func (v *verifier) channelsBySubject() map[string]ledger.Channel {
	out := make(map[string]ledger.Channel, len(v.channels))
	for key, c := range v.channels {
		tenant, id, _ := strings.Cut(key, "/")
		out[ledger.Subject(tenant, id, turns.Chain{Entity: turns.ChannelEntity, ID: id})] = c
	}
	return out
}

// checkFolds is checkEnd for chains of one kind that is no session's, by their subjects.
func checkFolds[Fold any](ctx context.Context, v *verifier, folds map[string]Fold, apply func(*Fold, string, uint64, turns.Hash, *turns.Event) error,
	tail func(*Fold) *ledger.Tail, read func(tenant, id string) (Fold, error)) error {
	for _, subject := range slices.Sorted(maps.Keys(folds)) {
		tenant, chain, err := ledger.ParseSubject(subject)
		if err != nil {
			return err
		}
		err = checkEnd(ctx, v, subject, folds[subject], tail, func() (Fold, error) { return read(tenant, chain.ID) },
			func(f *Fold, seq uint64, hash turns.Hash, e *turns.Event) error {
				return apply(f, subject, seq, hash, e)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkEnd compares the row of one chain with its fold, and lists a problem if they
// differ. An error means that the log could not be read.
func checkEnd[Fold any](ctx context.Context, v *verifier, subject string, fold Fold, tail func(*Fold) *ledger.Tail,
	read func() (Fold, error), apply func(*Fold, uint64, turns.Hash, *turns.Event) error) error {
	if v.broken[subject] {
		return nil
	}
	row, err := read()
	if err != nil {
		return v.reportEnd(subject, tail(&fold).Seq, err)
	}
	end := *tail(&row)
	if end.Index < tail(&fold).Index {
		return nil // listed with the event
	}
	for tail(&fold).Index < end.Index {
		r, err := v.audit.reader.Log.Next(ctx, subject, tail(&fold).Seq)
		if errors.Is(err, ledger.ErrNotFound) {
			break
		}
		if errors.Is(err, ledger.ErrCorrupt) {
			return nil // the log's damage, of after the verification's last record
		}
		if err != nil {
			return err
		}
		e, err := turns.Decode(r.Payload)
		if err != nil || apply(&fold, r.Seq, turns.HashEvent(r.Payload), e) != nil {
			return nil
		}
	}
	if reflect.DeepEqual(&row, &fold) {
		return nil
	}
	return v.reportEnd(subject, tail(&fold).Seq, errors.New("it differs from the log"))
}

// reportEnd lists a problem of the row of a chain.
func (v *verifier) reportEnd(subject string, seq uint64, why error) error {
	tenant, chain, err := ledger.ParseSubject(subject)
	if err != nil {
		return err
	}
	p := api.Problem{Code: api.Corrupt, Seq: seq}
	of := "the chain"
	if id, ok := chain.Session(); ok {
		p.Session, of = id, "session "+id.String()
	}
	p.Message = fmt.Sprintf("%v: the projections' row of %s: %v", ledger.ErrCorrupt, of, why)
	v.problem(tenant, p)
	return nil
}
