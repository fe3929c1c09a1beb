package edits

import (
	"iter"
	"slices"
	"strings"

	"nexus/turns"
)

// Turn is a turn of a path, oldest first.
type Turn struct {
	ID         turns.ID
	Session    turns.ID
	Depth      uint64
	Compaction bool
	Folder     string // of the turn's session, if it is another than that of the options
	Cwd        string // where the agent is, if the turn states it
	Messages   []turns.Message
	Response   *turns.Message
}

// Limits bound what is held and done. Zero fields have the defaults.
type Limits struct {
	Files    int   // files that are followed (20,000)
	FileSize int64 // bytes of one file (16 MiB)
	Bytes    int64 // bytes of all files (256 MiB)
	Work     int64 // bytes that edits search (4 GiB)
}

func (l Limits) orDefaults() Limits {
	def := func(p *int64, n int64) {
		if *p == 0 {
			*p = n
		}
	}
	if l.Files == 0 {
		l.Files = 20_000
	}
	def(&l.FileSize, 16<<20)
	def(&l.Bytes, 256<<20)
	def(&l.Work, 4<<30)
	return l
}

// Options say whose transcript it is, and where the agent worked.
type Options struct {
	Agent  string // as in the meta of sessions: claude-code, codex, pi, gemini-cli
	Folder string // absolute, as the transcript writes it: paths are relative to it
	Cwd    string // where the agent was at the start; empty: Folder
	Beside bool   // another agent worked in the folder all the time: nothing is exact
	// Base returns the content of a file in the commit that a session began with. Nil:
	// no commit is known.
	Base func(session turns.ID, path string) (content []byte, ok bool)
	// Originals has what files held before edits, by the ids of calls; see [ReadOriginals].
	Originals map[string]string
	Limits    Limits

	// observe is called before a call has its effects; tests compare there.
	observe func(*call, *rebuilder)
}

// File is what is known of a file.
type File struct {
	Path    string `json:"path"` // below the folder, with slashes
	Status  Status `json:"status"`
	Deleted bool   `json:"deleted,omitzero"`
	Content string `json:"-"` // of a file that is neither deleted nor unknown
	Why     Reason `json:"why,omitzero"`
	Since   uint64 `json:"since"` // the depth of the turn that it has this status since

	followed bool // a call before this one named it
}

// Refused is a path that no file is rebuilt for.
type Refused struct {
	Path string `json:"path"`
	Why  Reason `json:"why"`
}

// maxRefused bounds how many refused paths are named.
const maxRefused = 100

// State is the files after a turn. It is valid until the walk goes on.
type State struct {
	Turn Turn
	// Others says what may have changed files that the session never named, and Since the
	// depth of the first such turn. Empty: nothing that the transcript shows.
	Others      Reason
	OthersSince uint64
	Refused     []Refused // at most 100
	RefusedAll  int
	r           *rebuilder
}

// Files returns the files that the session named, sorted by path.
func (s *State) Files() []File {
	out := make([]File, 0, len(s.r.files))
	for _, f := range s.r.files {
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Count returns how many files have a status.
func (s *State) Count() map[Status]int {
	n := make(map[Status]int)
	for _, f := range s.r.files {
		n[f.Status]++
	}
	return n
}

// Walk rebuilds the files after each turn of a path: when its calls have run, and before
// the next message of a user. A call's effect is known from its result, which is in a later
// turn, so the path should reach beyond the turn that is asked for.
//
// A file becomes exact by a whole read, a write or a deletion that succeeded. It stays so
// through edits that succeeded and that fit in one place only. It becomes Recorded when
// anything else may have changed it: a command that is not known to only read, a tool or an
// agent, a user's message, a fork. It becomes Unknown where a step can't be followed.
// An error of the path ends the walk.
func Walk(path iter.Seq2[Turn, error], o Options) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		r := newRebuilder(o)
		var held []Turn // turns whose calls may still get results: a compaction brings none
		release := func() bool {
			for _, t := range held {
				if !yield(r.state(t), nil) {
					return false
				}
			}
			held = held[:0]
			return true
		}
		for t, err := range path {
			if err != nil {
				yield(nil, err)
				return
			}
			if !t.Compaction {
				r.settle(t.Messages)
				if !release() {
					return
				}
				r.begin(t)
			}
			held = append(held, t)
		}
		r.settle(nil)
		release()
	}
}
