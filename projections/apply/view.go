package apply

import (
	"fmt"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// View has the reads, of a database or of an unfinished batch. It is a [ledger.History].
type View struct {
	r       db.Reader
	side    db.Reader // of memories, channels and losses
	ledger  turns.ID  // its own id; zero: not known
	recent  *recent   // of the database
	changes *changes  // of the batch; nil if it is of a database
}

// ViewOf returns the rows of a reader, with nothing in memory.
func ViewOf(r db.Reader) View { return View{r: r, side: r, recent: newRecent()} }

// Ledger implements [ledger.History].
func (v View) Ledger() turns.ID { return v.ledger }

// row returns the value of a key, and whether it has one.
func (v View) row(k []byte) ([]byte, bool, error) {
	if v.changes != nil {
		if b, ok := v.changes.rows[string(k)]; ok {
			return b, true, nil
		}
	}
	return db.Get(v.r, k)
}

// chain returns the state of a session's chain, nil if it is not in memory.
func (v View) chain(id turns.ID) *chain {
	if v.changes != nil {
		if c := v.changes.chains[id]; c != nil {
			return c
		}
	}
	return v.recent.chain(id)
}

// Number returns the number in a row. ok is false if there is no row.
func (v View) Number(key []byte) (n uint64, ok bool, err error) {
	b, ok, err := v.row(key)
	if err != nil || !ok {
		return 0, false, err
	}
	return rows.NumberAt(b, 0), true, nil
}

// badRow returns the error of a row that can't be decoded.
func badRow(format string, args ...any) error {
	return &db.ReadError{Err: fmt.Errorf("%w: "+format, append([]any{ledger.ErrCorrupt}, args...)...)}
}
