package main

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/ledger/api"
	"nexus/turns/tokens"
)

// rawUsage is what this test's own reading of transcripts finds: tokens by kind, and
// dollars.
type rawUsage struct {
	input, read, written, hour, output, reasoning uint64
	recorded                                      float64
	model                                         string
}

// rawPrices are dollars for a million tokens, written here again: input, output, read
// from the cache, written to it, written for an hour.
var rawPrices = map[string][5]float64{
	"claude-opus-4-5-20251101": {5, 25, 0.5, 6.25, 10}, "claude-opus-4-7": {5, 25, 0.5, 6.25, 10}, "claude-opus-4-8": {5, 25, 0.5, 6.25, 10},
	"claude-sonnet-4-5-20250929": {3, 15, 0.3, 3.75, 6}, "gpt-5.4": {2.5, 15, 0.25, 0, 0}, "gpt-5.5": {5, 30, 0.5, 0, 0}, "gemini-2.5-flash": {0.3, 2.5, 0.03, 0, 0},
}

// rawLong are the tokens of input above which a call costs more. Those of Codex are read as
// sums of a thread, none of whose calls is that long.
var rawLong = map[string]uint64{"claude-sonnet-4-5-20250929": 200_000}

func (u rawUsage) dollars(t *testing.T) float64 {
	if u.recorded > 0 {
		return u.recorded
	}
	p, ok := rawPrices[u.model]
	if !ok {
		t.Fatalf("no price of %q", u.model)
	}
	if above := rawLong[u.model]; above > 0 && u.input+u.read+u.written > above {
		p = [5]float64{2 * p[0], 1.5 * p[1], 2 * p[2], 2 * p[3], 2 * p[4]}
	}
	return (float64(u.input)*p[0] + float64(u.output)*p[1] + float64(u.read)*p[2] + float64(u.written-u.hour)*p[3] + float64(u.hour)*p[4]) / 1e6
}

// rawObjects calls f with each JSON object of a file. A line may hold two.
func rawObjects(t *testing.T, name string, f func(o map[string]any)) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(bytes.NewReader(b))
	for {
		line, err := lines.ReadBytes('\n')
		d := jsontext.NewDecoder(bytes.NewReader(line))
		for {
			v, err := d.ReadValue()
			if err != nil {
				break
			}
			var o map[string]any
			if json.Unmarshal(v, &o) == nil {
				f(o)
			}
		}
		if err == io.EOF {
			return
		}
	}
}

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }
func text(v any) string           { s, _ := v.(string); return s }
func count(v any) uint64          { n, _ := v.(float64); return uint64(n) }

// rawClaude reads usage once for each id of a message, in all files together: that of its
// last line. Of copies of one file at several ages, the newest says the most.
func rawClaude(t *testing.T, files []string) (out []rawUsage) {
	byID := make(map[string]rawUsage)
	for _, name := range files {
		here, lines := make(map[string]rawUsage), make(map[string]bool)
		rawObjects(t, name, func(o map[string]any) {
			m := object(o["message"])
			u := object(m["usage"])
			if text(o["type"]) != "assistant" || u == nil || text(m["model"]) == "<synthetic>" || lines[text(o["uuid"])] {
				return
			}
			lines[text(o["uuid"])] = true
			here[text(m["id"])] = rawUsage{input: count(u["input_tokens"]), read: count(u["cache_read_input_tokens"]), written: count(u["cache_creation_input_tokens"]),
				hour: count(object(u["cache_creation"])["ephemeral_1h_input_tokens"]), output: count(u["output_tokens"]), model: text(m["model"])}
		})
		for id, u := range here {
			u.output = max(u.output, byID[id].output)
			byID[id] = u
		}
	}
	for _, u := range byID {
		out = append(out, u)
	}
	return out
}

// rawCodex takes the cumulative counts of a thread, and of a fork those since it parted
// from the thread whose counts it begins with.
func rawCodex(t *testing.T, files []string) (out []rawUsage) {
	type thread struct {
		parent, model string
		counts        []map[string]any
	}
	threads := make(map[string]*thread)
	for _, name := range files {
		var h *thread
		rawObjects(t, name, func(o map[string]any) {
			p := object(o["payload"])
			switch {
			case text(o["type"]) == "session_meta" && h == nil:
				h = &thread{parent: text(p["forked_from_id"])}
				threads[text(p["id"])] = h
			case text(o["type"]) == "turn_context":
				h.model = text(p["model"])
			case text(p["type"]) == "token_count":
				if total := object(object(p["info"])["total_token_usage"]); total != nil {
					h.counts = append(h.counts, total)
				}
			}
		})
	}
	for id, h := range threads {
		had := make(map[string]any)
		if h.parent != "" {
			all := make(map[uint64]bool)
			for _, c := range threads[h.parent].counts {
				all[count(c["total_tokens"])] = true
			}
			for _, c := range h.counts {
				if all[count(c["total_tokens"])] {
					had = c
				}
			}
			if len(had) == 0 {
				t.Fatalf("thread %s shares no count with the one that it was forked from", id)
			}
		}
		last := h.counts[len(h.counts)-1]
		since := func(kind string) uint64 { return count(last[kind]) - count(had[kind]) }
		out = append(out, rawUsage{input: since("input_tokens") - since("cached_input_tokens"), read: since("cached_input_tokens"), output: since("output_tokens"),
			reasoning: since("reasoning_output_tokens"), model: h.model})
	}
	return out
}

