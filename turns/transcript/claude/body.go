package claude

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"nexus/turns/transcript/claude/content"
	"nexus/turns/transcript/claude/record"
)

// body is the content of a turn that is not finished.
type body struct {
	time       time.Time // of the newest message before the call
	model      string
	bound      turns.TimeBound
	messages   []turns.Message
	order      []int  // of each message: the order of the call it answers, or -1
	program    []bool // of each message: a program wrote it in the name of the user
	hasResults bool
	hasTexts   bool
	response   *turns.Message
	usage      *turns.Usage
	total      turns.Usage       // as the provider has it, of all steps
	calls      []turns.ModelCall // behind the response, besides the one of usage
	meta       stepMeta
	context    workContext
	compaction transcript.Compaction // of a compaction: what is known so far
	hasSummary bool                  // its summary line was read
}

// setTime sets the time of the newest message before the call to that of another message.
// last is the time of the newest line before that one; it is the bound of a message
// without a time.
func (b *body) setTime(at, last time.Time) {
	switch {
	case at.IsZero() && last.After(b.time):
		b.time, b.bound = last, turns.TimeNotBefore
	case at.IsZero() && !b.time.IsZero():
		b.bound = turns.TimeNotBefore
	case b.time.Before(at): // a result may be a day older than the prompt after it
		b.time, b.bound = at, ""
	}
}

// setContext sets the context to that of rec, if rec states one.
func (b *body) setContext(rec *record.Line) {
	if c := contextOf(rec); c != (workContext{}) {
		b.context = c
	}
}

// repeat makes b begin with the first n messages of a body, which is nil if it is not in
// memory any more.
func (b *body) repeat(of *body, n int) {
	if of == nil {
		return
	}
	n = min(n, len(of.messages))
	b.messages, b.order, b.program = slices.Clone(of.messages[:n]), slices.Clone(of.order[:n]), slices.Clone(of.program[:n])
	for _, order := range b.order {
		if order < 0 {
			b.hasTexts = true
		} else {
			b.hasResults = true
		}
	}
}

// setUsage sets the usage of the call behind a response, and of the calls besides it, as a
// line of the response has them. A later line has the later count; one with less output
// repeats that of the stream's begin.
//
// Where the provider took several steps, what the turn has is the last one, which tells
// the size of the context. The others, and those of other models, are further calls.
func (b *body) setUsage(raw turns.Raw) {
	u := content.Usage(raw)
	if u == nil || b.usage != nil && u.InputTokens == b.total.InputTokens && u.OutputTokens < b.total.OutputTokens {
		return
	}
	b.usage, b.total, b.meta.Usage, b.calls = u, *u, content.UsageDetails(raw), nil
	var steps []turns.Raw
	if json.Unmarshal(values.Members(raw).Get("iterations"), &steps) != nil {
		return
	}
	var last *turns.Usage
	var lastHour uint64
	own := 0
	for _, step := range steps {
		o, s := values.Members(step), content.Usage(step)
		if o == nil || s == nil {
			continue
		}
		hour := content.UsageDetails(step).CacheHour
		switch kind := o.Text("type"); kind {
		case "", "message", "iteration":
			last, lastHour = s, hour
			own++
		default:
			b.calls = append(b.calls, turns.ModelCall{Kind: content.Word(values.Clipped(kind, 80)), Model: content.Word(o.Text("model")), Usage: *s, CacheHour: hour})
		}
	}
	if own < 2 || last.InputTokens > u.InputTokens {
		return
	}
	rest := turns.Usage{
		InputTokens: u.InputTokens - last.InputTokens, OutputTokens: u.OutputTokens - min(last.OutputTokens, u.OutputTokens),
		CacheRead: u.CacheRead - min(last.CacheRead, u.CacheRead), CacheCreation: u.CacheCreation - min(last.CacheCreation, u.CacheCreation),
	}
	if rest == (turns.Usage{}) {
		return
	}
	hours := b.meta.Usage.CacheHour
	b.meta.Usage.CacheHour = min(lastHour, hours)
	b.calls = slices.Insert(b.calls, 0, turns.ModelCall{Kind: "message", Usage: rest, CacheHour: hours - min(lastHour, hours)})
	b.usage = last
}

// isCountedAtStart reports whether the output that b reports is that at the start of the
// stream. Versions that write no stop reason repeat that count on each line of a message.
// A token of text has about four bytes; a count of less than half of that can't be true.
func (b *body) isCountedAtStart() bool {
	if b.usage == nil || b.response == nil || b.response.FinishReason != "" {
		return false
	}
	size := 0
	for i := range b.response.Parts {
		size += len(b.response.Parts[i].ContentBytes())
	}
	return b.usage.OutputTokens < uint64(size)/8
}

// inCallOrder returns the messages with each run of tool results in the order of their
// calls, and the indexes of those that a program wrote. Parallel calls end in any order.
func (b *body) inCallOrder() (out []turns.Message, program []int) {
	at := make([]int, len(b.messages))
	for i := range at {
		at[i] = i
	}
	for i := 0; i < len(at); {
		j := i
		for j < len(at) && b.order[j] >= 0 {
			j++
		}
		slices.SortStableFunc(at[i:j], func(x, y int) int { return cmp.Compare(b.order[x], b.order[y]) })
		i = max(j, i+1)
	}
	for i, j := range at {
		out = append(out, b.messages[j])
		if b.program[j] {
			program = append(program, i)
		}
	}
	return out, program
}
