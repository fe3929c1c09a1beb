package formats

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/internal/plain"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// formatOf returns a format by its name.
func formatOf(t testing.TB, name string) transcript.Format {
	t.Helper()
	fs := All()
	i := slices.IndexFunc(fs, func(f transcript.Format) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("no format %q", name)
	}
	return fs[i]
}

// pathOf returns the turns and compactions on the way to the last turn of a session among
// steps, through its forks.
func pathOf(steps []transcript.Step, session turns.ID) (out []transcript.WrittenTurn) {
	parent, own := make(map[turns.ID]turns.ID), make(map[turns.ID]transcript.WrittenTurn)
	after := make(map[turns.ID]turns.ID) // a turn → the compaction after it that no turn names as its parent
	var tip turns.ID
	for _, s := range steps {
		switch {
		case s.Append != nil:
			a := s.Append
			parent[a.ID], own[a.ID] = a.Parent, transcript.WrittenTurn{ID: a.ID, Time: a.Time, Model: a.Model, Messages: a.Messages, Response: a.Response, Usage: a.Usage}
			if a.Session == session {
				tip = a.ID
			}
		case s.Compaction != nil && s.Compaction.Summary != "":
			k := s.Compaction
			parent[k.ID], own[k.ID] = k.Parent, transcript.WrittenTurn{ID: k.ID, Time: k.Time, Compaction: true, Summary: k.Summary, Automatic: k.Trigger == "threshold", TokensBefore: k.TokensBefore, FirstKept: k.FirstKept}
			after[k.Parent] = k.ID
			if k.Session == session {
				tip = k.ID
			}
		case s.Compaction != nil: // no summary: a transcript has nothing to write
			parent[s.Compaction.ID] = s.Compaction.Parent
			if s.Compaction.Session == session {
				tip = s.Compaction.ID
			}
		case s.Fork != nil && s.Fork.ID == session:
			tip = s.Fork.At.Turn
		}
	}
	added := make(map[turns.ID]bool)
	for at := tip; !at.IsZero(); at = parent[at] {
		for _, id := range []turns.ID{after[at], at} {
			if t, ok := own[id]; ok && !added[id] {
				out, added[id] = append(out, t), true
			}
		}
	}
	slices.Reverse(out)
	return out
}

// write writes turns in a format.
func write(t testing.TB, format string, s transcript.WrittenSession, path []transcript.WrittenTurn) []byte {
	t.Helper()
	w, ok := NewWriter(format, s)
	if !ok {
		t.Fatalf("no writer for %q", format)
	}
	var out bytes.Buffer
	put := func(lines [][]byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if bytes.ContainsRune(l, '\n') {
				t.Fatalf("a line holds a line break: %.200s", l)
			}
			out.Write(append(l, '\n'))
		}
	}
	for _, x := range path {
		put(w.Turn(x))
	}
	put(w.End())
	return out.Bytes()
}

// pathContent returns what the turns of a path say, in order: what a format can't tell apart is the
// same.
func pathContent(path []transcript.WrittenTurn, format string) (out []string) {
	switch path = slices.Clone(path); format {
	case "codex":
		path = asOneResponse(path)
	case "pi":
		path = pendingAfterCompaction(path)
	}
	kinds := map[turns.PartType]int{turns.Reasoning: 0, turns.Text: 1, turns.Blob: 1, turns.URI: 1, turns.File: 1, turns.ToolCall: 2}
	open := make(map[string]bool) // calls of the response before
	for _, t := range path {
		if t.Compaction {
			if format == "gemini-cli" {
				out = append(out, "user: "+t.Summary)
			} else {
				out = append(out, "compaction: "+t.Summary)
			}
			continue
		}
		var results, others []string
		for _, m := range t.Messages {
			for i := range m.Parts {
				p := &m.Parts[i]
				if p.Type == turns.ToolCallResponse {
					text, pictures := plain.Result(p)
					if format == "codex" && len(pictures) > 0 {
						text = fmt.Sprint(len(pictures), " pictures")
					} else if len(pictures) > 0 && format == "pi" {
						text += fmt.Sprint(len(pictures), " pictures")
					} else if format == "gemini-cli" {
						text = plain.ResultText(p)
					}
					if format == "gemini-cli" && !open[p.ID] { // another response stands between; a chat has no place for it
						others = append(others, "user: "+values.OrphanText(p.ID)+"\n"+text)
						continue
					}
					results = append(results, "result "+p.ID+": "+text)
					continue
				}
				if text := plain.Text(p); text != "" {
					others = append(others, "user: "+text)
				}
			}
		}
		out = append(append(out, results...), others...)
		if t.Response == nil {
			continue
		}
		clear(open)
		for _, id := range t.Response.Calls(nil) {
			open[id] = true
		}
		parts := slices.Clone(t.Response.Parts)
		if format == "gemini-cli" {
			slices.SortStableFunc(parts, func(a, b turns.Part) int { return kinds[a.Type] - kinds[b.Type] })
		}
		for i := range parts {
			switch p := &parts[i]; p.Type {
			case turns.ToolCall:
				args := plain.Arguments(p)
				if format != "codex" {
					args = plain.Object(args)
				}
				out = append(out, "call "+p.ID+" "+p.Name+" "+string(compact(args)))
			case turns.Reasoning:
				if p.Content != "" || format == "claude-code" {
					out = append(out, "reasoning: "+p.Content)
				}
			default:
				if text := plain.Text(p); text != "" {
					out = append(out, "text: "+text)
				}
			}
		}
		usage := ""
		if u := t.Usage; u != nil && u.InputTokens+u.OutputTokens > 0 {
			usage = fmt.Sprint(u.InputTokens, " ", u.OutputTokens, " ", u.CacheRead)
		}
		out = append(out, "model "+t.Model+" "+usage)
	}
	return out
}

