package compactor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

// TXT-1: each text that a published design quotes and that a context shows is the design's,
// byte for byte, as the policy renders it. The prompts are in TestTemplatesQuoteTheDesigns;
// nexus and autobyteus quote no text that is shown. A golden file is what the
// seed's own file says.
func TestQuotedTextsAreTheDesigns(t *testing.T) {
	for _, tc := range []struct {
		golden string
		shown  func(t *testing.T, golden string) string
		inSeed func(string) string // as the design's file writes it; nil: as it is
	}{
		{"gsv-frame.txt", func(t *testing.T, _ string) string {
			return strings.TrimSuffix(summaryShown(t, "gsv", "S"), "\n\nS")
		}, nil},
		{"spec-008-frame.txt", func(t *testing.T, _ string) string { return summaryShown(t, "spec-008", "{summary}") }, func(s string) string {
			return `f"` + strings.ReplaceAll(s, "\n", `\n`) + `"`
		}},
		{"spec-008-trim.txt", func(t *testing.T, _ string) string {
			return between(resultShown(t, behind(t, spec008(t, `{}`), 3, result("c", strings.Repeat("a", 5000)))), "a")
		}, func(s string) string { return "last 1500 chars, insert `" + s + "`)" }},
		{"spec-008-cleared.txt", func(t *testing.T, _ string) string {
			return resultShown(t, behind(t, spec008(t, `{}`), 10, result("c", strings.Repeat("text ", 20))))
		}, func(s string) string { return "(replaced with `" + s + "`)" }},
		{"spec-008-progress.txt", func(t *testing.T, _ string) string { return spec008(t, `{}`).ProgressText() }, func(s string) string { return `"` + s + `"` }},
		{"wolffish-truncated.txt", func(t *testing.T, _ string) string {
			cx := shortenedBy(t, summary.Output{Text: "S"}, result("c", strings.Repeat("a", 45_000)))
			return strings.Trim(between(resultShown(t, cx), "a"), "\n")
		}, nil},
		{"wolffish-image.txt", func(t *testing.T, _ string) string {
			image := turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: []byte(strings.Repeat("p", 9000))}
			r := turns.Part{Type: turns.ToolCallResponse, ID: "c", Response: jsonOf(t, []turns.Part{image, turns.TextPart("seen")})}
			return strings.TrimSuffix(resultShown(t, shortenedBy(t, summary.Output{Text: "S"}, r)), "\nseen")
		}, nil},
		{"wolffish-nudge.txt", func(t *testing.T, golden string) string {
			_, text, _ := strings.Cut(golden, "]\n\n")
			text, _, _ = strings.Cut(text, "\n\n[Status:")
			return lastShown(shortenedBy(t, summary.Output{Text: text}, result("c", strings.Repeat("a", 45_000))))
		}, nil},
		{"wolffish-notice.txt", func(t *testing.T, _ string) string {
			return lastShown(shortenedBy(t, summary.Output{}, result("c", strings.Repeat("a", 45_000))))
		}, nil},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata/txt1", tc.golden))
			must(t, err)
			golden := string(b)
			if shown := tc.shown(t, golden); shown != golden {
				t.Errorf("shown is\n%q\nthe seed has\n%q", shown, golden)
			}
			seed := "wolffish.md"
			for _, name := range []string{"gsv", "spec-008"} {
				if strings.HasPrefix(tc.golden, name) {
					seed = name + ".md"
				}
			}
			text, err := os.ReadFile(filepath.Join("../../shared/seeds", seed))
			if err != nil {
				t.Skip("no published designs beside the project: ", seed)
			}
			if tc.inSeed != nil {
				golden = tc.inSeed(golden)
			}
			if !strings.Contains(string(text), golden) {
				t.Errorf("%s does not say\n%s", seed, golden)
			}
		})
	}
}

// summaryShown returns the first message after a compaction whose summary
// says text.
func summaryShown(t *testing.T, policy, text string) string {
	t.Helper()
	w := answered(t, 12, 600)
	w.Policy = builtin(policy)
	w.Policy.KeepTokens = min(w.Policy.KeepTokens, 2000)
	w.compactBy(t, w.Policy, text)
	cx, err := view.Render(w.Path(), w.Path().Counter)
	must(t, err)
	if cx.Sources[cx.Origins[0]].Status != view.InSummary || len(cx.Messages[0].Parts) != 1 {
		t.Fatalf("the first message is %+v", cx.Messages[0])
	}
	return cx.Messages[0].Parts[0].Content
}

func resultShown(t *testing.T, cx view.Context) string {
	t.Helper()
	p := resultIn(t, cx)
	s, _ := p.Response.Text()
	return s
}

// between is s without the run of c that it begins and ends with.
func between(s, c string) string { return strings.Trim(s, c) }

func lastShown(cx view.Context) string { return cx.Messages[len(cx.Messages)-1].Parts[0].Content }

// shortenedBy returns a context of the policy wolffish after a pass that shortened the
// given result, by a summarizer that answers out, or fails where out is empty.
func shortenedBy(t *testing.T, out summary.Output, res turns.Part) view.Context {
	t.Helper()
	w := newWorld()
	w.Policy = builtin("wolffish")
	w.Limits.ContextWindow = 60_000
	must(t, w.Turn(user("read them all"), says("", res.ID)))
	must(t, w.Turn([]turns.Message{tool(res)}, says("", "x1")))
	must(t, w.Turn([]turns.Message{tool(result("x1", "short"))}, says("", "x2")))
	must(t, w.Turn([]turns.Message{tool(result("x2", "short"))}, says("", "x3")))
	must(t, w.Turn([]turns.Message{tool(result("x3", "short"))}, says("going on")))
	pl, err := plan.New(w.Path(), w.Policy, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
	must(t, err)
	r, err := Run(t.Context(), pl, []Tier{{Name: "scripted", Summarizer: summarizerFunc(func(context.Context, summary.Input) (summary.Output, error) {
		if out.Text == "" {
			return summary.Output{}, errors.New("no")
		}
		return out, nil
	})}}, pl.Path.Counter, nil)
	must(t, err)
	must(t, w.compaction(r))
	cx, err := view.Render(w.Path(), w.Path().Counter)
	must(t, err)
	return cx
}
