package strict_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns/render/strict"
)

// data is a folder of real transcripts beside the checkout; the test is
// skipped where it is absent.
func data(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, "..", "shared", "data", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no real transcripts: %v", err)
	}
	return path
}

func read(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Requests that servers answered pass. The recordings are YAML; a request's
// body is one line in single quotes.
func TestRecordedCassettes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(data(t, "http-cassettes-docker-agent"), "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	checked := make(map[string]int)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var body string
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSpace(line)
			if s, ok := strings.CutPrefix(line, "body: '"); ok {
				body = strings.ReplaceAll(strings.TrimSuffix(s, "'"), "''", "'")
			} else if strings.HasPrefix(line, `{"contents":`) { // a body of its own line
				body = line
			}
			url, ok := strings.CutPrefix(line, "url: ")
			if !ok || body == "" {
				continue
			}
			var req struct {
				System   jsontext.Value `json:"system"`
				Messages jsontext.Value `json:"messages"`
				Contents jsontext.Value `json:"contents"`
			}
			if err := json.Unmarshal([]byte(body), &req); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			body = ""
			switch {
			case strings.HasSuffix(url, "/v1/messages"):
				checked["anthropic"]++
				err = strict.Anthropic(req.System, req.Messages)
			case strings.HasSuffix(url, "/chat/completions"):
				checked["openai"]++
				err = strict.OpenAI(req.Messages)
			case strings.Contains(url, "GenerateContent"):
				// This server took three contents of the user's in a row, which others
				// of Google's refused: the strict reading is the rule.
				checked["gemini"]++
				if err = strict.Gemini(nil, req.Contents); err == nil || !strings.Contains(err.Error(), `rule "alternation"`) {
					t.Errorf("%s: %v", filepath.Base(file), err)
				}
				err = nil
			}
			if err != nil {
				t.Errorf("%s %s: %v", filepath.Base(file), url, err)
			}
		}
	}
	if checked["anthropic"] < 4 || checked["openai"] < 8 || checked["gemini"] < 2 {
		t.Errorf("checked %v: the recordings have more", checked)
	}
	t.Logf("checked %v requests", checked)
}

func TestRecordedOpenHands(t *testing.T) {
	dir := data(t, "openhands/llm_data")
	files, err := filepath.Glob(filepath.Join(dir, "llm-logs", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d logs, %v", len(files), err)
	}
	for _, file := range files {
		var req struct {
			Messages jsontext.Value `json:"messages"`
		}
		read(t, file, &req)
		if err := strict.OpenAI(req.Messages); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
	var messages jsontext.Value
	read(t, filepath.Join(dir, "fncall-llm-message.json"), &messages)
	if err := strict.OpenAI(messages); err != nil {
		t.Error(err)
	}
}

// Each trajectory ends after its last request; every prefix that ends where
// the model was asked was a request too.
func TestRecordedTauBench(t *testing.T) {
	var runs []struct {
		Trial int              `json:"trial"`
		Task  int              `json:"task_id"`
		Traj  []jsontext.Value `json:"traj"`
	}
	read(t, filepath.Join(data(t, "tau-bench"), "gpt-4o-airline.tasks-00-24.json"), &runs)
	requests := 0
	for _, r := range runs {
		for i, m := range r.Traj {
			var head struct {
				Role  string         `json:"role"`
				Calls jsontext.Value `json:"tool_calls"`
			}
			if err := json.Unmarshal(m, &head); err != nil {
				t.Fatal(err)
			}
			if head.Role != "assistant" && i+1 < len(r.Traj) {
				continue
			}
			requests++
			list, err := json.Marshal(r.Traj[:i+1])
			if err != nil {
				t.Fatal(err)
			}
			var opts []strict.Option
			if head.Calls != nil {
				opts = append(opts, strict.OpenCalls)
			}
			if err := strict.OpenAI(list, opts...); err != nil {
				t.Errorf("%s: %v", fmt.Sprintf("task %d trial %d message %d", r.Task, r.Trial, i), err)
			}
		}
	}
	t.Logf("%d trajectories, %d prefixes", len(runs), requests)
}