// asOneResponse returns a path as Codex tells it: responses without a message between them are
// one, of the first one's model, with the last usage. A model is in force until another is
// named.
func asOneResponse(path []transcript.WrittenTurn) (out []transcript.WrittenTurn) {
	model := ""
	for _, t := range path {
		if u := t.Usage; u != nil && u.InputTokens+u.OutputTokens == 0 {
			t.Usage = nil
		}
		model = cmp.Or(t.Model, model)
		t.Model = model
		empty := !slices.ContainsFunc(t.Messages, func(m turns.Message) bool { return len(m.Parts) > 0 })
		n := len(out) - 1
		switch {
		case n < 0 || t.Compaction || out[n].Compaction || !empty || out[n].Response == nil:
			out = append(out, t)
		case t.Response != nil:
			r := *out[n].Response
			r.Parts = slices.Concat(r.Parts, t.Response.Parts)
			out[n].Response = &r
			if t.Usage != nil {
				out[n].Usage = t.Usage
			}
		}
	}
	return out
}

// pendingAfterCompaction returns a path as our importer reads it from pi: messages without a
// response are of the next turn, also where a compaction stands between.
func pendingAfterCompaction(path []transcript.WrittenTurn) (out []transcript.WrittenTurn) {
	var pending []turns.Message
	for i, t := range path {
		switch {
		case t.Compaction:
		case t.Response == nil && i < len(path)-1:
			pending = append(pending, t.Messages...)
			continue
		default:
			t.Messages, pending = slices.Concat(pending, t.Messages), nil
		}
		out = append(out, t)
	}
	if pending != nil {
		out = append(out, transcript.WrittenTurn{Messages: pending})
	}
	return out
}

func compact(v turns.Raw) []byte {
	b, _ := turns.EncodeJSON(v)
	return b
}

// realTranscripts returns every transcript of an agent next to the project, by its format.
func realTranscripts(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	_ = filepath.WalkDir(transcripttest.Data(t), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".jsonl", ".json"}, filepath.Ext(name)) {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return nil
		}
		for _, f := range All()[:4] {
			if f.Sniff(b[:min(len(b), 64<<10)]) {
				out[name] = f.Name
				break
			}
		}
		return nil
	})
	if len(out) == 0 {
		t.Skip("real transcripts are not next to the project (../shared/data)")
	}
	return out
}

// Every real transcript of every agent, written for each agent and read by its importer,
// has the same turns and says the same.
func TestRealTranscriptsSurviveEachFormat(t *testing.T) {
	n, sessions := 0, 0
	for file, format := range realTranscripts(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, _ := transcripttest.ReadAll(t, formatOf(t, format).Open(bytes.NewReader(b), transcript.Options{Final: true, Copied: true}))
		seen := make(map[turns.ID]bool)
		for _, s := range steps {
			var id turns.ID
			switch {
			case s.Open != nil:
				id = s.Open.ID
			case s.Fork != nil:
				id = s.Fork.ID
			}
			if id.IsZero() || seen[id] {
				continue
			}
			seen[id] = true
			path := pathOf(steps, id)
			if len(path) == 0 {
				continue
			}
			sessions++
			for _, to := range []string{"codex", "pi", "gemini-cli"} {
				text := write(t, to, transcript.WrittenSession{ID: id, Time: path[0].Time, Cwd: "/home/dev/it", Branch: "main"}, path)
				f := formatOf(t, to)
				if !f.Sniff(text[:min(len(text), 64<<10)]) {
					t.Fatalf("%s as %s is not recognized: %.300s", file, to, text)
				}
				back, losses := transcripttest.ReadAll(t, f.Open(bytes.NewReader(text), transcript.Options{Final: true}))
				if len(back) == 0 || back[0].Open == nil {
					t.Errorf("%s as %s: nothing was read", file, to)
					continue
				}
				if d := gocmp.Diff(pathContent(transcript.Paired(path), to), pathContent(pathOf(back, back[0].Open.ID), to)); d != "" {
					t.Errorf("%s as %s (-written +read):\n%.1500s\n%.600s", filepath.Base(file), to, d, fmt.Sprint(losses))
				}
				n++
			}
		}
	}
	t.Logf("%d sessions, %d transcripts written and read", sessions, n)
}

