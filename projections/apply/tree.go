package apply

import (
	"nexus/ledger/tlog"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// TreeHashes returns what a reader has of the tree of hashes over the records. Its errors:
// [db.ReadError].
func TreeHashes(r db.Reader) tlog.Hashes { return treeHashes{r} }

type treeHashes struct{ r db.Reader }

// Hashes implements [tlog.Hashes].
func (t treeHashes) Hashes(level int, n, count uint64) ([]turns.Hash, error) {
	out := make([]turns.Hash, 0, count)
	it, err := db.Iter(t.r, rows.TreeKey(nil, level, n), rows.TreeKey(nil, level, n+count))
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return nil, &db.ReadError{Err: err}
		}
		if len(v) != len(turns.Hash{}) || rows.NumberAt(it.Key(), 2) != n+uint64(len(out)) {
			break
		}
		out = append(out, turns.Hash(v))
	}
	if err := it.Error(); err != nil {
		return nil, &db.ReadError{Err: err}
	}
	if uint64(len(out)) < count {
		return nil, badRow("the tree of hashes lacks hash %d of level %d", n+uint64(len(out)), level)
	}
	return out, nil
}

// edge returns the right edge of the tree over the records up to applied.
func (d *Database) edge(applied uint64) (tlog.Frontier, error) {
	if d.tree.Size() == applied {
		return d.tree.Clone(), nil
	}
	return tlog.LoadFrontier(treeHashes{d}, applied)
}
