package comparison

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"iter"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/quickstart"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/compactor/compare"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/claude"
)

// A replay does what a daemon does for an agent that appends what it sends, asks
// for the context and appends the answer: the same compactions, at the same
// calls, and contexts of the same size. Where there is a memory flush, the agent
// has made it by then: a replay makes none, and none of its compactions waits.
func TestNXS11ReplayIsWhatADaemonDoes(t *testing.T) {
	const window = 20_000
	paths, err := longestPaths(claude.Read(bytes.NewReader(quickstart.Transcript), transcript.Options{Final: true}).Steps())
	if err != nil {
		t.Fatal(err)
	}
	e := &terminal.Terminal{Out: io.Discard, Err: io.Discard}
	c, stop, err := local.Start(t.Context(), e, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, name := range policy.Names() {
		x, err := New([]string{name}, window)
		if err != nil {
			t.Fatal(err)
		}
		if x.Policies[0].Mode == policy.Manual {
			continue
		}
		x.Policies[0].Mode = policy.BeforeCall // when a worker is done is chance
		if err := x.Add(t.Context(), History{Name: name, Transcript: compare.New(paths[0].Turns, 0)}, nil); err != nil {
			t.Fatal(err)
		}
		var create api.CreateSession
		create.Policy = &api.Policy{Name: name, Set: turns.Raw(`{"mode":"before_call","runtime":""}`)}
		create.Limits = &turns.Limits{ContextWindow: window}
		s, err := c.Create(t.Context(), create)
		if err != nil {
			t.Fatal(err)
		}
		want, compactions := x.Longest[0].Calls, 0
		flushed := uint64(0)
		add := func(r api.AppendTurn) {
			t.Helper()
			a, err := c.Append(t.Context(), s.ID, r)
			if err == nil && a.Flush.Cycle > flushed {
				flushed = a.Flush.Cycle
				if _, err = c.BeginFlush(t.Context(), s.ID, api.BeginFlush{Cycle: flushed}); err == nil {
					_, err = c.DoneFlush(t.Context(), s.ID, api.DoneFlush{Cycle: flushed, Response: "SILENT"})
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, turn := range paths[0].Turns {
			if len(turn.Messages) > 0 {
				add(api.AppendTurn{Messages: turn.Messages})
			}
			if turn.Response == nil {
				continue
			}
			cx, err := c.Context(t.Context(), s.ID, api.GetContext{})
			if err != nil {
				t.Fatal(err)
			}
			if got := cx.Tokens + cx.Overhead; got != want[0].Counted || (cx.Compacted != nil) != (want[0].Compacted || want[0].Elided) {
				t.Fatalf("%s, turn %d: the daemon's context has %d tokens (compacted by %v), the replay's %+v", name, want[0].Turn, got, cx.Compacted, want[0])
			}
			if cx.Compacted != nil {
				compactions++
			}
			usage := &turns.Usage{InputTokens: want[0].Tokens} // as a provider that counts like the replay's
			want = want[1:]
			add(api.AppendTurn{Messages: []turns.Message{}, Response: turn.Response, Usage: usage})
		}
		if len(want) > 0 || compactions == 0 {
			t.Errorf("%s: %d calls were not made; %d compactions", name, len(want), compactions)
		}
	}
}

func id(n byte) turns.ID { return turns.ID{0: 1, 15: n} }

func said(s turns.ID, n, above byte, text string) transcript.Step {
	m := turns.TextMessage(turns.Assistant, text)
	a := &transcript.Append{Session: s, ID: id(n), Messages: []turns.Message{turns.TextMessage(turns.User, "?")}, Response: &m}
	if above > 0 {
		a.Parent = id(above)
	}
	return transcript.Step{Append: a}
}

// Of a session with forks the longest path counts, with the compactions recorded on
// it and the reported sizes; another session of the same steps is a path of its own.
func TestLongestPaths(t *testing.T) {
	main, fork, other := id(101), id(102), id(103)
	six := said(fork, 6, 5, "six")
	six.Append.Usage = &turns.Usage{InputTokens: 70}
	steps := []transcript.Step{
		{Open: &transcript.Open{ID: main, System: []turns.Section{{Content: strings.Repeat("x", 37)}}, Tools: []turns.Raw{turns.Raw(`{}`)}}},
		said(main, 1, 0, "one"), said(main, 2, 1, "two"), said(main, 3, 2, "three"),
		{Fork: &transcript.Fork{ID: fork, At: turns.Ref{Session: main, Turn: id(1)}}},
		said(fork, 4, 1, "four"),
		{Compaction: &transcript.Compaction{Session: fork, ID: id(5), Parent: id(4), FirstKept: id(4), Summary: "s"}},
		{Compaction: &transcript.Compaction{Session: main, ID: id(9), Parent: id(1), Summary: "of another branch"}},
		six, {Compaction: &transcript.Compaction{Session: fork, ID: id(10), Parent: id(6), Summary: "t"}}, said(fork, 7, 6, "seven"),
		{Open: &transcript.Open{ID: other}},
		said(other, 8, 0, "eight"),
	}
	all := func(steps []transcript.Step, end error) iter.Seq2[transcript.Step, error] {
		return func(yield func(transcript.Step, error) bool) {
			for _, s := range steps {
				if !yield(s, nil) {
					return
				}
			}
			if end != nil {
				yield(transcript.Step{}, end)
			}
		}
	}
	paths, err := longestPaths(all(steps, nil))
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, p := range paths {
		var words []string
		for _, turn := range p.Turns {
			words = append(words, turn.Response.Parts[0].Content)
		}
		got = append(got, words)
	}
	if d := cmp.Diff([][]string{{"one", "four", "six", "seven"}, {"eight"}}, got); d != "" {
		t.Error(d)
	}
	own := compare.Source{Compactions: []compare.Recorded{{Before: 2, FirstKept: 1, Summary: "s"}, {Before: 3, FirstKept: -1, Summary: "t"}}, Reported: map[int]uint64{0: 0, 1: 0, 2: 70, 3: 0}}
	if d := cmp.Diff(own, paths[0].Source); d != "" {
		t.Error(d)
	}
	if got := paths[0].Overhead; got != 4+10+8+1 {
		t.Errorf("%d tokens of system and tools", got)
	}
	bad := errors.New("torn")
	if _, err := longestPaths(all(steps, bad)); !errors.Is(err, bad) {
		t.Errorf("error %v", err)
	}
}

// The plot is XML whatever the file is called, and has a line for each policy,
// a mark for each compaction, and ticks for both axes.
func TestPlot(t *testing.T) {
	x := &Comparison{Window: 1000, LongestName: "<a&\"b\x07>"}
	for range 2 {
		x.Longest = append(x.Longest, &compare.Replay{
			Policy: policy.Policy{Name: "p"},
			Calls:  []compare.Call{{Tokens: 100}, {Tokens: 990}, {Tokens: 300, Compacted: true}, {Tokens: 400, Elided: true}},
		})
	}
	var b bytes.Buffer
	if err := x.Plot(&b); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		if s, ok := tok.(xml.StartElement); ok {
			count[s.Name.Local]++
		}
	}
	if count["polyline"] != 2 || count["circle"] != 2+2 || count["rect"] != 1+2 {
		t.Errorf("elements %v", count)
	}
	for _, want := range []string{`>1,000</text>`, `>4</text>`, `context, tokens`, `model call</text>`, `prefers-color-scheme:dark`, `p, ● 1 compaction, □ 1 with elisions`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if lines := regexp.MustCompile(`points="([^"]*) "`).FindAllStringSubmatch(b.String(), -1); len(lines) != 2 || len(strings.Fields(lines[0][1])) != 4 {
		t.Errorf("lines %v", lines)
	}
}

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		n, of int
		want  string
	}{{0, 0, "–"}, {1, 3, "33.3 %"}, {3, 3, "100.0 %"}} {
		if got := percent(c.n, c.of); got != c.want {
			t.Errorf("%d of %d: %s", c.n, c.of, got)
		}
	}
	if relative(3, 2) != 1.5 || relative(3, 0) != 1 {
		t.Error("relative cost")
	}
}