// inventedPath is a path with everything that turns hold.
func inventedPath() []transcript.WrittenTurn {
	n := byte(0)
	turn := func(response *turns.Message, messages ...turns.Message) transcript.WrittenTurn {
		n++
		return transcript.WrittenTurn{ID: turns.ID{0: 1, 5: 1, 15: n}, Time: time.UnixMilli(1_700_000_000_000 + int64(n)*1000).UTC(), Model: "claude-opus-4-5", Messages: messages, Response: response,
			Usage: &turns.Usage{InputTokens: 100 + uint64(n), OutputTokens: uint64(n), CacheRead: 40}}
	}
	said := func(parts ...turns.Part) *turns.Message { return &turns.Message{Role: turns.Assistant, Parts: parts} }
	call := func(id, name, args string) turns.Part {
		return turns.Part{Type: turns.ToolCall, ID: id, Name: name, Arguments: turns.Raw(args)}
	}
	result := func(id string, response turns.Raw, failed bool) turns.Part {
		return turns.Part{Type: turns.ToolCallResponse, ID: id, Response: response, IsError: failed}
	}
	tool := func(parts ...turns.Part) turns.Message { return turns.Message{Role: turns.Tool, Parts: parts} }
	picture := turns.Part{Type: turns.Blob, MimeType: "image/png", Modality: "image", Data: []byte("\x89PNG")}
	path := []transcript.WrittenTurn{
		turn(said(turns.Part{Type: turns.Reasoning, Content: "A plan\nfirst look"}, turns.TextPart("I look."), call("a", "ls", `{"dir":"."}`), call("b", "cat", `{"file":"\u2028 \"x\""}`)), turns.TextMessage(turns.User, "what is <here>?\n\x1b[31m"), turns.Message{Role: turns.User, Parts: []turns.Part{turns.TextPart("and this?"), picture}}),
		turn(said(turns.TextPart("one file"), call("c", "shot", `{}`)), tool(result("a", turns.RawText("a\nb"), false)), tool(result("b", turns.RawText("no such file"), true))),
		turn(said(turns.TextPart("a picture")), tool(result("c", turns.Raw(`[{"type":"text","content":"seen"},{"type":"blob","mime_type":"image/png","modality":"image","content":"iVBORw0KGgo="}]`), false))),
		turn(said(turns.TextPart("done")), turns.TextMessage(turns.User, "go on")),
	}
	k := transcript.WrittenTurn{ID: turns.ID{0: 1, 5: 1, 15: 99}, Time: path[3].Time.Add(time.Second), Compaction: true, Summary: "all of it", Automatic: true, TokensBefore: 500, FirstKept: path[3].ID}
	after := turn(said(turns.TextPart("after")), turns.TextMessage(turns.User, "and then?"))
	pending := turn(nil, turns.TextMessage(turns.User, "still there?"))
	pending.Usage = nil
	return append(path, k, after, pending)
}

