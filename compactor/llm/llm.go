package llm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"nexus/compactor/facts"
	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Config says which model summarizes. A Summarizer has one model, whatever the
// session's model is. [Summarizer.For] returns one for another model.
type Config struct {
	Asks    Model         // who is asked
	Model   string        // its name, as compactions say it
	Thinks  bool          // its reasoning counts as tokens of the answer; false: until an answer shows it
	Window  uint64        // tokens of one request; 0: 128000. A lower limit that the provider reports replaces it
	Timeout time.Duration // of one request with its retries; 0: 2 minutes
	Retries int           // of one request, if no style says when; negative: none; 0: 2
	Counter tokens.Counter

	// Style is used for templates without a style of their own. Default: the zero
	// Style.
	Style summary.Style
	// Price is the model's price. Default: free.
	Price tokens.Price
	// Spend bounds the cost of one UTC day's requests, of all summarizers that have it. nil: no
	// limit. It needs a Price.
	Spend *Spend

	Logger *slog.Logger // for advice to the operator; nil: nothing is logged

	Now  func() time.Time                           // nil: time.Now
	Wait func(context.Context, time.Duration) error // returns after the duration, or with ctx's error; nil: a timer
}

// Errors of a summarizer. Each says what to do. None holds more of the provider's
// answer than its status.
var (
	// ErrConfig means that the configuration is invalid or that the template is
	// unknown.
	ErrConfig = errors.New("summarizer configuration")
	// ErrProvider means that the provider did not answer.
	ErrProvider = errors.New("the model's provider failed")
	// ErrAnswer means that the answer is no summary. If the template's shape refused
	// it, the error is [summary.ErrRefused] too.
	ErrAnswer = errors.New("the model's answer is no summary")
	// ErrTooLarge means that a part which must not be shortened exceeds the model's
	// window. No request was sent for it.
	ErrTooLarge = errors.New("too large for the model's window")
	// ErrPartial means that there is no partial summary: the style skips nothing, or
	// everything would be skipped. No request was sent.
	ErrPartial = errors.New("no partial summary")
	// ErrSpend means that the day's spend limit is reached. No request is sent for
	// the rest of the day.
	ErrSpend = errors.New("the spend limit is reached")
)

// Request is one request to a model.
type Request struct {
	System, User string
	MaxTokens    uint64 // of the answer with the reasoning before it
}

// Answer is a model's answer.
type Answer struct {
	Text    string
	Cut     bool // cut off at the limit of its length
	Thought bool // the model also wrote reasoning, which counts
	Usage   turns.Usage
}

// Model asks a model, once a call. It returns ctx's errors, a [*Fault], or [ErrAnswer]; the usage of
// an answer with ErrAnswer counts. It is safe for concurrent use.
type Model interface {
	Ask(ctx context.Context, r Request) (Answer, error)
}

// Summarizer is a [summary.Summarizer] that asks a model. It is safe for concurrent
// use.
type Summarizer struct {
	model          Model
	named          string // the model's name
	tier           string
	retries        []time.Duration // where no style says when
	reportedLimits *reportedLimits
	timeout        time.Duration
	counter        tokens.Counter
	style          summary.Style
	price          tokens.Price
	spend          *Spend
	partial        bool
	now            func() time.Time
	wait           func(context.Context, time.Duration) error
}

// The tiers in a Summarizer's outputs.
const (
	Tier        = "llm"
	PartialTier = Tier + "-partial"
)

// New returns a summarizer. It sends no request. Errors: [ErrConfig].
func New(c Config) (*Summarizer, error) {
	if c.Asks == nil || c.Model == "" {
		return nil, fmt.Errorf("%w: no model is named", ErrConfig)
	}
	if err := c.Style.Validate(); err != nil {
		return nil, fmt.Errorf("%w: style: %w", ErrConfig, err)
	}
	if c.Spend.limited() && c.Price == (tokens.Price{}) {
		return nil, fmt.Errorf("%w: a spend limit without a price would never hold", ErrConfig)
	}
	c.defaults()
	s := &Summarizer{model: c.Asks, named: c.Model, tier: Tier, reportedLimits: &reportedLimits{model: c.Model, window: c.Window, thinks: c.Thinks, log: c.Logger},
		timeout: c.Timeout, counter: c.Counter, style: c.Style, price: c.Price, spend: c.Spend, now: c.Now, wait: c.Wait}
	for i := range c.Retries {
		s.retries = append(s.retries, firstRetry<<i)
	}
	return s, nil
}

// firstRetry is the wait before the first retry; each further one is twice as long.
const firstRetry = 500 * time.Millisecond

// Model returns the name of the model that s asks.
func (s *Summarizer) Model() string { return s.named }