func rawPi(t *testing.T, files []string) (out []rawUsage) {
	for _, name := range files {
		rawObjects(t, name, func(o map[string]any) {
			u := object(object(o["message"])["usage"])
			if u == nil || count(u["totalTokens"]) == 0 { // a call that was given up at once
				return
			}
			total, _ := object(u["cost"])["total"].(float64)
			out = append(out, rawUsage{input: count(u["input"]), read: count(u["cacheRead"]), written: count(u["cacheWrite"]), output: count(u["output"]), recorded: total})
		})
	}
	return out
}

// rawGemini reads usage once for each id of a message: the files are copies of one session.
func rawGemini(t *testing.T, files []string) (out []rawUsage) {
	byID := make(map[string]rawUsage)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var chat map[string]any
		if err := json.Unmarshal(b, &chat); err != nil {
			t.Fatal(err)
		}
		for _, v := range chat["messages"].([]any) {
			m := object(v)
			if u := object(m["tokens"]); u != nil {
				byID[text(m["id"])] = rawUsage{input: count(u["input"]) + count(u["tool"]) - count(u["cached"]), read: count(u["cached"]), output: count(u["output"]) + count(u["thoughts"]),
					reasoning: count(u["thoughts"]), model: text(m["model"])}
			}
		}
	}
	for _, u := range byID {
		out = append(out, u)
	}
	return out
}

// What the ledger says of real transcripts is what their own records add up to: each kind
// of token exactly, dollars to the cent. The records are read here a second time, by
// another and simpler way.
func TestCostsOfRealTranscriptsAreThoseOfTheirRecords(t *testing.T) {
	data := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		t.Skip("real transcripts are not beside the project (../shared/data)")
	}
	for _, tc := range []struct {
		source string
		files  []string // folders and a pattern of names
		raw    func(*testing.T, []string) []rawUsage
	}{
		{source: "claude-code", files: []string{"claude-code-entire-cli/*.jsonl", "claude-code-git-sync/*.jsonl"}, raw: rawClaude},
		{source: "codex", files: []string{"codex-git-sync/*.jsonl"}, raw: rawCodex},
		{source: "pi", files: []string{"pi/*.jsonl"}, raw: rawPi},
		{source: "gemini-cli", files: []string{"gemini-cli-entire-cli/*.json"}, raw: rawGemini},
	} {
		t.Run(tc.source, func(t *testing.T) {
			var args, files []string
			for _, pattern := range tc.files {
				names, err := filepath.Glob(filepath.Join(data, pattern))
				if err != nil {
					t.Fatal(err)
				}
				args = append(args, names...)
			}
			args = slices.DeleteFunc(args, func(n string) bool { return strings.HasSuffix(n, ".metadata.json") })
			found, _, err := transcriptfile.Find(args)
			if err != nil {
				t.Fatal(err)
			}
			c := testLedger(t)
			im := transcripts.Importer{Client: c, Format: "auto", Final: true}
			for i, o := range im.Files(t.Context(), found) {
				if o.Err != nil {
					t.Fatalf("%s: %v", found[i].Name, o.Err)
				}
				files = append(files, found[i].Name)
				for _, l := range o.Report.Losses {
					if l.Usage != nil {
						t.Errorf("%s: %s: %+v", found[i].Name, l.Reason, *l.Usage)
					}
				}
			}
			sum := cost.NewSum(cost.Options{By: []cost.Key{cost.BySource}, Models: tokens.KnownModels()})
			met, calls := cost.Read(t.Context(), c.As(api.Operator), cost.Scope{})
			for call, err := range calls {
				if err != nil {
					t.Fatal(err)
				}
				sum.Add(call)
			}
			var want cost.Tokens
			var dollars float64
			for _, u := range tc.raw(t, files) {
				want.Input += u.input
				want.CacheRead += u.read
				want.CacheWrite += u.written
				want.CacheHour += u.hour
				want.Output += u.output
				want.Reasoning += u.reasoning
				dollars += u.dollars(t)
			}
			got := sum.Total()
			if got.Tokens != want || want.All() == 0 {
				t.Errorf("tokens %+v, the records have %+v", got.Tokens, want)
			}
			if all, recorded, _ := got.Micros(); math.Abs(float64(all)/1e6-dollars) >= 0.005 || tc.source == "pi" && recorded != all {
				t.Errorf("$%.4f, of the records $%.4f; $%.4f recorded", float64(all)/1e6, dollars, float64(recorded)/1e6)
			}
			if rows := sum.Rows(); len(rows) != 1 || rows[0].Source != tc.source || got.Unpriced > 0 || met.Unread+met.Branches > 0 {
				t.Errorf("rows %+v, not read %+v", rows, met)
			}
			t.Logf("%d files: %d calls, %d tokens, $%.2f, at least: %v", len(files), got.Calls, want.All(), dollars, got.IsLowerBound())
		})
	}
}
