package main

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"nexus/compactor/compare"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/interchange"
	"nexus/turns/tokens"
)

// history is one path of turns to replay, and where it is from.
type history struct {
	name       string
	transcript *compare.Transcript
}

// histories reads what a file holds: of each session that begins in it, with
// its forks, the longest path. The file's own compactions are passed over. An
// export of ours is read through a ledger of its own, in a temporary folder.
func (e *env) histories(ctx context.Context, name string, read func(int)) ([]history, error) {
	in, err := openTranscript(name, e.in, "auto", read)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if in.format.Open == nil {
		return e.exportedHistories(ctx, in.Reader, name)
	}
	// A forked session's own file holds what it copied from its parent.
	paths, err := longestPaths(in.format.Open(in, interchange.Options{Final: true, Copied: true}).Steps())
	if err != nil {
		return nil, err
	}
	var out []history
	for i, p := range paths {
		h := history{filepath.Base(name), compare.New(p.turns, p.overhead)}
		if len(paths) > 1 {
			h.name = fmt.Sprintf("%s #%d", h.name, i+1)
		}
		if h.transcript.Calls() > 0 {
			out = append(out, h)
		}
	}
	return out, nil
}

// path is turns from a root on, and the tokens of system and tools before them.
type path struct {
	turns    []compare.Turn
	overhead uint64
}

// pathTurn is a turn and the one above it.
type pathTurn struct {
	compare.Turn
	above turns.ID
	depth int
}

// longestPaths is, of each session that begins in some steps, with its forks,
// the path with the most turns; of equal ones the first.
func longestPaths(steps iter.Seq2[interchange.Step, error]) (out []path, err error) {
	root := make(map[turns.ID]turns.ID) // of each session, the one that its tree begins with
	overhead := make(map[turns.ID]uint64)
	deepest := make(map[turns.ID]turns.ID) // of each tree, the turn with the most above it
	all := make(map[turns.ID]pathTurn)
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
			all[k.ID] = pathTurn{above: k.Parent, depth: all[k.Parent].depth}
		default:
			a := st.Append
			t := pathTurn{compare.Turn{Messages: a.Messages, Response: a.Response}, a.Parent, all[a.Parent].depth + 1}
			all[a.ID] = t
			if tree := root[a.Session]; t.depth > all[deepest[tree]].depth {
				deepest[tree] = a.ID
			}
		}
	}
	for _, tree := range order {
		var ts []compare.Turn
		for id := deepest[tree]; !id.IsZero(); id = all[id].above {
			if t := all[id]; len(t.Messages) > 0 || t.Response != nil {
				ts = append(ts, t.Turn)
			}
		}
		slices.Reverse(ts)
		out = append(out, path{ts, overhead[tree]})
	}
	return out, nil
}

// overheadOf is the tokens of a session's system and tools, as the daemon counts them.
func overheadOf(o *interchange.Open) (n uint64) {
	for _, s := range o.System {
		n += 4 + (tokens.Approx{}).Text(s.Name) + (tokens.Approx{}).Text(s.Content)
	}
	for _, t := range o.Tools {
		n += 8 + (tokens.Approx{}).Text(string(t))
	}
	return n
}

func (e *env) exportedHistories(ctx context.Context, br *bufio.Reader, name string) ([]history, error) {
	dir, err := os.MkdirTemp("", "nexus-compare-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c, stop, err := e.local(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer stop()
	var rep report
	if err := importExport(ctx, c, br, &rep); err != nil {
		return nil, err
	}
	s, err := largest(ctx, c.As(api.Operator), rep.Sessions)
	if err != nil || s == nil {
		return nil, err
	}
	h, err := sessionHistory(ctx, c.As(s.Agent), s, filepath.Base(name))
	return []history{h}, err
}

// sessionHistory is the path of a session's head, on a daemon.
func sessionHistory(ctx context.Context, c *api.Client, s *api.Session, name string) (history, error) {
	var ts []compare.Turn
	for t, err := range c.Turns(ctx, s.ID, api.ListTurns{Full: true}) {
		if err != nil {
			return history{}, err
		}
		written, err := writtenTurn(ctx, c, s.ID, &t)
		if err != nil {
			return history{}, err
		}
		if !written.Compaction {
			ts = append(ts, compare.Turn{Messages: written.Messages, Response: written.Response})
		}
	}
	return history{name, compare.New(ts, s.Overhead)}, nil
}