func (c *Config) defaults() {
	if c.Window == 0 {
		c.Window = 128_000
	}
	if c.Timeout <= 0 {
		c.Timeout = 2 * time.Minute
	}
	switch {
	case c.Retries == 0:
		c.Retries = 2
	case c.Retries < 0:
		c.Retries = 0
	}
	if c.Counter == nil {
		c.Counter = tokens.Approx{}
	}
	if c.Spend == nil {
		c.Spend = NewSpend(0)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Wait == nil {
		c.Wait = wait
	}
}

// Partial returns the tier after s. It skips halves that exceed the style's share of
// the window, and says so in the summary, instead of failing or shortening them. It
// shares s's model and spend limit. Source: GSV, tier 2.
func (s *Summarizer) Partial() *Summarizer {
	p := *s
	p.partial, p.tier = true, PartialTier
	return &p
}

// Summarize implements [summary.Summarizer]. It asks in parts about what one request
// cannot hold. The first of these that is set says how: the style of in, of its
// template, of the configuration. Output.Usage and Output.CostMicros count all
// answers, also with an error.
//
// Errors: those of this package; ctx's when it ends first.
func (s *Summarizer) Summarize(ctx context.Context, in summary.Input) (summary.Output, error) {
	var usage turns.Usage
	cost := uint64(0)
	for {
		j, err := s.job(in)
		if err != nil {
			return summary.Output{Usage: reported(usage), CostMicros: cost}, err
		}
		j.usage, j.cost = usage, cost
		out, err := j.run(ctx)
		usage, cost = j.usage, j.cost
		if ctx.Err() == nil && err != nil && s.reportedLimits.smaller(j, err) {
			continue // cut again, by the limit that the provider reported
		}
		if ctx.Err() != nil && err != nil {
			err = ctx.Err()
		}
		out.Usage, out.CostMicros = reported(usage), cost
		return out, err
	}
}

// job is the state of one summary being made.
type job struct {
	*Summarizer
	template summary.Template
	style    summary.Style
	input    summary.Input
	known    []string // all notes on record; in.Known is what of them is sent
	window   uint64
	limit    uint64 // bound of an answer in the provider's tokens: summary, memories and reasoning

	usage    turns.Usage
	cost     uint64           // in micro-dollars
	memories []summary.Memory // of the parts so far
}

func (s *Summarizer) job(in summary.Input) (*job, error) {
	t, ok := summary.FindTemplate(in.Template)
	if !ok {
		return nil, fmt.Errorf("%w: no template %.40q", ErrConfig, in.Template)
	}
	j := &job{Summarizer: s, template: t, style: t.Style, input: in, known: in.Known}
	if j.style.IsZero() {
		j.style = s.style
	}
	if in.Style != nil {
		j.style = *in.Style
	}
	if err := j.style.Validate(); err != nil {
		return nil, fmt.Errorf("%w: style: %w", ErrConfig, err)
	}
	if s.partial && j.style.SkipRatio == 0 {
		return nil, fmt.Errorf("%w: template %s skips nothing", ErrPartial, t.Name)
	}
	// One request holds both the earlier summary and the answer. With larger shares,
	// a small window would not hold both.
	window, limit, thinks := s.reportedLimits.now()
	j.window, j.input.MaxTokens = window, min(in.MaxTokens, window/answerShare)
	if n := t.AnswerTokens(j.input.MaxTokens); n > limit {
		j.input.MaxTokens = uint64(float64(j.input.MaxTokens) * float64(limit-min(limit, answerMargin)) / float64(n))
	}
	j.input.MaxTokens = max(1, j.input.MaxTokens)
	j.limit = t.AnswerTokens(j.input.MaxTokens)
	if thinks {
		j.limit = min(limit, j.limit+min(maxThoughts, window/thoughtShare))
	}
	j.input.Known = j.newest(in.Known)
	return j, nil
}

// run makes the summary: it cuts, asks, and lists what the summary skips.
func (j *job) run(ctx context.Context) (summary.Output, error) {
	parts, skipped, err := j.parts()
	if err != nil {
		return summary.Output{}, err
	}
	notes := skippedNote(skipped)
	if images := summary.Images(j.input.Halves); j.template.Shape == summary.Blocks && images > 0 {
		notes = append(notes, summary.ImagesNote(images))
	}
	end := ""
	if len(notes) > 0 {
		end = "\n\n" + strings.Join(notes, "\n")
		j.input.MaxTokens -= min(j.input.MaxTokens/2, j.counter.Text(end))
	}
	summarize := j.roll
	if j.style.Merge && len(parts) > 1 {
		summarize = j.merge
	}
	text, err := summarize(ctx, parts)
	if err != nil {
		return summary.Output{}, err
	}
	return summary.Output{Text: text + end, Tier: j.tier, Model: j.named, Memories: summary.Distinct(j.memories, j.known)}, nil
}

// roll asks about one part after another, each time with the summary of the earlier
// parts.
func (j *job) roll(ctx context.Context, parts [][]summary.HalfTurn) (string, error) {
	text := j.input.Previous
	for i, halves := range parts {
		var err error
		j.input.ReportProgress(i, len(parts))
		if text, err = j.part(ctx, text, halves); err != nil {
			return "", fmt.Errorf("part %d of %d: %w", i+1, len(parts), err)
		}
	}
	return text, nil
}

// merge asks about each part independently, with the earlier summary in the first
// request. Then it asks for one summary of the results. If one request does not hold
// them all, it merges neighbors first.
func (j *job) merge(ctx context.Context, parts [][]summary.HalfTurn) (string, error) {
	texts := make([]string, len(parts))
	previous := j.input.Previous
	for i, halves := range parts {
		var err error
		j.input.ReportProgress(i, len(parts))
		if texts[i], err = j.part(ctx, previous, halves); err != nil {
			return "", fmt.Errorf("part %d of %d: %w", i+1, len(parts), err)
		}
		previous = ""
	}
	for len(texts) > 1 {
		groups := j.groups(texts)
		if len(groups) == len(texts) {
			return "", fmt.Errorf("merge of %d parts: %w: no two summaries fit one request", len(parts), ErrTooLarge)
		}
		texts = texts[:0:0]
		for _, g := range groups {
			if len(g) == 1 {
				texts = append(texts, g[0])
				continue
			}
			in := j.input
			in.Known = j.onRecord()
			text, err := j.ask(ctx, summary.MergePrompt(in), summary.Summaries(g, in.Known), summary.Input{Previous: strings.Join(g, "\n")}, j.input.Halves)
			if err != nil {
				return "", fmt.Errorf("merge of %d parts: %w", len(parts), err)
			}
			texts = append(texts, text)
		}
	}
	return texts[0], nil
}

func (j *job) part(ctx context.Context, previous string, halves []summary.HalfTurn) (string, error) {
	in := j.input
	in.Previous, in.Halves, in.Known = previous, halves, j.onRecord()
	return j.ask(ctx, summary.Prompt(in), summary.Transcript(in), in, halves)
}

// ask sends one request, with retries, and returns the summary of of. It keeps the
// memories of the answer.
func (j *job) ask(ctx context.Context, system, content string, of summary.Input, halves []summary.HalfTurn) (string, error) {
	if err := j.spend.open(j.now()); err != nil {
		return "", err
	}
	limit := j.template.AnswerTokens(j.input.MaxTokens)
	a, err := j.tries(ctx, Request{System: system, User: content, MaxTokens: j.limit}, j.style.Retries)
	if err == nil || errors.Is(err, ErrAnswer) {
		j.charge(a, system, content)
	}
	if err != nil {
		return "", err
	}
	if a.Cut && a.Thought {
		return "", errThought
	}
	a.Text = strings.TrimSpace(a.Text)
	switch {
	case a.Text == "" || !utf8.ValidString(a.Text):
		return "", fmt.Errorf("%w: it is empty, or not UTF-8", ErrAnswer)
	case a.Cut:
		return "", fmt.Errorf("%w: it was cut at its limit of %d tokens", ErrAnswer, j.limit)
	case j.counter.Text(a.Text) > max(limit, j.counter.Text(content)):
		return "", fmt.Errorf("%w: it is longer than what it summarizes", ErrAnswer)
	}
	out, err := j.template.Parse(a.Text, halves)
	if err == nil {
		of.MaxTokens = j.input.MaxTokens
		err = facts.Thin(of, out)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	j.memories = append(j.memories, out.Memories...)
	return out.Text, nil
}

// onRecord returns the notes on record and the memories of the parts so far, so that
// no part repeats them: the newest that fit.
func (j *job) onRecord() []string {
	known := slices.Clone(j.input.Known)
	for _, m := range j.memories {
		known = append(known, "- "+m.Text)
	}
	return j.newest(known)
}

// charge adds the cost of an answer. For an answer without usage it uses the
// counter's estimate.
func (j *job) charge(a Answer, system, content string) {
	j.usage = j.usage.Plus(a.Usage)
	u := a.Usage
	if u == (turns.Usage{}) {
		u = turns.Usage{InputTokens: j.counter.Text(system) + j.counter.Text(content), OutputTokens: j.counter.Text(a.Text)}
	}
	cost := j.price.Of(u)
	j.spend.add(j.now(), cost)
	j.cost += cost
}

func reported(u turns.Usage) *turns.Usage {
	if u == (turns.Usage{}) {
		return nil
	}
	return &u
}
