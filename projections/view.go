package projections

import (
	"fmt"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// badRow returns the error of a row that can't be decoded.
func badRow(format string, args ...any) error {
	return &db.ReadError{Err: fmt.Errorf("%w: "+format, append([]any{ledger.ErrCorrupt}, args...)...)}
}

// view has the reads, of the store or of an unfinished batch.
type view struct {
	r       db.Reader
	side    db.Reader // of memories, channels and losses
	ledger  turns.ID  // see Config.Ledger
	recent  *recent   // of the database
	changes *changes  // of the batch; nil if it is the store
}

// Ledger implements [ledger.History].
func (v view) Ledger() turns.ID { return v.ledger }

// row returns the value of a key, and whether it has one.
func (v view) row(k []byte) ([]byte, bool, error) {
	if v.changes != nil {
		if b, ok := v.changes.rows[string(k)]; ok {
			return b, true, nil
		}
	}
	return db.Get(v.r, k)
}

// chain returns the state of a session's chain, nil if it is not in memory.
func (v view) chain(id turns.ID) *chain {
	if v.changes != nil {
		if c := v.changes.chains[id]; c != nil {
			return c
		}
	}
	return v.recent.chain(id)
}

// number returns the number in a row. ok is false if there is no row.
func (v view) number(key []byte) (n uint64, ok bool, err error) {
	b, ok, err := v.row(key)
	if err != nil || !ok {
		return 0, false, err
	}
	return rows.NumberAt(b, 0), true, nil
}
