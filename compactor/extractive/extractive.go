// Package extractive summarizes without a model: it picks what an agent needs
// to go on from the turns themselves. It is deterministic and works offline.
package extractive

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"nexus/compactor"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Config says how a summarizer counts.
type Config struct {
	Counter tokens.Counter // nil: tokens.Approx
}

// Summarizer implements [compactor.Summarizer]. Safe for concurrent use.
type Summarizer struct{ counter tokens.Counter }

// New makes a summarizer.
func New(c Config) *Summarizer {
	if c.Counter == nil {
		c.Counter = tokens.Approx{}
	}
	return &Summarizer{c.Counter}
}

// The sections of a summary, in their order, and the share of the budget that
// each may take, in hundredths. What one leaves goes to those after it.
var sections = []struct {
	name  string
	share uint64
}{{"TASK", 30}, {"DECISIONS", 18}, {"PROGRESS", 22}, {"REMAINING", 10}, {"DATA", 20}}

const (
	maxItem  = 600     // bytes of one item
	maxScan  = 1 << 20 // bytes of one text that are looked at
	maxFacts = 50_000
)

// summary is the items of each section, oldest first.
type summary map[string][]string

// Summarize implements [compactor.Summarizer].
//
// Every item is one line that begins with "- ", and a section's name stands
// alone on its line, so no text that is quoted can pass for a section.
func (s *Summarizer) Summarize(ctx context.Context, in compactor.Input) (compactor.Output, error) {
	got := parse(in.Previous)
	facts := newFacts()
	for _, item := range got["DATA"] {
		facts.add(item, 3)
	}
	var todo string
	for i := range in.Halves {
		if err := ctx.Err(); err != nil {
			return compactor.Output{}, err
		}
		if t := got.half(&in.Halves[i], facts, i); t != "" {
			todo = t
		}
	}
	if todo != "" {
		got["REMAINING"] = append(got["REMAINING"], todo)
	}
	got["REMAINING"] = lastItems(got["REMAINING"], 3)
	got["DATA"] = facts.ranked()
	if in.Focus != "" {
		got["TASK"] = append(got["TASK"], oneLine("asked to keep in view: "+in.Focus))
	}
	return compactor.Output{Text: s.fit(got, in.MaxTokens), Tier: "extractive"}, nil
}

// half takes what a half turn says; it returns the state of a to-do list if
// one was written.
func (got summary) half(h *compactor.HalfTurn, facts *facts, order int) (todo string) {
	for _, m := range h.Messages {
		images := 0
		for _, p := range m.Parts {
			switch p.Type {
			case turns.Text:
				facts.scan(p.Content, 4)
				text := oneLine(p.Content)
				switch {
				case text == "":
				case m.Role == turns.User:
					got["TASK"] = append(got["TASK"], fmt.Sprintf("%s [t%d]", text, h.Depth))
				case m.Role == turns.Assistant:
					got["DECISIONS"] = append(got["DECISIONS"], fmt.Sprintf("%s [t%d]", clip(text, 280), h.Depth))
				}
			case turns.ToolCall:
				facts.scan(string(p.Arguments), 3)
				got["PROGRESS"] = append(got["PROGRESS"], fmt.Sprintf("%s %s [t%d]", p.Name, salient(p.Arguments), h.Depth))
				if strings.Contains(strings.ToLower(p.Name), "todo") {
					todo = clip(oneLine(string(p.Arguments)), maxItem)
				}
			case turns.ToolCallResponse:
				text, ok := p.Response.Text()
				if !ok {
					text = string(p.Response)
				}
				facts.scan(text, 1)
				if p.IsError {
					got["PROGRESS"] = append(got["PROGRESS"], fmt.Sprintf("error: %s [t%d]", clip(oneLine(text), 240), h.Depth))
				}
			case turns.Blob, turns.URI, turns.File:
				images++
			}
		}
		if images > 0 {
			got["TASK"] = append(got["TASK"], fmt.Sprintf("[%d attachments] [t%d]", images, h.Depth))
		}
	}
	return todo
}

// salient is the argument that says most of a call: a path, a command, a
// pattern; else the start of the arguments.
func salient(args turns.Raw) string {
	var m map[string]turns.Raw
	if args.Kind() == '{' && turns.DecodeJSON(args, &m) == nil {
		for _, k := range []string{"command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt"} {
			if v, ok := m[k]; ok {
				if s, ok := v.Text(); ok {
					return clip(oneLine(s), 160)
				}
			}
		}
	}
	return clip(oneLine(string(args)), 160)
}

