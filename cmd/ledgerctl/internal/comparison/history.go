package comparison

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"nexus/cmd/internal/transcripts/rawexport"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/internal/transcripts/written"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/compactor/compare"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"

	"nexus/turns/tokens"
)

// History is one path of turns to replay, and where it is from.
type History struct {
	Name       string
	Transcript *compare.Transcript
	model      string // of most of its calls; "": not named
}

// Histories reads what a file holds: of each session that begins in it, with
// its forks, the longest path, with the compactions that its own agent made. An
// export of ours is read through a ledger of its own, in a temporary folder.
func Histories(ctx context.Context, term *terminal.Terminal, name string, read func(int)) ([]History, error) {
	in, err := transcriptfile.Open(name, term.In, "auto", read)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if in.Format.Open == nil {
		return exportedHistories(ctx, term, in.Reader, name)
	}
	// A forked session's own file holds what it copied from its parent.
	paths, err := longestPaths(in.Format.Open(in, transcript.Options{Final: true, Copied: true}).Steps())
	if err != nil {
		return nil, err
	}
	var out []History
	for i, p := range paths {
		h := History{filepath.Base(name), compare.NewFrom(p.Turns, p.Overhead, p.Source), mostUsed(p.models)}
		if len(paths) > 1 {
			h.Name = fmt.Sprintf("%s #%d", h.Name, i+1)
		}
		if h.Transcript.Calls() > 0 {
			out = append(out, h)
		}
	}
	return out, nil
}

// path is turns from a root on, the tokens of system and tools before them, and what
// the source tells of their agent's calls.
type path struct {
	Turns    []compare.Turn
	models   map[string]int // how many calls each has
	Overhead uint64
	Source   compare.Source
}

// pathTurn is a turn and the one above it.
type pathTurn struct {
	compare.Turn
	above      turns.ID
	session    turns.ID
	depth      int
	compaction *transcript.Compaction // nil: a turn
	model      string
	reported   uint64 // input tokens of the call; 0: the source does not say
}

