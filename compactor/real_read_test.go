package compactor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/formats"

	"nexus/turns/tokens"
)

// history is the longest path of a session of a real transcript.
type history struct {
	name   string
	turns  []*transcript.Append
	tokens uint64
}

// realHistories are the sessions of the transcripts in ../shared/data that
// have at least so many tokens, in the order of their files.
func realHistories(t *testing.T, least uint64) (out []history) {
	t.Helper()
	data := filepath.Join("..", "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		t.Skip("real transcripts are not beside the project (../shared/data)")
	}
	err := filepath.WalkDir(data, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !slices.Contains([]string{".jsonl", ".json"}, filepath.Ext(name)) {
			return err
		}
		paths, err := readHistories(name)
		if errors.Is(err, turns.ErrMalformed) {
			return nil
		}
		for i, p := range paths {
			h := history{name: filepath.Base(name), turns: p}
			if len(paths) > 1 {
				h.name = fmt.Sprintf("%s_%d", h.name, i+1)
			}
			for _, a := range p {
				h.tokens += tokens.Messages(approx, a.Messages)
				if a.Response != nil {
					h.tokens += approx.Message(a.Response)
				}
			}
			if h.tokens >= least {
				out = append(out, h)
			}
		}
		return err
	})
	must(t, err)
	return out
}

// readHistories returns the longest path of each session of a file; nothing where
// the file is no transcript.
func readHistories(name string) ([][]*transcript.Append, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	head, err := r.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	steps := stepsOf(r, head, name)
	if steps == nil {
		return nil, nil
	}
	root := make(map[turns.ID]turns.ID) // of each session, the one that its tree begins with
	above := make(map[turns.ID]turns.ID)
	depth := make(map[turns.ID]int)
	appends := make(map[turns.ID]*transcript.Append)
	deepest := make(map[turns.ID]turns.ID)
	var order []turns.ID
	for st, err := range steps {
		switch {
		case err != nil:
			return nil, err
		case st.Open != nil:
			root[st.Open.ID] = st.Open.ID
			order = append(order, st.Open.ID)
		case st.Fork != nil:
			root[st.Fork.ID] = root[st.Fork.At.Session]
		case st.Compaction != nil: // between two turns, without text
			above[st.Compaction.ID], depth[st.Compaction.ID] = st.Compaction.Parent, depth[st.Compaction.Parent]
		default:
			a := st.Append
			above[a.ID], depth[a.ID], appends[a.ID] = a.Parent, depth[a.Parent]+1, a
			if tree := root[a.Session]; depth[a.ID] > depth[deepest[tree]] {
				deepest[tree] = a.ID
			}
		}
	}
	var out [][]*transcript.Append
	for _, tree := range order {
		var path []*transcript.Append
		for id := deepest[tree]; !id.IsZero(); id = above[id] {
			if a := appends[id]; a != nil && (len(a.Messages) > 0 || a.Response != nil) {
				path = append(path, a)
			}
		}
		slices.Reverse(path)
		out = append(out, path)
	}
	return out, nil
}

// stepsOf reads a transcript of any format; nil for none.
func stepsOf(r io.Reader, head []byte, name string) iter.Seq2[transcript.Step, error] {
	for _, f := range formats.All() {
		if f.Sniff(head) {
			return f.Open(r, transcript.Options{Final: true, Copied: true}).Steps()
		}
	}
	return nil
}
