package rows

import (
	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// Schema is the version of the rows. A store of another version is discarded
// and rebuilt from the log; nothing in it is worth migrating.
const Schema = 18

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

// Place is where the record at a position is: a session's chain and ordinal,
// or, for other chains and what could not be read, the record itself.
type Place struct {
	Session turns.ID
	Index   uint64
	Subject string
	Payload []byte
}

// AsideChain is a chain that was set aside.
type AsideChain struct {
	Subject string
	Seq     uint64 // the record that could not be applied
	Why     string
}

// MaxLost bounds the lost events of a chain that are named one by one.
const MaxLost = 32

// Loss is what a chain that was set aside has lost, as far as what is left of it tells.
// The zero Loss: nothing is known to be lost; an event breaks a rule.
type Loss struct {
	_ struct{} `cbor:",toarray"`
	// Events are the lost events, in the order of the chain, the first 32 of them.
	Events []LostEvent
	Number uint64 // of all lost events
	// Turns are lost turns that a turn after the loss continues, the first 32 of them.
	Turns []turns.ID
	// Tail is the newest event after the loss that was read. Its hash is zero if that
	// event is lost, and its index is then a guess from below.
	Tail ledger.Tail
}

// LostEvent is an event of which no sound copy is left.
type LostEvent struct {
	_     struct{}   `cbor:",toarray"`
	Index uint64     // ordinal on its chain
	Seq   uint64     // position in the log; 0: not known
	Hash  turns.Hash // as the next event of the chain has it; zero: that is lost too
}

// Add takes in another lost event.
func (l *Loss) Add(e LostEvent) {
	if l.Number++; len(l.Events) < MaxLost {
		l.Events = append(l.Events, e)
	}
}