// fit writes as many items of each section as its share of most tokens holds:
// of tasks the first and then the newest, of the others the newest.
func (s *Summarizer) fit(got summary, most uint64) string {
	var b strings.Builder
	left := most
	for i, sec := range sections {
		share := most * sec.share / 100
		if i == len(sections)-1 {
			share = left
		}
		share = min(share, left)
		items := s.choose(got[sec.name], share, sec.name)
		if len(items) == 0 {
			continue
		}
		text := sec.name + "\n- " + strings.Join(items, "\n- ") + "\n"
		n := s.counter.Text(b.String() + text)
		if n > most {
			continue
		}
		b.WriteString(text)
		left = most - n
	}
	return strings.TrimRight(b.String(), "\n")
}

func (s *Summarizer) choose(items []string, share uint64, section string) []string {
	items = dedupe(items)
	used := s.counter.Text(section) + 2
	take := make([]bool, len(items))
	try := func(i int) {
		if i < 0 || i >= len(items) || take[i] {
			return
		}
		if n := s.counter.Text(items[i]) + 2; used+n <= share {
			take[i] = true
			used += n
		}
	}
	switch section {
	case "TASK":
		try(0)
		fallthrough
	case "DECISIONS", "PROGRESS", "REMAINING":
		for i := len(items) - 1; i >= 0; i-- {
			try(i)
		}
	default: // ranked: the best first
		for i := range items {
			try(i)
		}
	}
	var out []string
	for i, ok := range take {
		if ok {
			out = append(out, items[i])
		}
	}
	return out
}

func dedupe(items []string) []string {
	last := make(map[string]int, len(items))
	for i, s := range items {
		last[bare(s)] = i
	}
	var out []string
	for i, s := range items {
		if last[bare(s)] == i {
			out = append(out, s)
		}
	}
	return out
}

// bare is an item without the pointer to its turn.
func bare(s string) string {
	if i := strings.LastIndex(s, " [t"); i > 0 && strings.HasSuffix(s, "]") {
		return s[:i]
	}
	return s
}

// parse reads a summary of this package back. Text of another shape is kept
// as one task item, clipped.
func parse(text string) summary {
	got := summary{}
	if strings.TrimSpace(text) == "" {
		return got
	}
	section := ""
	for line := range strings.SplitSeq(text, "\n") {
		if item, ok := strings.CutPrefix(line, "- "); ok && section != "" {
			got[section] = append(got[section], item)
			continue
		}
		if slices.ContainsFunc(sections, func(s struct {
			name  string
			share uint64
		}) bool {
			return s.name == line
		}) {
			section = line
		}
	}
	if section == "" {
		got["TASK"] = []string{"earlier: " + clip(oneLine(text), 4*maxItem)}
	}
	return got
}

func lastItems(items []string, n int) []string { return items[max(0, len(items)-n):] }

// oneLine folds white space, so that an item stays on its line.
func oneLine(s string) string {
	if len(s) > maxScan {
		s = s[:maxScan]
	}
	return clip(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "), maxItem)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// facts counts what later turns are likely to name again: paths, identifiers,
// numbers, addresses.
type facts struct {
	weight map[string]int
	order  map[string]int
}

func newFacts() *facts { return &facts{weight: map[string]int{}, order: map[string]int{}} }

func (f *facts) add(fact string, w int) {
	if _, ok := f.order[fact]; !ok {
		if len(f.order) >= maxFacts {
			return
		}
	}
	f.order[fact] = len(f.order)
	f.weight[fact] += w
}

func (f *facts) scan(s string, w int) {
	if len(s) > maxScan {
		s = s[:maxScan]
	}
	for _, t := range strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'`,;()[]{}<>=|*&!?\\", r)
	}) {
		if t = strings.Trim(t, ".:-"); len(t) >= 4 && len(t) <= 120 && telling(t) {
			f.add(t, w)
		}
	}
}

// telling reports whether a word is a path, an address, a number of weight or
// an identifier.
func telling(t string) bool {
	digits, letters, joints := 0, 0, 0
	for _, r := range t {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case strings.ContainsRune("/._-:@#", r):
			joints++
		case unicode.IsLetter(r):
			letters++
		}
	}
	return (joints > 0 && letters > 2) || (digits >= 3 && joints+digits >= len(t)-1) || (digits > 0 && letters > 0)
}

// ranked is the facts by weight, then the newer first.
func (f *facts) ranked() []string {
	out := make([]string, 0, len(f.order))
	for k := range f.order {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b string) int {
		if d := f.weight[b] - f.weight[a]; d != 0 {
			return d
		}
		if d := f.order[b] - f.order[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return out[:min(len(out), 2000)]
}
