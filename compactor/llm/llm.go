// Package llm summarizes with a model that is asked over HTTP: OpenAI's chat
// completions, which most providers and local servers speak, or Anthropic's
// messages.
//
// Only this package knows the providers' libraries. The key and the base URL
// come from the daemon's configuration, never from a request or from the
// environment that the libraries would read; no error of this package holds the
// key, or anything that was said.
package llm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Config says which model summarizes. One Summarizer has one model, whatever
// the model of the session is; [Summarizer.For] is the same under another one.
type Config struct {
	Name     string        // tier that its summaries say; "": [Tier]
	Provider string        // "openai" (and all that speak like it) or "anthropic"
	BaseURL  string        // "": the provider's own
	Model    string        // as the provider names it
	Key      string        // API key; may be "" for a local server
	Window   uint64        // tokens that a request may have; 0: 128000. A provider that says less is believed
	Timeout  time.Duration // of one request, its retries included; 0: 2 minutes
	Retries  int           // of one request, on 429 and 5xx, where no style says when; negative: none; 0: 2
	Counter  tokens.Counter

	// Style is how to ask under a template that has none of its own. Default:
	// the zero Style.
	Style summary.Style
	// Price is what the model costs. Default: nothing.
	Price tokens.Price
	// SpendLimit is how many millionths of a dollar the requests of one UTC day
	// may cost. It is counted in memory: a new process begins at nothing. A request
	// that was begun under the limit is finished. Default 0: no limit. Needs a
	// Price.
	SpendLimit uint64

	Logger *slog.Logger // of what an operator should set; nil: nothing is logged

	Now  func() time.Time                           // nil: time.Now
	Wait func(context.Context, time.Duration) error // until the time has passed, or ctx's error; nil: a timer
}

// Errors of a summarizer. Each says what to do; none holds what the provider
// answered beyond its status.
var (
	// ErrConfig: the configuration can't be used, or knows no such template.
	ErrConfig = errors.New("summarizer configuration")
	// ErrProvider: the provider did not give an answer.
	ErrProvider = errors.New("the model's provider failed")
	// ErrAnswer: the answer is no summary. Where a template's shape refused it,
	// the error is [compactor.ErrRefused] too.
	ErrAnswer = errors.New("the model's answer is no summary")
	// ErrTooLarge: a part that may not be shortened does not fit the model's
	// window. Nothing was asked.
	ErrTooLarge = errors.New("too large for the model's window")
	// ErrPartial: there is no partial summary: the style skips nothing, or
	// everything would be skipped. Nothing was asked.
	ErrPartial = errors.New("no partial summary")
	// ErrSpend: the day's spend limit is reached. Nothing more is asked that day.
	ErrSpend = errors.New("the spend limit is reached")
)

// request is what a provider is asked.
type request struct {
	system, user string
	maxTokens    uint64 // of the answer, and of what is thought before it
	once         bool   // the library does not try again by itself
}

// answer is what a provider gave.
type answer struct {
	text    string
	cut     bool // at the limit of its length
	thought bool // the model wrote thoughts too, which count
	usage   turns.Usage
}

// model is one provider behind its library. Its errors are [ErrAnswer] of an
// answer whose usage counts, a [fault], or a context's.
type model interface {
	ask(ctx context.Context, r request) (answer, error)
}

// Summarizer is a [compactor.Summarizer] that asks a model. Safe for
// concurrent use.
type Summarizer struct {
	model          model
	named          string // the model
	tier           string
	like           func(Config) (*Summarizer, error) // see [Summarizer.For]
	reportedLimits *reportedLimits
	timeout        time.Duration
	counter        tokens.Counter
	style          summary.Style
	price          tokens.Price
	spend          *meter
	partial        bool
	now            func() time.Time
	wait           func(context.Context, time.Duration) error
}

// The tiers of a Summarizer, by the names that an Output says: those of one with a
// name are that, and that with the suffix of [PartialTier].
const (
	Tier        = "llm"
	PartialTier = Tier + partialSuffix

	partialSuffix = "-partial"
)

// New is a summarizer; nothing is asked yet. Errors: [ErrConfig].
func New(c Config) (*Summarizer, error) {
	if c.Model == "" {
		return nil, fmt.Errorf("%w: no model is named", ErrConfig)
	}
	if c.BaseURL != "" {
		u, err := url.Parse(c.BaseURL)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
			return nil, fmt.Errorf("%w: the base URL is none of http or https", ErrConfig)
		}
		if u.Scheme == "http" && c.Key != "" && !loopback(u.Hostname()) {
			return nil, fmt.Errorf("%w: a key is not sent over http to %s; use https", ErrConfig, u.Hostname())
		}
	}
	if err := c.Style.Validate(); err != nil {
		return nil, fmt.Errorf("%w: style: %w", ErrConfig, err)
	}
	if c.SpendLimit > 0 && c.Price == (tokens.Price{}) {
		return nil, fmt.Errorf("%w: a spend limit without a price would never hold", ErrConfig)
	}
	c.defaults()
	return c.open(&meter{limit: c.SpendLimit})
}

