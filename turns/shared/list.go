// Package shared has lists that many read and that longer ones go on from, as the context of
// one call goes on from that of the call before: most of it stays, and a little is added.
package shared

import (
	"slices"
	"sync/atomic"
)

// List is a list that a longer one may go on from without a copy. The zero List is empty. It
// must not be copied. Safe for concurrent use.
//
// Invariant: nobody changes the items, and of those who write to the memory behind them there is
// one at most.
type List[T any] struct {
	items []T
	taken atomic.Bool // a longer list has the memory behind items
}

// Of returns the list of items, with the memory behind them. The caller neither changes items nor
// appends to them any more.
func Of[T any](items []T) List[T] { return List[T]{items: items} }

// Items returns the items of l. Who appends to them gets a copy.
func (l *List[T]) Items() []T { return slices.Clip(l.items) }

// First returns the first n items of l, for a list of about size that goes on from there. The
// caller appends to them and changes what it appended, and gives the result to [Of]. The first that
// goes on behind all of l gets the memory there, if that is enough; another gets a copy with some
// room of its own.
// It panics if l has fewer than n.
func (l *List[T]) First(n, size int) []T {
	if n == len(l.items) && size <= cap(l.items) && l.taken.CompareAndSwap(false, true) {
		return l.items
	}
	return append(make([]T, 0, max(n, size)+size/8+8), l.items[:n]...)
}
