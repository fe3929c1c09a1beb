package projections

import (
	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// Schema is the version of the rows. A store of another version is discarded
// and rebuilt from the log; nothing in it is worth migrating.
const Schema = 13

// Checkpoint is the position up to which the log has been applied. It commits in the same
// batch as the data.
type Checkpoint struct {
	_        struct{}   `cbor:",toarray"`
	Identity string     // of the log
	Seq      uint64     // last record applied; 0: none
	Hash     turns.Hash // of that record's payload
	Schema   uint64
}

// Turn is the row of a turn or compaction: its node in the lineage and where
// its event is.
type Turn struct {
	lineage.Node
	Index    uint64 // ordinal on its session's chain
	Seq      uint64
	Hash     turns.Hash
	Open     uint64 // tool calls that wait after it
	Recorded int64  // Unix ns
	Input    uint64 // tokens of the call, as its provider counted them; 0 if it did not

	// Reported is the newest turn, this one or above it, whose call a provider
	// counted; zero if there is none after the newest compaction of the path.
	Reported turns.Ref
}

// Label is the row of a label: the fold of its chain.
type Label = ledger.Label

// Policies is the row of a tenant's chain: its fold. PolicyName is that of a name.
type (
	Policies   = ledger.Policies
	PolicyName = ledger.PolicyName
)
