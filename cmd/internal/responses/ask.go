package responses

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/provider"
	"nexus/ledger/api"
	"nexus/turns"
)

// ask is the request to the provider, but for what the context gives.
func (b *beginning) ask() (*provider.Request, toolChoice, error) {
	r := b.request
	list, err := r.tools()
	if err != nil {
		return nil, toolChoice{}, err
	}
	choice, err := r.toolChoice()
	if err != nil {
		return nil, choice, err
	}
	p := &provider.Request{Model: b.upstream, Tools: list, ToolChoice: choice.ToolChoice, Parallel: r.ParallelToolCalls, Temperature: r.Temperature, TopP: r.TopP,
		Presence: r.PresencePenalty, Frequency: r.FrequencyPenalty, TopLogprobs: r.TopLogprobs}
	fill(&p.MaxOutput, r.MaxOutputTokens)
	fill(&p.CacheKey, r.PromptCacheKey)
	fill(&p.ServiceTier, r.ServiceTier)
	fill(&p.User, r.User)
	fill(&p.User, r.SafetyIdentifier)
	p.Reasoning.Encrypted = r.includes("reasoning.encrypted_content")
	if r.Reasoning != nil {
		fill(&p.Reasoning.Effort, r.Reasoning.Effort)
		fill(&p.Reasoning.Summary, r.Reasoning.Summary)
	}
	if t := r.Text; t != nil {
		fill(&p.Verbosity, t.Verbosity)
		if f := t.Format; f != nil {
			p.Format = provider.Format{Type: f.Type, Name: f.Name, Schema: f.Schema, Strict: f.Strict}
			fill(&p.Format.Description, f.Description)
		}
	}
	return p, choice, nil
}

// unrecorded prepares a response of which nothing is stored.
func (b *beginning) unrecorded(ctx context.Context, in *input) (*flight, error) {
	if err := b.fits(ctx, &input{messages: append(append([]turns.Message{}, b.request.history...), in.messages...)}); err != nil {
		return nil, err
	}
	if b.request.PreviousResponseID != nil && b.request.history == nil {
		if err := b.target(ctx); err != nil { // a stored one may be continued without storing the rest
			return nil, err
		}
		cx, err := b.client.Context(ctx, b.session, api.GetContext{At: b.parent, Model: b.upstream, Recorded: true})
		if err != nil {
			return nil, err
		}
		if b.request.history, err = messagesOf(cx); err != nil {
			return nil, err
		}
	}
	ask, choice, err := b.ask()
	if err != nil {
		return nil, err
	}
	if b.request.Instructions != nil && *b.request.Instructions != "" {
		ask.System = []string{*b.request.Instructions}
	}
	ask.Messages = append(append([]turns.Message{}, b.request.history...), in.messages...)
	if err := checkCalls(ask.Messages); err != nil {
		return nil, err
	}
	ref := turns.Ref{Session: api.NewID(), Turn: api.NewID()}
	f := b.newFlight(ref, choice, ask)
	f.echo = b.request.echo(responseID(ref), b.door.cfg.Now())
	ask.Hold = f.hold
	if err := f.holdContext(); err != nil {
		f.drop()
		return nil, err
	}
	return f, nil
}

// checkCalls refuses outputs of calls that nobody made; of a recorded request the ledger does.
func checkCalls(ms []turns.Message) error {
	calls := make(map[string]bool)
	for i := range ms {
		for j := range ms[i].Parts {
			switch p := &ms[i].Parts[j]; p.Type {
			case turns.ToolCall:
				calls[p.ID] = true
			case turns.ToolCallResponse:
				if !calls[p.ID] {
					return invalid("input", "No tool call found for function call output with call_id %s.", clip(p.ID))
				}
			}
		}
	}
	return nil
}

// prepare makes what the model is asked of a stored request. It opens the file of its events.
func (b *beginning) prepare(ctx context.Context, id, session turns.ID, depth uint64, meta *requestMeta, lost int) (_ *flight, err error) {
	defer func() {
		if err != nil {
			b.stepBack(session, id)
		}
	}()
	ask, choice, err := b.ask()
	if err != nil {
		return nil, err
	}
	f := b.newFlight(turns.Ref{Session: session, Turn: id}, choice, ask)
	defer func() {
		if err != nil {
			f.drop()
		}
	}()
	ask.Hold = f.hold
	f.recorded, f.meta, f.depth, f.lost = true, meta, depth, lost
	f.echo = b.request.whole(meta)
	f.echo.Nexus = &Nexus{Session: session, Turn: id, Depth: depth, ForkedFrom: meta.Forked}
	if f.context, err = b.settle(ctx, session, id); err != nil {
		return nil, err
	}
	if b.request.compacts {
		if err := b.manage(ctx, f); err != nil {
			b.stepBack(session, id)
			return nil, err
		}
	}
	if err := f.use(f.context); err != nil {
		return nil, err
	}
	if err := f.holdContext(); err != nil {
		return nil, err
	}
	// The file of one that is not to be stored has no events: it says after a crash that this
	// daemon is not at it any more.
	f.quiet = !b.request.stored()
	if f.spool, err = b.door.spools.open(spoolHead{f.echo.ID, lost}); err != nil {
		return nil, fmt.Errorf("the file of a response: %w", err)
	}
	return f, nil
}

// contextFault is the refusal of a context that does not fit.
func contextFault(err error) error {
	if ofCode(err, api.Unprocessable) {
		return withCode(codeLength, invalid("input", "The input does not fit into the context of the model."))
	}
	return err
}

// context is what the model is given: all that was said, or with truncation: auto what the
// session's policy leaves of it.
func (b *beginning) context(ctx context.Context, session, at turns.ID) (*api.Context, error) {
	return b.client.Context(ctx, session, api.GetContext{At: at, Model: b.upstream, Recorded: !b.request.mayDrop()})
}

// messagesOf are the messages of a context.
func messagesOf(cx *api.Context) ([]turns.Message, error) {
	out := make([]turns.Message, len(cx.Messages))
	for i, raw := range cx.Messages {
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, fmt.Errorf("message %d of a context: %w", i, err)
		}
	}
	return out, nil
}
