package extractive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"nexus/compactor/summary"
	"nexus/turns/tokens"
)

// Version names what the summarizer writes. It changes when a release gives another summary
// of the same turns: contexts that had the old one are then refused, not served otherwise.
const Version = "1"

// Config says how a summarizer counts tokens.
type Config struct {
	Counter tokens.Counter // nil: tokens.Approx
}

// Summarizer implements [summary.Summarizer]. It is safe for concurrent use.
type Summarizer struct{ counter tokens.Counter }

// New returns a summarizer.
func New(c Config) *Summarizer {
	if c.Counter == nil {
		c.Counter = tokens.Approx{}
	}
	return &Summarizer{c.Counter}
}

// Summarize implements [summary.Summarizer]. Its time grows with the text of in. Its
// memory is bounded; caps on open calls and facts see to that. The text is empty
// only if in says nothing or no word of it fits.
//
// Every item is one line that begins with "- ", and a section's name is alone on its
// line. So no quoted text can pass for a section or an item.
func (s *Summarizer) Summarize(ctx context.Context, in summary.Input) (summary.Output, error) {
	h := newHistory()
	h.recall(strings.ToValidUTF8(in.Previous, "\uFFFD"))
	for i := range in.Halves {
		if err := ctx.Err(); err != nil {
			return summary.Output{}, fmt.Errorf("summarize half %d of %d: %w", i, len(in.Halves), err)
		}
		h.half(&in.Halves[i])
	}
	h.look(in.Focus)
	h.dropQuoted(in.QuotedMessages)
	text := s.fit(s.draft(h, &in), in.MaxTokens)
	if text == "" {
		text = s.smallest(h, in.MaxTokens)
	}
	if in.Template == "wolffish" {
		text = s.inFive(text, in.Task, in.MaxTokens)
	}
	return summary.Output{Text: text, Tier: "extractive"}, nil
}

// fiveSections are the sections of Wolffish's summary, in its order, by our names.
var fiveSections = [...]struct{ ours, name string }{{task, "TASK"}, {progress, "PROGRESS"}, {remaining, "REMAINING"}, {data, "DATA"}, {decisions, "DECISIONS"}}

// noItem stands for a section without items.
const noItem = "none"

// inFive returns a summary of this package with the sections of Wolffish's: all five, also where
// one has no item. first is the task that the user gave first. Items that do not fit bound are
// left out, the last facts first.
func (s *Summarizer) inFive(text, first string, bound uint64) string {
	got, foreign := parse(text)
	if len(foreign) > 0 || text == "" && first == "" {
		return text
	}
	if first = oneLine(first, maxNewest); first != "" && !slices.ContainsFunc(got[task], func(item string) bool { return strings.Contains(item, first) }) {
		got[task] = append([]string{first}, got[task]...)
	}
	write := func() string {
		var b strings.Builder
		for i, x := range fiveSections {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(x.name)
			for _, item := range got[x.ours] {
				b.WriteString("\n- " + item)
			}
			if len(got[x.ours]) == 0 {
				b.WriteString("\n- " + noItem)
			}
		}
		return b.String()
	}
	for out := write(); ; out = write() {
		if s.counter.Text(out) <= bound {
			return out
		}
		drop := slices.IndexFunc(dropOrder[:], func(name string) bool { return len(got[name]) > 0 })
		if drop < 0 {
			return text // not even the names fit
		}
		if name := dropOrder[drop]; name == task && len(got[task]) == 1 && len(got[task][0]) > 80 {
			got[task][0] = oneLine(got[task][0], len(got[task][0])/2)
		} else {
			got[name] = got[name][:len(got[name])-1]
		}
	}
}

// dropQuoted drops the sentences of users that are sentences of quoted. A sentence that
// only occurs in another one, or in code, stays.
func (h *history) dropQuoted(quoted string) {
	if quoted == "" {
		return
	}
	known := make(map[string]bool)
	units(quoted, func(text string) { known[text] = true })
	if strings.Contains(quoted, h.newest.text) {
		h.newest = request{}
	}
	h.userRequests = slices.DeleteFunc(h.userRequests, func(u unit) bool { return known[u.text] })
}

// look raises the weight of everything about the focus.
func (h *history) look(focus string) {
	vs := strings.Fields(strings.ToLower(oneLine(focus, maxView)))
	if len(vs) == 0 {
		return
	}
	raise := func(pool []unit) {
		for i := range pool {
			lower := strings.ToLower(pool[i].text)
			n := 0
			for _, w := range vs {
				if lettersIn(w) > 2 && strings.Contains(lower, w) {
					n++
				}
			}
			pool[i].worth += 2 * float64(n) / float64(len(vs))
		}
	}
	raise(h.userRequests)
	raise(h.statements)
	for _, f := range h.facts.facts {
		for _, w := range vs {
			if lettersIn(w) > 2 && strings.Contains(strings.ToLower(f.text), w) {
				f.prior += 1.5
				break
			}
		}
	}
}
