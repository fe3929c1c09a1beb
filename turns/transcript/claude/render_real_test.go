package claude

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/render"
	"nexus/turns/render/strict"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// realData is a file or folder of real transcripts next to the project.
func realData(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(transcripttest.Data(t), name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no real transcripts next to the project: %v", err)
	}
	return path
}

// Every root path of every real Claude Code transcript, as one context, is a
// valid request in both formats, with each signed thinking block in it. The
// paths are histories before any compaction, so sizes are no matter here.
func TestRenderRealClaudeCode(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(realData(t, "."), "claude-code-*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Skipf("no real transcripts next to the project: %d files, %v", len(files), err)
	}
	var paths, unpaired, signatures int
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, ms := range claudePaths(t, b) {
			paths++
			r, err := render.Anthropic(nil, nil, ms)
			if errors.Is(err, render.ErrUnpaired) { // abandoned calls: the context builder closes them
				unpaired++
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			checkReal(t, file, strict.Anthropic(r.System, transcripttest.Joined(r.Messages), strict.OpenCalls))
			signatures += strings.Count(string(transcripttest.Joined(r.Messages)), `"type":"thinking"`)
			o, err := render.OpenAI(nil, nil, ms)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			checkReal(t, file, strict.OpenAI(transcripttest.Joined(o.Messages), strict.OpenCalls))
		}
	}
	if signatures == 0 || unpaired*2 > paths {
		t.Errorf("%d paths, %d unpaired, %d thinking blocks: too few were checked", paths, unpaired, signatures)
	}
	t.Logf("%d paths, %d of them with abandoned calls, %d thinking blocks", paths, unpaired, signatures)
}

func checkReal(t *testing.T, file string, err error) {
	t.Helper()
	if v := (*strict.Violation)(nil); errors.As(err, &v) && v.Rule == strict.Size {
		return
	}
	if err != nil {
		t.Errorf("%s: %v", filepath.Base(file), err)
	}
}

// claudePaths are the messages from the root to each leaf of a transcript.
func claudePaths(t *testing.T, b []byte) [][]turns.Message {
	t.Helper()
	messages := make(map[turns.ID][]turns.Message)
	parent := make(map[turns.ID]turns.ID)
	inner := make(map[turns.ID]bool)
	for s, err := range Read(strings.NewReader(string(b)), transcript.Options{Final: true}).Steps() {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case s.Append != nil:
			ms := s.Append.Messages
			if s.Append.Response != nil {
				ms = append(ms, *s.Append.Response)
			}
			messages[s.Append.ID], parent[s.Append.ID], inner[s.Append.Parent] = ms, s.Append.Parent, true
		case s.Compaction != nil:
			parent[s.Compaction.ID], inner[s.Compaction.Parent] = s.Compaction.Parent, true
		}
	}
	var paths [][]turns.Message
	for id := range parent {
		if inner[id] {
			continue
		}
		var path []turns.Message
		for ; !id.IsZero(); id = parent[id] {
			path = append(append([]turns.Message(nil), messages[id]...), path...)
		}
		paths = append(paths, path)
	}
	return paths
}

// Real trajectories read, render for both providers and read back the same.
func TestRenderRealTauBench(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(realData(t, "tau-bench"), "gpt-4o-airline.tasks-00-24.json"))
	if err != nil {
		t.Fatal(err)
	}
	var runs []struct {
		Traj jsontext.Value `json:"traj"`
	}
	if err := json.Unmarshal(b, &runs); err != nil {
		t.Fatal(err)
	}
	messages := 0
	for i, run := range runs {
		ms, err := render.FromOpenAI(run.Traj)
		if err != nil {
			t.Fatalf("trajectory %d: %v", i, err)
		}
		messages += len(ms)
		o, err := render.OpenAI(nil, nil, ms)
		if err != nil {
			t.Fatalf("trajectory %d: %v", i, err)
		}
		if err := strict.OpenAI(transcripttest.Joined(o.Messages)); err != nil {
			t.Errorf("trajectory %d: %v", i, err)
		}
		back, err := render.FromOpenAI(transcripttest.Joined(o.Messages))
		for j := range ms {
			for k := range ms[j].Parts {
				if p := &ms[j].Parts[k]; p.Type == turns.ToolCallResponse {
					p.Name = "" // has no place in a rendered tool message
				}
			}
		}
		// These ids repeat within a trajectory; a rendered request has each once.
		ids := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".ID" }, cmp.Ignore())
		if diff := cmp.Diff(ms, back, ids); diff != "" || err != nil {
			t.Errorf("trajectory %d read back: %v\n%s", i, err, diff)
		}
		a, err := render.Anthropic(nil, nil, ms)
		if err != nil {
			t.Fatalf("trajectory %d: %v", i, err)
		}
		if err := strict.Anthropic(a.System, transcripttest.Joined(a.Messages)); err != nil {
			t.Errorf("trajectory %d: %v", i, err)
		}
	}
	t.Logf("%d trajectories, %d messages", len(runs), messages)
}
