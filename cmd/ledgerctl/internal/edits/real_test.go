package edits

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/interchange"
)

var show = flag.String("show", "", "print what is known of the files of real sessions whose file name has this")

// realSession is a session of a real transcript: its turns, as an import stores them.
type realSession struct {
	file, agent, folder string
	turns               []Turn
}

// readSessions reads the sessions of a transcript. Each has the turns of its whole path.
func readSessions(t *testing.T, name string) (out []realSession) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var format interchange.Format
	for _, f := range interchange.Formats() {
		if f.Sniff(b[:min(len(b), 64<<10)]) {
			format = f
			break
		}
	}
	if format.Open == nil || toolsOf(format.Name) == (foreign{}) {
		return nil
	}
	at := make(map[turns.ID]*Turn)
	parent := make(map[turns.ID]turns.ID)
	cwd, tips := make(map[turns.ID]string), make(map[turns.ID]turns.ID)
	var order []turns.ID
	depth := func(id turns.ID) uint64 {
		if p := at[id]; p != nil {
			return p.Depth
		}
		return 0
	}
	for s, err := range format.Open(bytes.NewReader(b), interchange.Options{Final: true, Copied: true}).Steps() {
		if err != nil {
			t.Logf("%s: %v", filepath.Base(name), err)
			break
		}
		switch {
		case s.Open != nil:
			cwd[s.Open.ID] = turns.WorkContextOf(s.Open.Meta).Cwd
			order = append(order, s.Open.ID)
		case s.Fork != nil:
			cwd[s.Fork.ID] = turns.WorkContextOf(s.Fork.Meta).Cwd
			tips[s.Fork.ID] = s.Fork.At.Turn
			order = append(order, s.Fork.ID)
		case s.Append != nil:
			a := s.Append
			at[a.ID] = &Turn{ID: a.ID, Session: a.Session, Depth: depth(a.Parent) + 1, Cwd: turns.WorkContextOf(a.Meta).Cwd, Messages: a.Messages, Response: a.Response}
			parent[a.ID], tips[a.Session] = a.Parent, a.ID
			if cwd[a.Session] == "" {
				cwd[a.Session] = at[a.ID].Cwd
			}
		case s.Compaction != nil:
			c := s.Compaction
			at[c.ID] = &Turn{ID: c.ID, Session: c.Session, Depth: depth(c.Parent) + 1, Compaction: true}
			parent[c.ID], tips[c.Session] = c.Parent, c.ID
		}
	}
	for _, id := range order {
		s := realSession{file: filepath.Base(name), agent: format.Name, folder: cwd[id]}
		for x := tips[id]; at[x] != nil; x = parent[x] {
			s.turns = append(s.turns, *at[x])
			if s.folder == "" {
				s.folder = cwd[at[x].Session]
			}
		}
		slices.Reverse(s.turns)
		if len(s.turns) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func (s *realSession) path() iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		for _, t := range s.turns {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// evidence is what a transcript shows of a file before a call, in records that no part of
// the rebuild reads.
type evidence struct {
	path    string
	content string
	diff    string // a unified diff from the content before, where the content is not there
}

// readEvidence reads the copies for the terminal: Claude Code's of whole reads and of files
// before an edit, Codex's diffs. For pi the results of whole reads are taken.
func readEvidence(t *testing.T, name string) map[string][]evidence {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]evidence)
	in := bufio.NewScanner(bytes.NewReader(b))
	in.Buffer(nil, 64<<20)
	paths := make(map[string]string) // of pi
	for in.Scan() {
		var x struct {
			Result  turns.Raw `json:"toolUseResult"`
			Payload turns.Raw `json:"payload"`
			Message struct {
				Role    turns.Raw `json:"role"`
				Call    turns.Raw `json:"toolCallId"`
				Content turns.Raw `json:"content"`
			} `json:"message"`
		}
		if json.Unmarshal(in.Bytes(), &x) != nil {
			continue
		}
		var blocks []struct {
			Type      turns.Raw `json:"type"`
			Of        string    `json:"tool_use_id"`
			ID        string    `json:"id"`
			Name      string    `json:"name"`
			Text      string    `json:"text"`
			Arguments struct {
				Path   string    `json:"path"`
				Offset turns.Raw `json:"offset"`
				Limit  turns.Raw `json:"limit"`
			} `json:"arguments"`
		}
		_ = json.Unmarshal(x.Message.Content, &blocks)
		for _, p := range blocks {
			if p.Name == "read" && p.Arguments.Offset == nil && p.Arguments.Limit == nil {
				paths[p.ID] = p.Arguments.Path
			}
			var r struct {
				Path     string  `json:"filePath"`
				Original *string `json:"originalFile"`
				File     struct {
					Path    string `json:"filePath"`
					Content string `json:"content"`
					Start   int    `json:"startLine"`
					Lines   int    `json:"numLines"`
					All     int    `json:"totalLines"`
				} `json:"file"`
			}
			if p.Of == "" || json.Unmarshal(x.Result, &r) != nil {
				continue
			}
			switch {
			case r.Original != nil:
				out[p.Of] = append(out[p.Of], evidence{path: r.Path, content: *r.Original})
			case r.File.Path != "" && r.File.Start == 1 && r.File.Lines == r.File.All:
				out[p.Of] = append(out[p.Of], evidence{path: r.File.Path, content: r.File.Content})
			}
		}
		if id, _ := x.Message.Call.Text(); paths[id] != "" && len(blocks) == 1 && !strings.Contains(blocks[0].Text, "Use offset=") && !strings.Contains(blocks[0].Text, "ENOENT") {
			out[id] = append(out[id], evidence{path: paths[id], content: blocks[0].Text})
		}
		var patch struct {
			Type    string `json:"type"`
			Call    string `json:"call_id"`
			Changes map[string]struct {
				Diff string `json:"unified_diff"`
			} `json:"changes"`
		}
		if json.Unmarshal(x.Payload, &patch) == nil && patch.Type == "patch_apply_end" {
			for p, c := range patch.Changes {
				if c.Diff != "" {
					out[patch.Call] = append(out[patch.Call], evidence{path: p, diff: c.Diff})
				}
			}
		}
	}
	return out
}

