// Package summaries makes the tiers of compactions that ask a model: the one that the
// configuration names as PROVIDER/MODEL, and those that policies and sessions name, which are
// found at the same providers that answer for /v1.
package summaries

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"nexus/cmd/internal/provider"
	"nexus/compactor"
	"nexus/compactor/llm"
	"nexus/compactor/overflow"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Config says who writes summaries.
type Config struct {
	Providers  *provider.Set
	Summarizer string  // PROVIDER/MODEL: the name of a row, and of one of its models
	SpendLimit float64 // US dollars a UTC day, of all models together; 0: none
	// Find returns a model's row of the model table.
	Find   func(model string) (tokens.Model, bool)
	Logger *slog.Logger
}

// Models makes tiers. It is safe for concurrent use.
type Models struct {
	c     Config
	spend *llm.Spend

	mu   sync.Mutex
	made map[string][]compactor.Tier // by the name that a policy or session has; nil: there is none
}

// maxMade bounds the models that are remembered: sessions name what they like.
const maxMade = 256

// New returns the models, and the tiers of the one that the configuration names. It sends no
// request. Errors name the setting.
func New(c Config) (*Models, []compactor.Tier, error) {
	row, model, ok := strings.Cut(c.Summarizer, "/")
	if !ok || row == "" || model == "" {
		return nil, nil, fmt.Errorf("summarizer: %.60q is not PROVIDER/MODEL, the name of a [[provider]] row and of one of its models", c.Summarizer)
	}
	if strings.Contains(model, "*") {
		return nil, nil, fmt.Errorf("summarizer: %.60q is a pattern; name one model", model)
	}
	client, upstream, ok := c.Providers.In(row, model)
	if !ok {
		return nil, nil, fmt.Errorf("summarizer: no [[provider]] row %.60q has the model %.60q", row, model)
	}
	m := &Models{c: c, spend: llm.NewSpend(uint64(c.SpendLimit * 1e6)), made: make(map[string][]compactor.Tier)}
	tiers, err := m.tiers(client, model, upstream)
	if err != nil {
		return nil, nil, fmt.Errorf("summarizer: %w", err)
	}
	m.made[model] = tiers
	return m, tiers, nil
}

// For returns the tiers of a model that a policy or a session names; nil if no provider has it.
func (m *Models) For(model string) []compactor.Tier {
	if strings.Contains(model, "*") { // it would match the pattern of a row, and names no model
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tiers, known := m.made[model]
	if known {
		return tiers
	}
	client, upstream, err := m.c.Providers.For(model)
	if err == nil {
		if tiers, err = m.tiers(client, model, upstream); err != nil {
			m.c.Logger.Warn("a model that a policy or a session names writes no summaries", "model", model, "err", err)
		}
	}
	if len(m.made) < maxMade {
		m.made[model] = tiers
	}
	return tiers
}

// tiers returns the full and the partial tier of a model.
func (m *Models) tiers(client provider.Client, model, upstream string) ([]compactor.Tier, error) {
	row, known := m.c.Find(model)
	if m.c.SpendLimit > 0 && row.Price.Input == 0 && row.Price.Output == 0 {
		return nil, fmt.Errorf("summarizer_spend_limit: no price of model %q is known; add a [[model]] row with price_input and price_output", model)
	}
	window := uint64(0)
	if budget := row.InputBudget(); known && budget < 128_000 {
		window = budget
	}
	price := row.Price
	price.CacheWrite = 0 // a summarizer asks for no cache: what a provider writes to one is billed as input
	s, err := llm.New(llm.Config{Asks: Asker{client, upstream}, Model: model, Thinks: provider.Thinks(client), Window: window, Logger: m.c.Logger, Price: price, Spend: m.spend})
	if err != nil {
		return nil, err
	}
	return []compactor.Tier{{Name: llm.Tier, Model: model, Summarizer: s}, {Name: llm.PartialTier, Model: model, Summarizer: s.Partial()}}, nil
}

// Asker asks one model of a provider for summaries.
type Asker struct {
	Client provider.Client
	Model  string // as the provider calls it
}

// Ask implements [llm.Model].
func (a Asker) Ask(ctx context.Context, r llm.Request) (llm.Answer, error) {
	got, err := a.Client.Generate(ctx, &provider.Request{
		Model: a.Model, System: []string{r.System}, Messages: []turns.Message{turns.TextMessage(turns.User, r.User)}, MaxOutput: r.MaxTokens, Once: true,
	}, func(provider.Event) error { return nil })
	if err != nil {
		return llm.Answer{}, fault(ctx, err)
	}
	out := llm.Answer{Cut: got.Message.FinishReason == "length", Thought: got.Details.Reasoning > 0}
	if got.Usage != nil {
		out.Usage = *got.Usage
	}
	var text strings.Builder
	for _, p := range got.Message.Parts {
		switch p.Type {
		case turns.Text:
			text.WriteString(p.Content)
		case turns.Reasoning:
			out.Thought = true
		}
	}
	out.Text = text.String()
	out.Thought = out.Thought || strings.HasPrefix(strings.TrimSpace(out.Text), "<think") // local servers leave it in the text
	if got.Message.FinishReason == "content_filter" || got.Refused {
		return out, fmt.Errorf("%w: it refuses", llm.ErrAnswer)
	}
	return out, nil
}

// fault is the error of a call, without the provider's words: they may quote what was sent.
func fault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := (*provider.Error)(nil)
	if !errors.As(err, &e) {
		return &llm.Fault{Text: "the connection or the answer broke", Retry: true}
	}
	f := &llm.Fault{Retry: e.Again || e.Lost || e.Code == "unreachable", After: e.RetryAfter}
	switch {
	case e.Code == "timeout":
		f.Text = "no answer in time"
	case e.Status == 0 || e.Lost:
		f.Text = "the connection or the answer broke"
	default:
		f.Text = fmt.Sprintf("status %d", e.Status)
	}
	switch e.Code { // of an error in the stream, which has no status
	case "rate_limit_exceeded", "server_error", "overloaded_error":
		f.Retry = f.Retry || e.Status == 0
	}
	if e.Message != "" {
		f.Size = overflow.Read(max(e.Status, 400), e.Message+" "+e.Code)
	}
	return f
}
