package projections

import (
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// Schema is the version of the rows. A store of another version is discarded
// and rebuilt from the log; nothing in it is worth migrating.
const Schema = 8

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

// turnRow is Turn as stored: an array, since a row is read for every hop.
type turnRow struct {
	_          struct{} `cbor:",toarray"`
	Parent     turns.Ref
	Jump       turns.Ref
	Depth      uint64
	Segment    turns.ID
	Kind       turns.Kind
	Halves     turns.Halves
	Compaction turns.Ref
	Sum        uint64
	Messages   uint64
	Response   uint64
	Calls      uint64
	Cut        lineage.Cut
	Previous   turns.Ref
	Replaced   uint64
	Saved      uint64
	Enclosing  turns.Ref
	Flags      uint64 // 1 imported, 2 dropped, 4 call
	Index      uint64
	Seq        uint64
	Hash       turns.Hash
	Open       uint64
	Recorded   int64
	Cycles     uint64
	Input      uint64
	Reported   turns.Ref
	Rank       uint64
	Opened     uint64
	Above      turns.Ref
	AboveJump  turns.Ref
}

func (t *Turn) encode() ([]byte, error) {
	r := turnRow{
		Parent: t.Parent, Jump: t.Jump, Depth: t.Depth, Segment: t.Segment, Kind: t.Kind, Halves: t.Halves,
		Compaction: t.Compaction, Sum: t.Sum, Messages: t.Messages, Response: t.Response, Calls: t.Calls,
		Cut: t.Cut, Previous: t.Previous, Replaced: t.Replaced, Saved: t.Saved, Enclosing: t.Enclosing, Index: t.Index, Seq: t.Seq, Hash: t.Hash,
		Open: t.Open, Recorded: t.Recorded, Cycles: t.Cycles,
		Input: t.Input, Reported: t.Reported, Rank: t.Rank, Opened: t.Opened, Above: t.Above, AboveJump: t.AboveJump,
	}
	if t.Imported {
		r.Flags |= 1
	}
	if t.Dropped {
		r.Flags |= 2
	}
	if t.Call {
		r.Flags |= 4
	}
	return cbor.Marshal(r)
}

func decodeTurn(ref turns.Ref, b []byte) (Turn, error) {
	var r turnRow
	if err := cbor.Unmarshal(b, &r); err != nil {
		return Turn{}, fmt.Errorf("%w: projection row of turn %s: %v", ledger.ErrCorrupt, ref, err)
	}
	return Turn{
		Node: lineage.Node{
			Ref: ref, Parent: r.Parent, Jump: r.Jump, Depth: r.Depth, Segment: r.Segment, Kind: r.Kind, Halves: r.Halves,
			Compaction: r.Compaction, Sum: r.Sum, Messages: r.Messages, Response: r.Response, Calls: r.Calls,
			Cut: r.Cut, Previous: r.Previous, Replaced: r.Replaced, Saved: r.Saved, Enclosing: r.Enclosing, Cycles: r.Cycles,
			Rank: r.Rank, Opened: r.Opened, Above: r.Above, AboveJump: r.AboveJump,
			Imported: r.Flags&1 != 0, Dropped: r.Flags&2 != 0, Call: r.Flags&4 != 0,
		},
		Index: r.Index, Seq: r.Seq, Hash: r.Hash, Open: r.Open, Recorded: r.Recorded, Input: r.Input, Reported: r.Reported,
	}, nil
}

// Label is the row of a label: the fold of its chain.
type Label = ledger.Label

// Policies is the row of a tenant's chain: its fold. PolicyName is that of a name.
type (
	Policies   = ledger.Policies
	PolicyName = ledger.PolicyName
)

// place is where the record at a position is: a session's chain and ordinal,
// or, for other chains and what could not be read, the record itself.
type place struct {
	_       struct{} `cbor:",toarray"`
	Session turns.ID
	Index   uint64
	Subject string
	Payload []byte
}

// An event row of a turn is 1 byte and where its payload is; of any other
// event, 0 and the payload.
func pointerTo(segment turns.ID, depth uint64) []byte {
	b := make([]byte, 25)
	b[0] = 1
	copy(b[1:], segment[:])
	binary.BigEndian.PutUint64(b[17:], depth)
	return b
}
