package extractive

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/claude"

	"nexus/turns/tokens"
)

// rival is a summarizer that is measured for comparison.
type rival struct {
	name string
	summary.Summarizer
}

var rivals = []rival{{"this package", New(Config{})}, {"last tokens", lastTokens{}}}

// lastTokens keeps the end of the text, unchanged.
type lastTokens struct{}

func (lastTokens) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	var b strings.Builder
	b.WriteString(in.Previous)
	for i := range in.Halves {
		b.WriteString("\n")
		b.WriteString(plain(in.Halves[i : i+1]))
	}
	s := b.String()
	s = s[max(0, len(s)-4*int(in.MaxTokens)):]
	for (tokens.Approx{}).Text(s) > in.MaxTokens {
		s = s[len(s)/64+1:]
	}
	return summary.Output{Text: strings.ToValidUTF8(s, "")}, nil
}

// session is a real transcript's longest path.
type session struct {
	file   string
	halves []summary.HalfTurn
}

// realSessions reads the Claude Code transcripts in ../shared/data next to the checkout.
func realSessions(t *testing.T) (out []session) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"claude-code-*/*.jsonl", "agentcmd-fixtures/claude*.jsonl"} {
		m, err := filepath.Glob(filepath.Join("..", "..", "..", "shared", "data", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	if len(files) == 0 {
		t.Skip("real transcripts are not beside the project (../shared/data)")
	}
	slices.Sort(files)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, session{filepath.Base(file), longestPath(t, b)})
	}
	return out
}

// longestPath returns the halves from the root to the turn with the most turns above it.
func longestPath(t *testing.T, b []byte) (out []summary.HalfTurn) {
	t.Helper()
	byID := make(map[turns.ID]*transcript.Append)
	above := make(map[turns.ID]turns.ID)
	depth := make(map[turns.ID]int)
	var deepest turns.ID
	for s, err := range claude.Read(bytes.NewReader(b), transcript.Options{Final: true}).Steps() {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case s.Append != nil:
			byID[s.Append.ID], above[s.Append.ID] = s.Append, s.Append.Parent
			if depth[s.Append.ID] = depth[s.Append.Parent] + 1; depth[s.Append.ID] > depth[deepest] {
				deepest = s.Append.ID
			}
		case s.Compaction != nil: // the source's own summaries are passed over
			above[s.Compaction.ID] = s.Compaction.Parent
			depth[s.Compaction.ID] = depth[s.Compaction.Parent]
		}
	}
	var path []*transcript.Append
	for id := deepest; !id.IsZero(); id = above[id] {
		if a := byID[id]; a != nil {
			path = append(path, a)
		}
	}
	slices.Reverse(path)
	for i, a := range path {
		add := func(half turns.Half, ms []turns.Message) {
			h := summary.HalfTurn{Depth: uint64(i + 1), Half: half, Messages: ms, Tokens: tokens.Messages(tokens.Approx{}, ms)}
			out = append(out, h)
		}
		if len(a.Messages) > 0 {
			add(turns.MessagesHalf, a.Messages)
		}
		if a.Response != nil {
			add(turns.ResponseHalf, []turns.Message{*a.Response})
		}
	}
	return out
}

// plain returns what halves say, as text.
func plain(halves []summary.HalfTurn) string {
	var b strings.Builder
	for _, h := range halves {
		for _, m := range h.Messages {
			for _, p := range m.Parts {
				switch p.Type {
				case turns.Text:
					b.WriteString(p.Content + "\n")
				case turns.ToolCall:
					b.WriteString(p.Name + " " + unquote(p.Arguments) + "\n")
				case turns.ToolCallResponse:
					b.WriteString(unquote(p.Response) + "\n")
				}
			}
		}
	}
	return b.String()
}

// written returns what the people and the agent of halves wrote, without results.
func written(halves []summary.HalfTurn) string {
	var session []summary.HalfTurn
	for _, h := range halves {
		for _, m := range h.Messages {
			if m.Role != turns.Tool {
				session = append(session, summary.HalfTurn{Messages: []turns.Message{m}})
			}
		}
	}
	return plain(session)
}

var jsonEscapes = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "", `\"`, `"`, `\\`, `\`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\/`, "/")

func unquote(r turns.Raw) string {
	if s, ok := r.Text(); ok {
		return s
	}
	return jsonEscapes.Replace(string(r))
}

// The kinds of things that are looked for, by patterns that know nothing of
// how the summarizer finds its own.
var kinds = []struct {
	name string
	re   *regexp.Regexp
}{
	{"paths", regexp.MustCompile(`(?:https?:/)?[\w.@~-]*(?:/[\w.@+-]+)+`)},
	{"identifiers", regexp.MustCompile(`\b[A-Za-z_][A-Za-z0-9]*(?:[._-][A-Za-z0-9_]+)+\b|\b[a-z]+[A-Z]\w+\b|\b[A-Z][a-z0-9]+[A-Z]\w+\b|\b[0-9a-f]*\d[0-9a-f]{6,}\b`)},
	{"numbers", regexp.MustCompile(`\b\d+\.\d+[a-z%]*|\b\d{3,}\b|\b\d+(?:ms|s|MB|KB|GB|%|k)\b`)},
	{"errors", regexp.MustCompile(`(?m)^.*(?:[Ee]rror:|panic:|FAIL|fatal|failed|undefined:|not found).*$`)},
}

// things returns the distinct things of a text, by kind.
func things(s string) map[string]string {
	out := make(map[string]string)
	for i := len(kinds) - 1; i >= 0; i-- { // a path wins over the identifier in it
		k := kinds[i]
		for _, m := range k.re.FindAllString(s, -1) {
			m = strings.TrimSpace(m)
			m = strings.TrimRight(m, ".:-,;")
			if k.name == "errors" {
				m = m[:min(len(m), 90)]
			}
			if len(m) >= 3 && len(m) <= 200 {
				out[m] = k.name
			}
		}
	}
	return out
}