// A path of everything that turns hold, written for each agent and read by its importer, has
// the same turns and says the same. The head of an export says what it was written from, that
// of a transcript to go on with does not.
func TestInventedPathSurvivesEachFormat(t *testing.T) {
	path := inventedPath()
	for _, to := range []string{"codex", "pi", "gemini-cli"} {
		for n := 1; n <= len(path); n++ {
			s := transcript.WrittenSession{ID: turns.ID{0: 1, 5: 1, 15: 200}, Time: path[0].Time, Cwd: "/w/it", Branch: "main", Through: path[n-1].ID}
			f := formatOf(t, to)
			text := write(t, to, s, path[:n])
			if !f.Sniff(text[:min(len(text), 64<<10)]) {
				t.Fatalf("%s is not recognized: %.300s", to, text)
			}
			back, losses := transcripttest.ReadAll(t, f.Open(bytes.NewReader(text), transcript.Options{Final: true}))
			if len(back) == 0 || back[0].Open == nil {
				t.Fatalf("%s, %d turns: nothing was read", to, n)
			}
			if d := gocmp.Diff(pathContent(transcript.Paired(path[:n]), to), pathContent(pathOf(back, back[0].Open.ID), to)); d != "" {
				t.Errorf("%s, %d turns (-written +read):\n%s\n%v", to, n, d, losses)
			}
			if want := (turns.Ref{Session: s.ID, Turn: s.Through}); back[0].Open.Exported != want {
				t.Errorf("%s, %d turns: exported from %v", to, n, back[0].Open.Exported)
			}
			for _, l := range losses {
				if strings.Contains(l.Reason, "nexus") {
					t.Errorf("%s: %v", to, l)
				}
			}
			s.Through, s.Resumed = turns.ID{}, true
			back, _ = transcripttest.ReadAll(t, f.Open(bytes.NewReader(write(t, to, s, path[:n])), transcript.Options{Final: true}))
			if !back[0].Open.Exported.IsZero() {
				t.Errorf("%s: a transcript to go on with is an export", to)
			}
		}
	}
}

// A session without turns has its whole head.
func TestSessionWithoutTurnsHasItsHead(t *testing.T) {
	s := transcript.WrittenSession{ID: turns.ID{15: 1}, Time: time.UnixMilli(1), Cwd: "/w", Branch: "main", Commit: "abc"}
	text := string(write(t, "codex", s, nil))
	if !strings.Contains(text, `"git":{"commit_hash":"abc","branch":"main"}`) || strings.Count(text, "\n") != 1 {
		t.Error(text)
	}
	for _, format := range []string{"pi", "gemini-cli"} {
		if text := string(write(t, format, s, nil)); !strings.Contains(text, s.TranscriptID()) {
			t.Errorf("%s: %s", format, text)
		}
	}
}

// An answer that holds nothing, of a call that was interrupted, is a turn of its own in each
// export. An agent that goes on gets no empty answer from Codex's.
func TestEmptyAnswersSurviveEachFormat(t *testing.T) {
	path := inventedPath()[:4]
	path[3].Response, path[3].Usage = &turns.Message{Role: turns.Assistant, FinishReason: "aborted"}, nil
	path = append(path, inventedPath()[5])
	for _, to := range []string{"claude-code", "codex", "pi", "gemini-cli"} {
		s := transcript.WrittenSession{ID: turns.ID{0: 1, 5: 1, 15: 200}, Time: path[0].Time}
		back, _ := transcripttest.ReadAll(t, formatOf(t, to).Open(bytes.NewReader(write(t, to, s, path)), transcript.Options{Final: true}))
		read := pathOf(back, back[0].Open.ID)
		if len(read) != len(path) || read[3].Response == nil || partText(read[3].Response) != "" || len(read[4].Messages) != 1 {
			t.Errorf("%s: %d turns, the fourth %+v", to, len(read), read[min(3, len(read)-1)])
		}
		s.Resumed = true
		if text := string(write(t, to, s, path)); to == "codex" && strings.Contains(text, `"text":""`) {
			t.Errorf("an empty answer to go on from: %s", text)
		}
	}
}

// partText is what the parts of a message say.
func partText(m *turns.Message) (s string) {
	for i := range m.Parts {
		s += plain.Text(&m.Parts[i])
	}
	return s
}

// A session's title is in its transcript, and is read from there; a title changes no turn.
func TestTitleSurvivesEachFormatThatHasOne(t *testing.T) {
	path := inventedPath()
	for _, format := range []string{"claude-code", "codex", "pi"} {
		s := transcript.WrittenSession{ID: turns.ID{0: 1, 5: 1, 15: 200}, Time: path[0].Time}
		plain, _ := transcripttest.ReadAll(t, formatOf(t, format).Open(bytes.NewReader(write(t, format, s, path)), transcript.Options{Final: true}))
		s.Title = `Fix the "sync"`
		r := formatOf(t, format).Open(bytes.NewReader(write(t, format, s, path)), transcript.Options{Final: true})
		steps, losses := transcripttest.ReadAll(t, r)
		if got := slices.Collect(maps.Values(r.Titles())); !slices.Equal(got, []string{s.Title}) {
			t.Errorf("%s: titles %q", format, got)
		}
		if d := gocmp.Diff(plain, steps); d != "" {
			t.Errorf("%s: a title changes the steps (-without +with):\n%s\n%v", format, d, losses)
		}
	}
}

