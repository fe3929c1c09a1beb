// Package llm summarizes with a model that is asked over HTTP: OpenAI's chat
// completions, which most providers and local servers speak, or Anthropic's
// messages.
//
// Only this package knows the providers' libraries. The key and the base URL
// come from the daemon's configuration, never from a request; no error of this
// package holds the key, or anything that was said.
package llm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"nexus/compactor"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Config says which model summarizes.
type Config struct {
	Provider string        // "openai" (and all that speak like it) or "anthropic"
	BaseURL  string        // "": the provider's own
	Model    string        // as the provider names it
	Key      string        // API key; may be "" for a local server
	Window   uint64        // tokens that a request may have; 0: 128000
	Timeout  time.Duration // of one request, its retries included; 0: 2 minutes
	Retries  int           // of one request, on 429 and 5xx; negative: none; 0: 2
	Counter  tokens.Counter
}

// Errors of a summarizer. Each says what to do; none holds what the provider
// answered beyond its status.
var (
	// ErrConfig: the configuration can't be used.
	ErrConfig = errors.New("summarizer configuration")
	// ErrProvider: the provider did not give an answer.
	ErrProvider = errors.New("the model's provider failed")
	// ErrAnswer: the answer is no summary.
	ErrAnswer = errors.New("the model's answer is no summary")
)

// answer is what a provider gave.
type answer struct {
	text  string
	cut   bool // at the limit of its length
	usage turns.Usage
}

// model is one provider behind its library.
type model interface {
	ask(ctx context.Context, system, user string, maxTokens uint64) (answer, error)
}

// Summarizer is a [compactor.Summarizer] that asks a model. Safe for
// concurrent use.
type Summarizer struct {
	model   model
	window  uint64
	timeout time.Duration
	counter tokens.Counter
}

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
	s := &Summarizer{window: c.Window, timeout: c.Timeout, counter: c.Counter}
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

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// Summarize implements [compactor.Summarizer]. What does not fit one request
// is summarized in stretches, each with the summary of those before it.
func (s *Summarizer) Summarize(ctx context.Context, in compactor.Input) (out compactor.Output, err error) {
	var usage turns.Usage
	defer func() { out.Usage = reported(usage) }()
	stretches := s.stretches(in)
	text := in.Previous
	for i, halves := range stretches {
		part := compactor.Input{Previous: text, Halves: halves, MaxTokens: in.MaxTokens, Focus: in.Focus}
		a, err := s.ask(ctx, part)
		usage.InputTokens += a.usage.InputTokens
		usage.OutputTokens += a.usage.OutputTokens
		usage.CacheRead += a.usage.CacheRead
		if err != nil {
			return compactor.Output{}, fmt.Errorf("stretch %d of %d: %w", i+1, len(stretches), err)
		}
		text = a.text
	}
	out.Text, out.Tier = text, "llm"
	return out, nil
}

func reported(u turns.Usage) *turns.Usage {
	if u == (turns.Usage{}) {
		return nil
	}
	return &u
}

// ask asks once, with time for the retries that the library makes.
func (s *Summarizer) ask(ctx context.Context, in compactor.Input) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	content := compactor.Transcript(in)
	a, err := s.model.ask(ctx, compactor.Prompt(in), content, in.MaxTokens)
	if err != nil {
		return a, err
	}
	a.text = strings.TrimSpace(a.text)
	switch {
	case a.text == "" || !utf8.ValidString(a.text):
		return a, fmt.Errorf("%w: it is empty, or not UTF-8", ErrAnswer)
	case a.cut:
		return a, fmt.Errorf("%w: it was cut at its limit of %d tokens", ErrAnswer, in.MaxTokens)
	case s.counter.Text(a.text) > max(in.MaxTokens, s.counter.Text(content)):
		return a, fmt.Errorf("%w: it is longer than what it summarizes", ErrAnswer)
	}
	return a, nil
}

// stretches cuts the halves where a request would not fit the window. A half
// that alone is too large is a stretch of its own, its end left out.
func (s *Summarizer) stretches(in compactor.Input) [][]compactor.HalfTurn {
	fixed := s.counter.Text(compactor.Prompt(in)) + 2*in.MaxTokens + 256 // the prompt, the rolling summary, the answer
	room := s.window - min(s.window, fixed)
	if room < s.window/4 {
		room = s.window / 4
	}
	var out [][]compactor.HalfTurn
	size := uint64(0)
	for _, h := range in.Halves {
		if len(out) == 0 || size+h.Tokens > room {
			out, size = append(out, nil), 0
		}
		if h.Tokens > room {
			h = shorten(h, room)
		}
		out[len(out)-1] = append(out[len(out)-1], h)
		size += h.Tokens
	}
	if len(out) == 0 {
		out = append(out, nil)
	}
	return out
}

// shorten keeps the beginning of each text of a half, so that all have about
// room tokens together.
func shorten(h compactor.HalfTurn, room uint64) compactor.HalfTurn {
	share := float64(room) / float64(h.Tokens)
	ms := make([]turns.Message, len(h.Messages))
	for i, m := range h.Messages {
		ms[i] = turns.Message{Role: m.Role, Name: m.Name, Parts: append([]turns.Part(nil), m.Parts...)}
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			p.Content = begin(p.Content, share)
			if s, ok := p.Response.Text(); ok {
				p.Response = turns.RawText(begin(s, share))
			}
		}
	}
	h.Messages, h.Tokens = ms, room
	return h
}

func begin(s string, share float64) string {
	n := int(float64(len(s)) * share)
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + " […]"
}

// failed is an error of a request as it may be told: the status, and what kind
// of fault it was. What the provider wrote may quote what it was sent.
func failed(ctx context.Context, status int, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer in time", ErrProvider)
	case status > 0:
		return fmt.Errorf("%w: status %d", ErrProvider, status)
	}
	return fmt.Errorf("%w: the connection or the answer broke", ErrProvider)
}