// names reports whether text has thing as a word. A path is also there where
// one line has its folder, and the rest of it as a word.
func names(text, thing, kind string) bool {
	if hasWord(text, thing) {
		return true
	}
	if kind != "paths" {
		return false
	}
	for line := range strings.SplitSeq(text, "\n") {
		for i := 1; i < len(thing)-1; i++ {
			if thing[i] == '/' && hasWord(line, thing[:i+1]) && hasWord(line, thing[i+1:]) {
				return true
			}
		}
	}
	return false
}

func hasWord(s, w string) bool {
	isWord := func(c byte) bool {
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for from := 0; ; {
		i := strings.Index(s[from:], w)
		if i < 0 {
			return false
		}
		i += from
		j := i + len(w)
		if (i == 0 || !isWord(s[i-1]) || !isWord(w[0])) && (j == len(s) || !isWord(s[j]) || !isWord(w[len(w)-1])) {
			return true
		}
		from = i + 1
	}
}

// cut is a place where a real session is compacted.
type cut struct {
	covered []summary.HalfTurn
	needed  map[string]string // what later turns wrote again and the kept tail doesn't say, by kind
}

// cutsOf cuts a session where 3/10, 5/10 and 7/10 of its tokens have passed,
// keeping a tail verbatim. Places that leave too little to judge by are out.
func cutsOf(s session) (out []cut) {
	total := uint64(0)
	for _, h := range s.halves {
		total += h.Tokens
	}
	for _, tenths := range []uint64{3, 5, 7} {
		now, sum := 0, uint64(0)
		for now < len(s.halves) && sum < total*tenths/10 {
			sum += s.halves[now].Tokens
			now++
		}
		keep := min(20_000, sum/4)
		tail, kept := now, uint64(0)
		for tail > 0 && kept < keep {
			tail--
			kept += s.halves[tail].Tokens
		}
		covered, recent, later := s.halves[:tail], plain(s.halves[tail:now]), written(s.halves[now:])
		if sum-kept < 8_000 {
			continue
		}
		next := things(later)
		needed := make(map[string]string)
		for thing, kind := range things(plain(covered)) {
			_, again := next[thing]
			if kind == "errors" {
				again = strings.Contains(later, thing)
			}
			if again && !hasWord(recent, thing) {
				needed[thing] = kind
			}
		}
		if len(needed) >= 10 {
			out = append(out, cut{covered, needed})
		}
	}
	return out
}

// share is how much of what was needed is there.
type share struct{ have, all int }

func (s share) percent() float64 { return 100 * float64(s.have) / float64(max(1, s.all)) }

// Of what real sessions name again after a compaction, more is in our summary
// than in the end of the text. The table is in docs/policies/extractive.md:
//
//	go test ./compactor/extractive -run TestSummaryHoldsMoreOfWhatIsNamedAgainThanTheLastTokens -v
func TestSummaryHoldsMoreOfWhatIsNamedAgainThanTheLastTokens(t *testing.T) {
	sessions := realSessions(t)
	halves := [2]string{"developed on", "held out"}
	budgets := []uint64{1000, 2000, 4000}
	type key struct {
		half   int
		budget uint64
		rival  string
	}
	byKind := make(map[key]map[string]*share)
	mean := make(map[key][]float64)
	for i, s := range sessions {
		for _, c := range cutsOf(s) {
			for _, budget := range budgets {
				for _, r := range rivals {
					out, err := r.Summarize(t.Context(), summary.Input{Halves: c.covered, MaxTokens: budget})
					if err != nil {
						t.Fatal(err)
					}
					if n := (tokens.Approx{}).Text(out.Text); n > budget {
						t.Errorf("%s, %s: %d tokens, the limit is %d", s.file, r.name, n, budget)
					}
					k := key{i % 2, budget, r.name}
					if byKind[k] == nil {
						byKind[k] = make(map[string]*share)
						for _, kind := range kinds {
							byKind[k][kind.name] = &share{}
						}
						byKind[k]["all"] = &share{}
					}
					var whole share
					for thing, kind := range c.needed {
						for _, sh := range [...]*share{&whole, byKind[k][kind], byKind[k]["all"]} {
							sh.all++
							if names(out.Text, thing, kind) {
								sh.have++
							}
						}
					}
					mean[k] = append(mean[k], whole.percent())
				}
			}
		}
	}
	var b strings.Builder
	for half, title := range halves {
		fmt.Fprintf(&b, "\n%-13s %6s %-14s %5s %6s %6s %6s %6s %6s %6s\n", title, "budget", "", "cuts", "mean", "all", "paths", "ident", "number", "errors")
		for _, budget := range budgets {
			for _, r := range rivals {
				k := key{half, budget, r.name}
				if byKind[k] == nil {
					continue
				}
				of := func(name string) float64 { return byKind[k][name].percent() }
				fmt.Fprintf(&b, "%-13s %6d %-14s %5d %6.1f %6.1f %6.1f %6.1f %6.1f %6.1f\n", "", budget, r.name, len(mean[k]), average(mean[k]),
					of("all"), of("paths"), of("identifiers"), of("numbers"), of("errors"))
			}
			ours, theirs := average(mean[key{half, budget, rivals[0].name}]), average(mean[key{half, budget, rivals[1].name}])
			if ours < theirs {
				t.Errorf("%s, %d tokens: %.1f %%, the end of the text has %.1f %%", title, budget, ours, theirs)
			}
		}
	}
	t.Log(b.String())
}

func average(xs []float64) (s float64) {
	for _, x := range xs {
		s += x / float64(len(xs))
	}
	return s
}