// Reasoning that a provider signed goes to that provider only, in every format.
func TestSignedReasoningGoesToItsOwnProvider(t *testing.T) {
	signed := map[string]turns.Part{
		"anthropic": {Type: turns.Reasoning, Content: "hm", Ext: turns.Raw(`{"anthropic":{"signature":"SIGNED"}}`)},
		"openai":    {Type: turns.Reasoning, Content: "hm", Ext: turns.Raw(`{"openai":{"item":{"type":"reasoning","summary":[],"encrypted_content":"SIGNED"}}}`)},
		"gemini":    {Type: turns.Reasoning, Content: "hm", Ext: turns.Raw(`{"gemini":{"thoughtSignature":"SIGNED"}}`)},
	}
	models := map[string]string{"anthropic": "claude-opus-4-5", "openai": "gpt-5", "gemini": "gemini-2.5-pro"}
	for by, part := range signed {
		for _, format := range Written() {
			for of, model := range models {
				path := []transcript.WrittenTurn{{ID: turns.ID{15: 1}, Time: time.UnixMilli(1), Model: model, Messages: []turns.Message{turns.TextMessage(turns.User, "q")},
					Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{part, turns.TextPart("a")}}}}
				text := string(write(t, format, transcript.WrittenSession{ID: turns.ID{15: 9}, Resumed: true}, path))
				want := map[string]bool{"claude-code": by == "anthropic", "codex": by == "openai", "pi": by == of, "gemini-cli": false}[format]
				if got := strings.Contains(text, "SIGNED"); got != want {
					t.Errorf("%s, signed by %s, model of %s: signature is there: %v", format, by, of, got)
				}
			}
		}
	}
}

// A picture in a tool's result is in the transcript, or described where the format has no
// place for it. A result that is a picture alone is not empty.
func TestPictureOfAResultIsThereOrDescribed(t *testing.T) {
	result := turns.Part{Type: turns.ToolCallResponse, ID: "c", Response: turns.Raw(`[{"type":"blob","mime_type":"image/png","modality":"image","content":"iVBORw0KGgo="}]`)}
	call := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c", Name: "shot", Arguments: turns.Raw(`{}`)}}}
	answer := turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart("seen")}}
	path := []transcript.WrittenTurn{
		{ID: turns.ID{15: 1}, Time: time.UnixMilli(1), Messages: []turns.Message{turns.TextMessage(turns.User, "q")}, Response: &call},
		{ID: turns.ID{15: 2}, Time: time.UnixMilli(2), Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{result}}}, Response: &answer},
	}
	_, pictures := plain.Result(&result)
	if len(pictures) != 1 {
		t.Fatalf("%d pictures", len(pictures))
	}
	for _, format := range Written() {
		text := string(write(t, format, transcript.WrittenSession{ID: turns.ID{15: 9}}, path))
		if !strings.Contains(text, "iVBORw0KGgo=") && !strings.Contains(text, plain.Text(&pictures[0])) {
			t.Errorf("%s has no trace of the picture:\n%s", format, text)
		}
	}
	kept := plain.KeptText([]turns.Message{{Role: turns.Tool, Parts: []turns.Part{result}}})
	if !strings.Contains(kept, plain.Text(&pictures[0])) {
		t.Errorf("what was kept has no trace of the picture: %q", kept)
	}
}

// What a compaction kept is in the transcript that an agent goes on with: Codex drops all
// that is before it, and so does Claude Code.
func TestCompactionOfAResumedTranscriptHasWhatWasKept(t *testing.T) {
	k := transcript.WrittenTurn{ID: turns.ID{15: 2}, Time: time.UnixMilli(2), Compaction: true, Summary: "the story", FirstKept: turns.ID{15: 1},
		Kept: []turns.Message{turns.TextMessage(turns.User, "kept words"), {Role: turns.Assistant, Parts: []turns.Part{turns.TextPart("kept answer"), {Type: turns.ToolCall, ID: "c", Name: "ls", Arguments: turns.Raw(`{}`)}}}}}
	before := transcript.WrittenTurn{ID: turns.ID{15: 1}, Time: time.UnixMilli(1), Messages: k.Kept[:1], Response: &k.Kept[1]}
	for _, format := range Written() {
		text := string(write(t, format, transcript.WrittenSession{ID: turns.ID{15: 9}, Resumed: true}, []transcript.WrittenTurn{before, k}))
		want := map[string]int{"claude-code": 2, "codex": 3, "pi": 1, "gemini-cli": 1}[format] // codex: the event too
		if got := strings.Count(text, "kept words"); got != want {
			t.Errorf("%s: %d times:\n%s", format, got, text)
		}
	}
}
