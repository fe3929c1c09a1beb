package steps

import (
	"maps"

	"nexus/cmd/internal/repository"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript/formats"
)

// Writer stores the steps of transcripts in a ledger. It keeps what it found of their sessions and
// turns there. Not safe for concurrent use: several work on [Writer.Clone]s.
type Writer struct {
	Client   *client.Client
	Window   uint64            // context window of the sessions that it opens, in tokens; 0: the default
	Unit     turns.ID          // the id of the import, which stands in the meta of the sessions that it opens; zero: none
	Projects *repository.Cache // finds the repositories of folders; nil: it asks git for each session
	Refresh  bool              // sessions that an older reader read are not reported: they are compared

	acked  string // the position of the newest turn that it stored; "": none
	splits splitTurns
	placed placement
	// Of the file whose steps are done.
	into     map[turns.ID]turns.ID // by session that a file copied from: that which takes the copy; see noteShortCopy
	clock    clock
	lines    map[turns.ID]*Line // by the source's session
	byID     map[turns.ID]*Line // by the session of the ledger
	renamed  map[turns.ID]turns.ID
	renewing map[turns.ID]*Renewal // by the source's session
	older    map[turns.ID]turns.ID // by session: that of an older copy, which takes what the session lacks
	joined   map[turns.ID]*joined  // by session of the ledger: those that may begin with turns of others
}

// BeginFile forgets what a Writer knows of the file before. What several files may have in
// common it keeps.
func (w *Writer) BeginFile() { w.into = nil }

// BeginReading begins a file, or begins it again: it may be read more than once. A plan names the
// successors of its sessions; nil: there are none.
func (w *Writer) BeginReading(plan *Plan) {
	w.clock, w.lines, w.byID, w.renamed, w.renewing, w.older, w.joined = nil, nil, nil, nil, nil, nil, nil
	if plan != nil {
		w.renewing = plan.Successors
	}
}

// Clone returns a Writer that knows what w knows, and learns apart from it.
func (w *Writer) Clone() *Writer {
	own := *w
	own.splits, own.placed = maps.Clone(w.splits), w.placed.clone()
	return &own
}

// Join takes over what a clone knows of sessions and turns, which works no more.
func (w *Writer) Join(clone *Writer) {
	copyTo(&w.splits, clone.splits)
	copyTo(&w.placed.turns, clone.placed.turns)
	copyTo(&w.placed.sessions, clone.placed.sessions)
	copyTo(&w.clock, clone.clock)
	copyTo(&w.lines, clone.lines)
	copyTo(&w.byID, clone.byID)
	copyTo(&w.renamed, clone.renamed)
	copyTo(&w.older, clone.older)
}

// copyTo adds the entries of a map to another one, which it makes if need be.
func copyTo[M ~map[K]V, K comparable, V any](to *M, from M) {
	if len(from) == 0 {
		return
	}
	if *to == nil {
		*to = make(M, len(from))
	}
	maps.Copy(*to, from)
}

// SharesIDs reports whether the turns of a format have the same ids in each file that has
// them, and another event never has those.
func SharesIDs(format string) bool {
	f, _ := formats.Find(format)
	return f.SharesIDs
}