// longestPaths is, of each session that begins in some steps, with its forks,
// the path with the most turns; of equal ones the first.
func longestPaths(steps iter.Seq2[transcript.Step, error]) (out []path, err error) {
	root := make(map[turns.ID]turns.ID) // of each session, the one that its tree begins with
	overhead := make(map[turns.ID]uint64)
	deepest := make(map[turns.ID]turns.ID) // of each tree, the turn with the most above it
	all := make(map[turns.ID]pathTurn)
	after := make(map[turns.ID][]turns.ID) // for each turn, the compactions whose parent it is
	var order []turns.ID
	for st, err := range steps {
		if err != nil {
			return nil, err
		}
		switch {
		case st.Open != nil:
			root[st.Open.ID], overhead[st.Open.ID] = st.Open.ID, overheadOf(st.Open)
			order = append(order, st.Open.ID)
		case st.Fork != nil:
			root[st.Fork.ID] = root[st.Fork.At.Session]
		case st.Compaction != nil:
			k := st.Compaction // between two turns, without messages
			all[k.ID] = pathTurn{above: k.Parent, session: k.Session, depth: all[k.Parent].depth, compaction: k}
			after[k.Parent] = append(after[k.Parent], k.ID)
		default:
			a := st.Append
			t := pathTurn{Turn: compare.Turn{Messages: a.Messages, Response: a.Response}, above: a.Parent, session: a.Session, depth: all[a.Parent].depth + 1, model: a.Model}
			if a.Usage != nil {
				t.reported = a.Usage.InputTokens
			}
			all[a.ID] = t
			if tree := root[a.Session]; t.depth > all[deepest[tree]].depth {
				deepest[tree] = a.ID
			}
		}
	}
	for _, tree := range order {
		var line []turns.ID
		for id := deepest[tree]; !id.IsZero(); id = all[id].above {
			line = append(line, id)
			// Codex and pi name the turn before a compaction as the parent of what
			// follows it, Claude Code names the compaction.
			for _, k := range slices.Backward(after[all[id].above]) {
				if all[k].session == all[id].session && k != id {
					line = append(line, k)
				}
			}
		}
		slices.Reverse(line)
		p := path{Overhead: overhead[tree], models: make(map[string]int), Source: compare.Source{Reported: make(map[int]uint64)}}
		at := make(map[turns.ID]int) // of each turn, its index
		for _, id := range line {
			switch t := all[id]; {
			case t.compaction != nil:
				p.Source.Compactions = append(p.Source.Compactions, recordedAt(t.compaction, len(p.Turns), at))
			case len(t.Messages) > 0 || t.Response != nil:
				at[id] = len(p.Turns)
				p.Source.Reported[len(p.Turns)] = t.reported
				p.Turns = append(p.Turns, t.Turn)
				if t.Response != nil && t.model != turns.Synthetic {
					p.models[t.model]++
				}
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// recordedAt returns a recorded compaction before turn number before. at holds the
// indexes of the turns above it.
func recordedAt(k *transcript.Compaction, before int, at map[turns.ID]int) compare.Recorded {
	r := compare.Recorded{Before: before, FirstKept: -1, Replacement: k.Replacement, Summary: k.Summary, Dropped: k.Dropped}
	if i, ok := at[k.FirstKept]; ok {
		r.FirstKept = i
	}
	for _, c := range k.Cleared {
		if i, ok := at[c.Turn]; ok {
			r.Cleared = append(r.Cleared, compare.Cleared{Turn: i, Call: c.Call})
		}
	}
	return r
}

// overheadOf is the tokens of a session's system and tools, as the daemon counts them.
func overheadOf(o *transcript.Open) (n uint64) {
	for _, s := range o.System {
		n += 4 + (tokens.Approx{}).Text(s.Name) + (tokens.Approx{}).Text(s.Content)
	}
	for _, t := range o.Tools {
		n += 8 + (tokens.Approx{}).Text(string(t))
	}
	return n
}

func exportedHistories(ctx context.Context, term *terminal.Terminal, br *bufio.Reader, name string) ([]History, error) {
	dir, err := os.MkdirTemp("", "nexus-compare-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c, stop, err := local.Start(ctx, term, dir)
	if err != nil {
		return nil, err
	}
	defer stop()
	var rep tally.Report
	if err := rawexport.Import(ctx, c, br, &rep); err != nil {
		return nil, err
	}
	s, err := local.Largest(ctx, c.As(api.Operator), rep.Sessions)
	if err != nil || s == nil {
		return nil, err
	}
	h, err := sessionHistory(ctx, c.As(s.Agent), s, filepath.Base(name))
	return []History{h}, err
}

// sessionHistory is the path of a session's head, on a daemon.
func sessionHistory(ctx context.Context, c *client.Client, s *api.Session, name string) (History, error) {
	var ts []compare.Turn
	models := make(map[string]int)
	for t, err := range c.Turns(ctx, s.ID, api.ListTurns{Full: true}) {
		if err != nil {
			return History{}, err
		}
		turn, err := written.Turn(ctx, c, s.ID, &t)
		if err != nil {
			return History{}, err
		}
		if !turn.Compaction {
			ts = append(ts, compare.Turn{Messages: turn.Messages, Response: turn.Response})
			if turn.Response != nil && t.Model != turns.Synthetic {
				models[cmp.Or(t.Model, s.Model)]++
			}
		}
	}
	return History{name, compare.New(ts, s.Overhead), mostUsed(models)}, nil
}

// mostUsed returns the model with the most calls, of equal ones the first by name.
func mostUsed(models map[string]int) (most string) {
	for _, m := range slices.Sorted(maps.Keys(models)) {
		if models[m] > models[most] {
			most = m
		}
	}
	return most
}
