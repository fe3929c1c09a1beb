package projections

import (
	"nexus/ledger/tlog"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// TreeHashes returns what is stored of the tree of hashes over the records. Its rows of the first n
// records do not change, so that a tree of any size up to [Store.Applied] can be read while the
// store advances. Its errors: [db.ReadError].
func (s *Store) TreeHashes() tlog.Hashes { return treeHashes{s.db()} }

// TreeHashes returns what is stored of the tree of hashes that follows from the log. Not after [Comparison.Cut],
// nor of a comparison of some chains. The caller has called [Comparison.Differences].
func (c *Comparison) TreeHashes() tlog.Hashes { return treeHashes{c.anew.DB} }

// treeHashes reads the rows of the tree.
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
func (d *database) edge(applied uint64) (tlog.Frontier, error) {
	if d.tree.Size() == applied {
		return d.tree.Clone(), nil
	}
	return tlog.LoadFrontier(treeHashes{d}, applied)
}

// leaf adds a record to the tree.
func (a *applier) leaf(p parsed) error {
	if a.tree == nil {
		return nil
	}
	leaf := tlog.LeafHash(p.Hash)
	if p.event == nil { // nobody compared the hash, or it is no event
		leaf = tlog.Leaf(p.Seq, p.Payload)
	}
	return a.tree.AppendLeaf(leaf, func(level int, n uint64, h turns.Hash) error {
		a.keys = rows.TreeKey(a.keys[:0], level, n)
		return a.batch.Set(a.keys, h[:])
	})
}
