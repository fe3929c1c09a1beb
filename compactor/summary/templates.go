package summary

import (
	_ "embed"
	"fmt"
	"slices"
	"time"
)

// defaultTemplate is the name of the template that is used if none is named.
const defaultTemplate = "nexus"

// Shape says what the answer to a template looks like.
type Shape string

// The shapes.
const (
	// Plain: the answer is the summary.
	Plain Shape = "plain"
	// Sections: the answer is the summary, under TASK, PROGRESS, REMAINING, DATA and
	// DECISIONS. It is not parsed, because the session's language may have other
	// words for them.
	Sections Shape = "sections"
	// Blocks: one <summary> and one <memories>, the latter of bullet lines.
	Blocks Shape = "gsv"
	// Facts: a JSON object, {"episodic_summary", "semantic_facts": [{"type", "text", "turns"}]}.
	Facts Shape = "autobyteus"
)

// Template says how a model is asked for a summary. [Prompt] adds to its text;
// [Template.Parse] reads the answer.
type Template struct {
	Name  string
	Text  string // of the system prompt; it holds quotations from a published design byte for byte
	Shape Shape
	Style Style
}

// Style says how a model is asked about more than one request holds. The zero Style
// fills the window in each request and passes on the summary of the earlier ones.
type Style struct {
	// ChunkRatio is the share of the window that one request's content may fill.
	// Range [0, 1]; 0: everything that the prompt and the answer leave.
	ChunkRatio float64
	// SkipRatio: a partial summary skips a chunk over this share of the window and
	// leaves a note. Range [0, 1]; 0: there is no partial summary.
	SkipRatio float64
	// Whole: the summary fails if one message does not fit the window. Otherwise the
	// ends of its texts are cut.
	Whole bool
	// Merge: the parts are summarized independently, and one more request merges
	// their summaries.
	Merge bool
	// Retries are the waits before each further try, after a broken connection or an
	// answer that asks to try again. nil: the provider's library decides; empty: one
	// try only.
	Retries []time.Duration
}

// IsZero reports whether s sets nothing.
func (s Style) IsZero() bool {
	return s.ChunkRatio == 0 && s.SkipRatio == 0 && !s.Whole && !s.Merge && s.Retries == nil
}

// Validate returns what is wrong with s; nil if nothing is.
func (s Style) Validate() error {
	for _, r := range [...]float64{s.ChunkRatio, s.SkipRatio} {
		if !(r >= 0 && r <= 1) { // NaN fails too
			return fmt.Errorf("a share of the window of %v: the range is [0, 1]", r)
		}
	}
	if len(s.Retries) > 20 {
		return fmt.Errorf("%d retries, the limit is 20", len(s.Retries))
	}
	for _, d := range s.Retries {
		if d < 0 || d > time.Hour {
			return fmt.Errorf("a retry after %v: the range is [0, 1h]", d)
		}
	}
	return nil
}

//go:embed templates/nexus.txt
var nexusText string

//go:embed templates/spec-008.txt
var spec008Text string

//go:embed templates/wolffish.txt
var wolffishText string

//go:embed templates/gsv.txt
var gsvText string

//go:embed templates/autobyteus.txt
var autobyteusText string

// templates returns the built-in templates, the default one first. The caller owns
// the slice.
//
// Sources: COMPACTION_PROMPT of SPEC-008; the five sections of Wolffish's "One-Shot
// Summary"; GSV's "Three-Tier Summarization", which quotes no prompt but describes
// its two blocks; Autobyteus's "Compaction Flow", which names the two members of its
// answer.
func templates() []Template {
	return []Template{
		{defaultTemplate, nexusText, Sections, Style{}},
		{"autobyteus", autobyteusText, Facts, Style{}},
		{"gsv", gsvText, Blocks, Style{ChunkRatio: 0.25, SkipRatio: 0.5, Whole: true}},
		{"spec-008", spec008Text, Plain, Style{}},
		{"wolffish", wolffishText, Sections, Style{Merge: true, Retries: []time.Duration{
			time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
		}}},
	}
}

// FindTemplate returns the built-in template of that name; "" names the default one.
func FindTemplate(name string) (Template, bool) {
	if name == "" {
		name = defaultTemplate
	}
	all := templates()
	i := slices.IndexFunc(all, func(t Template) bool { return t.Name == name })
	if i < 0 {
		return Template{}, false
	}
	return all[i], true
}

// AnswerTokens returns how long an answer may be for a summary of so many tokens. It
// is half as long again if the template asks for more than the summary.
func (t Template) AnswerTokens(summary uint64) uint64 {
	if t.Shape == Blocks || t.Shape == Facts {
		return summary + summary/2 + 128
	}
	return summary
}
