package changes

import (
	"encoding/hex"
	"time"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/cmd/internal/transcripts/steps"
	"nexus/turns"
)

// comparer compares the steps of a file with the ledger.
type comparer struct {
	w         *steps.Writer
	format    string
	all       map[turns.ID]*comparison // by session of the source
	order     []turns.ID
	responses map[alike.Sum]int        // how often the file holds each, or what it is forked from
	placed    map[turns.ID]*comparison // by turn: of another session than the steps say
	branches  map[turns.ID]*comparison // by session: those that hold such turns; nil: none
}

// storedTurn is a turn of the ledger, as it is compared.
type storedTurn struct {
	parent   turns.ID
	sum      alike.Sum // of what a step says
	response alike.Sum // zero: none
	time     time.Time
	normal   bool
	child    bool // another turn of the session follows it
	named    bool // a step names it
	changed  bool // with another response
}

// comparison is a session of the source beside that of the ledger.
type comparison struct {
	line    *steps.Line
	turns   map[turns.ID]*storedTurn
	from    turns.ID // the session of the source that it is forked from
	differs bool
	last    turns.Ref // the last turn that both have alike, before the first that differs
	joined  bool      // the ledger has its first turns in other sessions: see steps/joined.go
	skipped bool      // a compaction that the ledger has not
	changed int       // turns that the ledger holds with another response
	read    []any     // what the file has of it, for a digest
	news    []newTurn // what the ledger has not

	branches []*comparison // sessions that the ledger has branches of it in: see place
}

// newTurn is a turn that the ledger lacks.
type newTurn struct {
	time     time.Time
	response alike.Sum
}

// digest names what a file has of a session.
func (x *comparison) digest() string {
	sum := alike.SumOf(x.read...)
	return hex.EncodeToString(sum[:])
}

// isNamed reports whether the file holds all turns of a session.
func (x *comparison) isNamed() bool {
	for _, t := range x.turns {
		if t.normal && !t.named {
			return false
		}
	}
	return true
}

// above returns the turn at or above one that is no compaction: the ledger puts a turn after
// the compactions that follow its parent.
func (x *comparison) above(turn turns.ID) turns.ID {
	for t := x.turns[turn]; t != nil && !t.normal; t = x.turns[turn] {
		turn = t.parent
	}
	return turn
}

// missing notes a turn or compaction that the ledger has not. What follows the end of the
// session is what the file got since.
func (x *comparison) missing(parent turns.ID) {
	if up := x.turns[parent]; up != nil && up.child || up == nil && parent == x.line.At.Turn && len(x.turns) > 0 {
		x.differs = true
	}
}
