package projections

import (
	"fmt"
	"iter"
	"strings"

	"nexus/ledger"
	"nexus/ledger/tlog"
	"nexus/projections/apply"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Record returns the copy of the record at seq: its chain's session and ordinal, or
// its subject, and its payload. Errors: [ledger.ErrNotFound].
func (s *Store) Record(seq uint64) (ledger.Record, error) {
	r, err := s.view().Record(seq)
	s.read.Add(int64(len(r.Payload)))
	return r, err
}

// Last returns the last record of a chain that was applied, whatever the shard in subject.
// Errors: [ledger.ErrNotFound], [ledger.ErrMalformed].
func (s *Store) Last(subject string) (ledger.Record, error) {
	seq, err := s.view().Tail(strings.Replace(subject, ".*.", ".00.", 1))
	if err == nil && seq == 0 {
		err = fmt.Errorf("%w: record of %s", ledger.ErrNotFound, subject)
	}
	if err != nil {
		return ledger.Record{}, err
	}
	return s.Record(seq)
}

// WhyAside returns why the chain on a subject was set aside, "" if it was not.
// The shard of the subject may be "*".
func (s *Store) WhyAside(subject string) (string, error) {
	if !strings.Contains(subject, "*") || s.SetAside() == 0 {
		return s.view().WhyAside(subject)
	}
	for a, err := range s.AllAside() {
		if err != nil {
			return "", err
		}
		if tenant, chain, err := ledger.ParseSubject(a.Subject); err == nil && ledger.AnyShard(tenant, chain) == subject {
			return a.Why, nil
		}
	}
	return "", nil
}

// AllAside yields the chains that were set aside, by subject.
func (s *Store) AllAside() iter.Seq2[rows.AsideChain, error] { return db.AllAside(s.db()) }

// Lost returns what a chain that was set aside has lost.
func (s *Store) Lost(subject string) (rows.Loss, error) { return s.view().Lost(subject) }

// AfterLoss returns a turn or compaction that follows a lost event of its chain, by
// its id: the position, the bytes, the hash, and whether another turn there continues
// it. Its place in the lineage is not known. Errors: [ledger.ErrNotFound].
func (s *Store) AfterLoss(subject string, turn turns.ID) (r ledger.Record, hasChildren bool, err error) {
	b, ok, err := db.Get(s.db(), append(rows.AfterLoss.TextKey(subject), turn[:]...))
	if err == nil && !ok {
		err = fmt.Errorf("%w: turn %s after a loss on %s", ledger.ErrNotFound, turn, subject)
	}
	if err != nil {
		return r, false, err
	}
	if r, err = s.Record(rows.NumberAt(b, 0)); err != nil {
		return r, false, err
	}
	_, hasChildren, err = db.Get(s.db(), append(rows.ContinuedAfterLoss.TextKey(subject), turn[:]...))
	return r, hasChildren, err
}

// TreeHashes returns what is stored of the tree of hashes over the records. Its rows of the first n
// records do not change, so that a tree of any size up to [Store.Applied] can be read while the
// store advances. Its errors: [db.ReadError].
func (s *Store) TreeHashes() tlog.Hashes { return apply.TreeHashes(s.db()) }
