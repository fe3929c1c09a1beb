package db

import (
	"bytes"
	"errors"
	"iter"

	"github.com/cockroachdb/pebble/v2"
)

// Reader is what rows are read of: a database, a snapshot, or a batch that is indexed.
type Reader = pebble.Reader

// Get returns the value of a key, and whether it has one. The caller owns it.
// Errors: [*ReadError], as of all that reads rows.
func Get(r Reader, k []byte) (v []byte, ok bool, err error) {
	b, closer, err := r.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, readError(err)
	}
	v = append([]byte(nil), b...)
	return v, true, closer.Close()
}

// Pair is a key and its value.
type Pair struct{ Key, Value []byte }

// Last returns the last pair with lo <= key < hi. The caller owns its bytes.
func Last(r Reader, lo, hi []byte) (p Pair, ok bool, err error) {
	for p, err := range ScanBack(r, lo, hi) {
		return p, err == nil, err
	}
	return Pair{}, false, nil
}

// Scan yields the pairs with lo <= key < hi. The caller owns their bytes.
func Scan(r Reader, lo, hi []byte) iter.Seq2[Pair, error] {
	return pairs(r, lo, hi, (*pebble.Iterator).First, (*pebble.Iterator).Next)
}

// ScanBack yields the pairs with lo <= key < hi, the last one first. The caller owns
// their bytes.
func ScanBack(r Reader, lo, hi []byte) iter.Seq2[Pair, error] {
	return pairs(r, lo, hi, (*pebble.Iterator).Last, (*pebble.Iterator).Prev)
}

// Iterator is a place among the rows, for a walk that leaps. Its bytes are the database's.
type Iterator = pebble.Iterator

// Iter returns an iterator of the rows with lo <= key < hi, which the caller closes.
func Iter(r Reader, lo, hi []byte) (*Iterator, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return nil, readError(err)
	}
	return it, nil
}

func pairs(r Reader, lo, hi []byte, first, next func(*pebble.Iterator) bool) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		it, err := Iter(r, lo, hi)
		if err != nil {
			yield(Pair{}, err)
			return
		}
		defer it.Close()
		for ok := first(it); ok; ok = next(it) {
			v, err := it.ValueAndErr()
			if err != nil {
				yield(Pair{}, readError(err))
				return
			}
			if !yield(Pair{bytes.Clone(it.Key()), bytes.Clone(v)}, nil) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(Pair{}, readError(err))
		}
	}
}
