package tally

import (
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Report is what the import of one file did.
type Report struct {
	File        string            `json:"file"`
	Format      string            `json:"format"`
	Sessions    []turns.ID        `json:"sessions"`
	Opened      int               `json:"opened,omitzero"` // of the sessions: those that this import opened
	Import      turns.ID          `json:"import,omitzero"` // what import --undo hides them by
	Hidden      int               `json:"hidden,omitzero"` // of them: those that were hidden, and stay so
	Turns       int               `json:"turns"`
	Split       int               `json:"split,omitzero"` // of the turns: several turns of the ledger hold each
	Forks       int               `json:"forks"`
	Compactions int               `json:"compactions"`
	Stored      int               `json:"stored"`
	Existing    int               `json:"existing"`
	KeptFirst   int               `json:"kept_first"`
	Older       int               `json:"older_reader,omitzero"` // sessions that an older reader read, or one that left no version
	Renewed     int               `json:"renewed,omitzero"`      // by a refresh: sessions that read differently, and have a successor now
	Same        int               `json:"same,omitzero"`         // by a refresh: sessions of an older reader that read the same
	Unfinished  int               `json:"unfinished,omitzero"`   // turns at the end that may still grow: they are left for a later import
	Losses      []transcript.Loss `json:"losses"`
	Error       string            `json:"error,omitzero"` // why it ended before the end of the file

	// Unacknowledged is set where the import was stopped and a request of it had no reply: it
	// may be stored.
	Unacknowledged bool `json:"-"`

	// Erased is set where a record was refused, as its session was erased; Orphaned where a fork was not made, as what it
	// continues was.
	Erased, Orphaned bool `json:"-"`

	kinds   map[lossKind]int  // by kind and reason: the index in Losses of what stands for several
	records []record          // what Turns, Split, Forks and Compactions count
	added   map[turns.ID]bool // records of the reports that were added
}

// record is a turn, a fork or a compaction that a report counts.
type record struct {
	id    turns.ID
	of    func(*Report) *int // the field that counts it
	split bool
}

// lossKind is what losses that are counted together have in common.
type lossKind struct{ what, reason string }

// maxLosses is how many losses a report has, at most: further ones are counted by what
// they are.
const maxLosses = 1000

// Add adds what another import did. A turn that several files have counts once. Losses are
// added up by what they are.
func (r *Report) Add(o *Report) {
	r.Turns, r.Forks, r.Compactions = r.Turns+o.Turns, r.Forks+o.Forks, r.Compactions+o.Compactions
	r.Stored, r.Existing, r.KeptFirst = r.Stored+o.Stored, r.Existing+o.Existing, r.KeptFirst+o.KeptFirst
	r.Older, r.Renewed, r.Same = r.Older+o.Older, r.Renewed+o.Renewed, r.Same+o.Same
	r.Split += o.Split
	r.Opened, r.Hidden = r.Opened+o.Opened, r.Hidden+o.Hidden
	r.Unfinished += o.Unfinished
	if r.added == nil {
		r.added = make(map[turns.ID]bool)
	}
	for _, x := range o.records {
		if !r.added[x.id] {
			r.added[x.id] = true
			continue
		}
		if *x.of(r)--; x.split {
			r.Split--
		}
	}
	r.Unacknowledged = r.Unacknowledged || o.Unacknowledged
	for _, l := range o.Losses {
		r.Count(l)
	}
}

// AddCounts adds what another part of the same import counted, but for its sessions and losses.
func (r *Report) AddCounts(o *Report) {
	r.Opened, r.Hidden, r.Split = r.Opened+o.Opened, r.Hidden+o.Hidden, r.Split+o.Split
	r.Turns, r.Forks, r.Compactions = r.Turns+o.Turns, r.Forks+o.Forks, r.Compactions+o.Compactions
	r.Stored, r.Existing, r.KeptFirst = r.Stored+o.Stored, r.Existing+o.Existing, r.KeptFirst+o.KeptFirst
	r.Older, r.Renewed, r.Same = r.Older+o.Older, r.Renewed+o.Renewed, r.Same+o.Same
	r.records, r.Unacknowledged = append(r.records, o.records...), r.Unacknowledged || o.Unacknowledged
	r.Erased, r.Orphaned = r.Erased || o.Erased, r.Orphaned || o.Orphaned
}

// Fields of reports that records count.
func turnsOf(r *Report) *int       { return &r.Turns }
func forksOf(r *Report) *int       { return &r.Forks }
func compactionsOf(r *Report) *int { return &r.Compactions }

// CountTurn counts a turn.
func (r *Report) CountTurn(id turns.ID) { r.countRecord(id, turnsOf) }

// CountFork counts a fork.
func (r *Report) CountFork(id turns.ID) { r.countRecord(id, forksOf) }

// CountCompaction counts a compaction.
func (r *Report) CountCompaction(id turns.ID) { r.countRecord(id, compactionsOf) }

// countRecord counts a record in the field of it.
func (r *Report) countRecord(id turns.ID, of func(*Report) *int) {
	*of(r)++
	r.records = append(r.records, record{id: id, of: of})
}

// CountSplit counts that several turns of the ledger hold the turn that was counted last.
func (r *Report) CountSplit() {
	r.Split++
	r.records[len(r.records)-1].split = true
}

// CountOpened counts a session that was opened, unless err says that it was not.
func (r *Report) CountOpened(s *api.Session, err error) {
	if err == nil && s != nil {
		r.Opened++
	}
}

// Clear takes away what was reported so far, but for the sessions and the counts.
func (r *Report) Clear() {
	r.Stored, r.Unfinished, r.Losses, r.kinds, r.Erased, r.Orphaned = 0, 0, nil, nil, false, false
}

// Lose adds a loss. Those after the first [maxLosses] are counted by what they are.
func (r *Report) Lose(l transcript.Loss) {
	if l.Later {
		r.Unfinished += max(l.Count, 1)
	}
	if len(r.Losses) < maxLosses {
		r.Losses = append(r.Losses, l)
		return
	}
	r.Count(l)
}

// Count adds a loss to the others of its kind and reason.
func (r *Report) Count(l transcript.Loss) {
	if r.kinds == nil {
		r.kinds = make(map[lossKind]int)
	}
	k := lossKind{l.Kind, l.Reason}
	i, ok := r.kinds[k]
	if !ok && len(r.kinds) >= maxLosses {
		k.reason, l.Reason = "other reasons", "other reasons"
		i, ok = r.kinds[k]
	}
	if ok {
		sum := &r.Losses[i]
		sum.Count, sum.Usage = sum.Count+max(l.Count, 1), turns.AddUsage(sum.Usage, l.Usage)
		return
	}
	r.kinds[k] = len(r.Losses)
	r.Losses = append(r.Losses, transcript.Loss{Kind: l.Kind, Reason: l.Reason, Count: max(l.Count, 1), Usage: l.Usage, Later: l.Later})
}

// AddUncounted adds to the losses the usage of a turn that came after the turn was stored.
// None is not a loss.
func (r *Report) AddUncounted(turn turns.ID, u turns.Usage) {
	if u != (turns.Usage{}) {
		r.Lose(transcript.Loss{Kind: "kept_first", Reason: "usage that came after its turn was stored is not counted", Record: turn.String(), Usage: &u})
	}
}
