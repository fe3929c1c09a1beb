package content

import (
	"io"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/page"
	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Store seals and opens the bodies of events, and moves large parts between
// bodies and blobs. Safe for concurrent use.
type Store struct {
	Ledger  [16]byte // UUID of the ledger
	Blobs   ledger.Blobs
	Keys    Keys // nil if the ledger does not seal
	Counter tokens.Counter
	Rand    io.Reader // safe for concurrent use

	redactions *redactions

	page      *page.Limits
	contents  *cache.Cache[blobName, []byte]          // opened and checked, or sealed
	preambles *cache.Cache[blobName, *turns.Preamble] // those in blobs, decoded
	overheads *cache.Cache[preambleKey, uint64]       // tokens of preambles
	digests   *cache.Cache[preambleKey, turns.Hash]
	forked    *cache.Cache[forkedPreamble, *turns.BlobRef] // nil: the fork has it in its settings
}

// Fresh returns a store of the same content whose caches are empty and keep at most
// limit bytes: what it returns was read from Blobs after this call.
func (cs *Store) Fresh(limit int) *Store {
	fresh := New(cs.Ledger, cs.Blobs, cs.Keys, cs.Counter, cs.Rand, cs.page, cache.NewBudget(limit))
	fresh.redactions = cs.redactions
	return fresh
}

// New returns a store of content over blobs. Its caches share budget.
func New(id [16]byte, blobs ledger.Blobs, keys Keys, counter tokens.Counter, rand io.Reader, limits *page.Limits, budget *cache.Budget) *Store {
	return &Store{
		Ledger: id, Blobs: blobs, Keys: keys, Counter: counter, Rand: rand, page: limits, redactions: new(redactions),
		contents: cache.New[blobName, []byte](budget, "blobs"), preambles: cache.New[blobName, *turns.Preamble](budget, "preambles"),
		overheads: cache.New[preambleKey, uint64](budget, "overheads"), digests: cache.New[preambleKey, turns.Hash](budget, "digests"),
		forked: cache.New[forkedPreamble, *turns.BlobRef](budget, "forked"),
	}
}
