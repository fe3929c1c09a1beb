package apply

import (
	"errors"

	"nexus/ledger"
	"nexus/ledger/tlog"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// A batch has at most so many records, and ends at so many bytes of payloads.
const (
	BatchRecords = 2000
	BatchBytes   = 4 << 20
)

// Batch folds records into rows. Its reads see what it has written so far: changes has all
// that Admit and the batch can ask for of sessions, labels and policies, and side has the
// rows of other chains. For use by one goroutine.
type Batch struct {
	View
	Decided *Decision // if not nil, Apply writes there what became of the record

	of          *Database
	batch       db.Batch
	side        db.Batch          // indexed: memories, channels and losses, which are rare
	keys        []byte            // for the key of the next row
	aside       bool              // whether any chain was set aside before the batch
	asideChains []rows.AsideChain // chains set aside by the batch
	tree        *tlog.Frontier    // of the records so far; nil: no tree is made
}

// Decision is what became of a record.
type Decision struct {
	ledger.Admitted
	Refused error // why nothing follows from it; nil if something does
}

// Begin begins a batch behind the records up to applied. aside is the number of chains that
// are set aside. The caller calls [Batch.Close].
func Begin(d *Database, ledgerID turns.ID, aside int, applied uint64) (*Batch, error) {
	edge, err := d.edge(applied)
	if err != nil {
		return nil, err
	}
	c := &changes{chains: make(map[turns.ID]*chain), turns: make(map[turns.Ref]*rows.Turn), rows: make(map[string][]byte)}
	side := d.NewIndexedBatch()
	return &Batch{View: View{d, side, ledgerID, d.recent, c}, batch: d.NewBatch(), side: side, aside: aside > 0, tree: &edge, of: d}, nil
}

// OmitTree makes the batch write no tree of hashes: its records are not all that there are.
func (a *Batch) OmitTree() { a.tree = nil }

// Aside returns the chains that the batch set aside.
func (a *Batch) Aside() []rows.AsideChain { return a.asideChains }

// Close frees the batch, committed or not.
func (a *Batch) Close() error { return errors.Join(a.batch.Close(), a.side.Close()) }

// setRow writes a row that later records of the batch may read.
func (a *Batch) setRow(k, v []byte) error {
	a.changes.rows[string(k)] = v
	return a.batch.Set(k, v)
}

// key returns a key. The next call uses its bytes again: a batch copies what it is given.
func (a *Batch) key(p rows.Prefix, ids ...turns.ID) []byte {
	a.keys = p.AppendKey(a.keys[:0], ids...)
	return a.keys
}

func (a *Batch) numKey(n uint64, p rows.Prefix, ids ...turns.ID) []byte {
	a.keys = rows.Number(a.key(p, ids...), n)
	return a.keys
}

// keep stores a record that makes no row, so that every record of the
// log has its copy here.
func (a *Batch) keep(r ledger.Record) error {
	return a.place(r.Seq, rows.Place{Subject: r.Subject, Payload: r.Payload})
}

func (a *Batch) place(seq uint64, p rows.Place) error {
	return a.batch.Set(a.numKey(seq, rows.Records), p.Encode())
}

// Commit writes the rows and the checkpoint, in one batch with everything else.
func (a *Batch) Commit(cp rows.Checkpoint) error {
	for id, c := range a.changes.chains {
		v, err := rows.EncodeSession(&c.session)
		if err != nil {
			return err
		}
		if err := a.batch.Set(rows.Sessions.Key(id), v); err != nil {
			return err
		}
	}
	if !a.side.Empty() {
		if err := a.batch.Apply(a.side); err != nil {
			return err
		}
	}
	if err := a.batch.PutCheckpoint(cp); err != nil {
		return err
	}
	a.recent.drop(a.changes)
	if err := a.batch.Commit(); err != nil {
		return err
	}
	a.recent.add(a.changes)
	if a.tree != nil {
		a.of.tree = *a.tree
	}
	return nil
}