var hunkHead = regexp.MustCompile(`^@@ -([0-9]+)`)

// agrees reports whether a file can have been as the evidence says.
func (e evidence) agrees(text string) bool {
	if e.diff == "" {
		return text == e.content
	}
	lines, at := strings.Split(text, "\n"), 0
	for l := range strings.SplitSeq(strings.TrimSuffix(e.diff, "\n"), "\n") {
		if m := hunkHead.FindStringSubmatch(l); m != nil {
			at, _ = strconv.Atoi(m[1])
			at--
			continue
		}
		if l == "" || l[0] == '+' || l[0] == '\\' {
			continue
		}
		if at < 0 || at >= len(lines) || lines[at] != l[1:] {
			return false
		}
		at++
	}
	return true
}

// tally counts, over the sessions of an agent.
type tally struct {
	sessions, turns, exact, recorded, partial, unknown, none int
	files                                                    map[Status]int
	why                                                      map[Reason]int
	checked, equal                                           map[Status]int
}

// The rebuilt files of all real transcripts, compared with what later calls show in records
// that the rebuild does not read: a file that is called exact has that content.
func TestRealTranscriptsShowWhatIsCalledExact(t *testing.T) {
	data := filepath.Join("..", "..", "..", "..", "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		t.Skip("real transcripts are not beside the project (../shared/data)")
	}
	for _, file := range []bool{false, true} {
		t.Run(fmt.Sprintf("with the transcript's file: %v", file), func(t *testing.T) { checkReal(t, data, file) })
	}
}

// checkReal rebuilds all; with the originals of Claude Code's files if file.
func checkReal(t *testing.T, data string, file bool) {
	all := make(map[string]*tally)
	err := filepath.WalkDir(data, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".jsonl") && !strings.HasSuffix(name, ".json") || strings.Contains(name, "metadata") || strings.Contains(name, "model-tables") || strings.Contains(name, "locomo") || strings.Contains(name, "tau-bench") {
			return err
		}
		seen := make(map[turns.ID]bool)
		var ev map[string][]evidence
		for _, s := range readSessions(t, name) {
			if ev == nil {
				ev = readEvidence(t, name)
			}
			n := all[s.agent]
			if n == nil {
				n = &tally{files: make(map[Status]int), why: make(map[Reason]int), checked: make(map[Status]int), equal: make(map[Status]int)}
				all[s.agent] = n
			}
			n.sessions++
			o := Options{Agent: s.agent, Folder: s.folder}
			if o.Folder == "" { // Gemini CLI names no folder
				o.Folder = "/Users"
			}
			if file && s.agent == "claude-code" {
				o.Originals = originalsOf(t, name)
			}
			o.observe = func(c *call, r *rebuilder) {
				for _, e := range ev[c.id] {
					p, why := inside(o.Folder, c.cwd, e.path)
					f := r.files[p]
					if why != "" || f == nil || seen[turns.DeriveID(turns.ID{}.Time(), "check", c.id, p)] {
						continue
					}
					seen[turns.DeriveID(turns.ID{}.Time(), "check", c.id, p)] = true
					n.checked[f.Status]++
					if f.Status != Unknown && !f.Deleted && e.agrees(f.Content) {
						n.equal[f.Status]++
					} else if f.Status == Exact {
						t.Errorf("%s: before call %s, %s was called exact since @%d and is not: %s", s.file, c.id, p, f.Since, firstDifference(f.Content, e.content))
					}
				}
			}
			for st, err := range Walk(s.path(), o) {
				if err != nil {
					t.Fatal(err)
				}
				if st.Turn.Compaction || seen[st.Turn.ID] {
					continue
				}
				seen[st.Turn.ID] = true
				n.turns++
				c := st.Count()
				switch {
				case len(c) == 0:
					n.none++
				case c[Unknown] == 0 && c[Recorded] == 0:
					n.exact++
				case c[Unknown] == 0:
					n.recorded++
				case c[Exact]+c[Recorded] > 0:
					n.partial++
				default:
					n.unknown++
				}
				if st.Turn.ID == s.turns[len(s.turns)-1].ID {
					for _, f := range st.Files() {
						n.files[f.Status]++
						n.why[f.Why]++
						if *show != "" && strings.Contains(s.file, *show) {
							t.Logf("%s %v", s.file, f)
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range slices.Sorted(maps.Keys(all)) {
		n := all[agent]
		t.Logf("%s: %d sessions, %d turns: exact %d, as recorded %d, partial %d, unknown %d, no file named %d; files at the end %v, because %v; compared with later calls %v, equal %v",
			agent, n.sessions, n.turns, n.exact, n.recorded, n.partial, n.unknown, n.none, n.files, n.why, n.checked, n.equal)
	}
	if n := all["claude-code"]; n == nil || n.checked[Exact] < 50 {
		t.Error("too few comparisons to show something")
	}
}

func originalsOf(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := ReadOriginals(f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func firstDifference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	cut := func(s string) string { return s[max(0, min(len(s), i-40)):min(len(s), i+40)] }
	return fmt.Sprintf("at byte %d of %d and %d: %q, and %q", i, len(a), len(b), cut(a), cut(b))
}