// open is New, spending by a meter that others may spend by too.
func (c Config) open(spend *meter) (*Summarizer, error) {
	s := &Summarizer{named: c.Model, tier: c.Name, reportedLimits: &reportedLimits{window: c.Window, thinks: c.Provider == "openai" && c.BaseURL == "", log: c.Logger},
		timeout: c.Timeout, counter: c.Counter, style: c.Style, price: c.Price, spend: spend, now: c.Now, wait: c.Wait}
	s.like = func(other Config) (*Summarizer, error) {
		o := c
		o.Model, o.Window, o.Price = other.Model, other.Window, other.Price
		o.defaults()
		return o.open(spend)
	}
	switch c.Provider {
	case "openai":
		s.model = newOpenAI(c)
	case "anthropic":
		s.model = newAnthropic(c)
	default:
		return nil, fmt.Errorf("%w: provider %.40q is none of openai, anthropic", ErrConfig, c.Provider)
	}
	return s, nil
}

// For is a summarizer like s, at the same place under the same key, of another
// model with its own window, 0 for the default, and price. They share the spend
// limit. Errors: [ErrConfig].
func (s *Summarizer) For(model string, window uint64, price tokens.Price) (*Summarizer, error) {
	if model == "" {
		return nil, fmt.Errorf("%w: no model is named", ErrConfig)
	}
	return s.like(Config{Model: model, Window: window, Price: price})
}

// Model is the name of the model that s asks.
func (s *Summarizer) Model() string { return s.named }

func (c *Config) defaults() {
	if c.Name == "" {
		c.Name = Tier
	}
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

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// Partial is a summarizer that skips what is too large by the style's share of
// the window, and says so in the summary, in place of failing on it or of
// shortening it: the tier after s. It shares s's model and spend limit.
// Source: GSV, tier 2.
func (s *Summarizer) Partial() *Summarizer {
	p := *s
	p.partial, p.tier = true, s.tier+partialSuffix
	return &p
}

// Summarize implements [compactor.Summarizer]. What does not fit one request is
// asked about in parts, as the style says: that of in, else that of its
// template, else the configuration's. Output.Usage and Output.CostMicros are of
// all answers that there were, also with an error.
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
			continue // cut again, by what the provider said
		}
		if ctx.Err() != nil && err != nil {
			err = ctx.Err()
		}
		out.Usage, out.CostMicros = reported(usage), cost
		return out, err
	}
}

// job is one summary in the making.
type job struct {
	*Summarizer
	template summary.Template
	style    summary.Style
	input    summary.Input
	known    []string // all that is on record; in.Known is what of it is sent
	window   uint64
	limit    uint64 // of an answer in the provider's words: its summary, memories and thoughts

	usage    turns.Usage
	cost     uint64           // micro-dollars
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
	// The earlier summary and the answer stand in one request: with a larger share
	// each, a small window would not hold both.
	window, limit, thinks := s.reportedLimits.now()
	j.window, j.input.MaxTokens = window, min(in.MaxTokens, window/answerShare)
	if n := t.AnswerTokens(j.input.MaxTokens); n > limit {
		j.input.MaxTokens = uint64(float64(j.input.MaxTokens) * float64(limit-min(limit, 128)) / float64(n))
	}
	j.input.MaxTokens = max(1, j.input.MaxTokens)
	j.limit = t.AnswerTokens(j.input.MaxTokens)
	if thinks {
		j.limit = min(limit, j.limit+min(maxThoughts, window/thoughtShare))
	}
	j.input.Known = j.newest(in.Known)
	return j, nil
}

// run makes the summary: cut, ask, and say what is not in it.
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

// roll asks about part after part, each with the summary of those before it.
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

// merge asks about each part by itself, the earlier summary with the first, and
// then for one summary of theirs: of neighbors first where one request does not
// hold them all.
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

// ask asks once, with retries, for what stands for of, and keeps the memories of
// the answer.
func (j *job) ask(ctx context.Context, system, content string, of summary.Input, halves []summary.HalfTurn) (string, error) {
	if err := j.spend.open(j.now()); err != nil {
		return "", err
	}
	limit := j.template.AnswerTokens(j.input.MaxTokens)
	a, err := j.tries(ctx, request{system: system, user: content, maxTokens: j.limit}, j.style.Retries)
	if err == nil || errors.Is(err, ErrAnswer) {
		j.charge(a, system, content)
	}
	if err != nil {
		return "", err
	}
	if a.cut && a.thought {
		return "", errThought
	}
	a.text = strings.TrimSpace(a.text)
	switch {
	case a.text == "" || !utf8.ValidString(a.text):
		return "", fmt.Errorf("%w: it is empty, or not UTF-8", ErrAnswer)
	case a.cut:
		return "", fmt.Errorf("%w: it was cut at its limit of %d tokens", ErrAnswer, j.limit)
	case j.counter.Text(a.text) > max(limit, j.counter.Text(content)):
		return "", fmt.Errorf("%w: it is longer than what it summarizes", ErrAnswer)
	}
	out, err := j.template.Parse(a.text, halves)
	if err == nil {
		of.MaxTokens = j.input.MaxTokens
		err = summary.Thin(of, out)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	j.memories = append(j.memories, out.Memories...)
	return out.Text, nil
}

// onRecord are the notes on record, and after them the memories of the parts so
// far, so that no part repeats them: the newest that fit.
func (j *job) onRecord() []string {
	known := slices.Clone(j.input.Known)
	for _, m := range j.memories {
		known = append(known, "- "+m.Text)
	}
	return j.newest(known)
}

// charge counts what an answer took. One without usage costs what the counter
// estimates.
func (j *job) charge(a answer, system, content string) {
	j.usage = j.usage.Plus(a.usage)
	u := a.usage
	if u == (turns.Usage{}) {
		u = turns.Usage{InputTokens: j.counter.Text(system) + j.counter.Text(content), OutputTokens: j.counter.Text(a.text)}
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
