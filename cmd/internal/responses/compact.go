package responses

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"nexus/cmd/internal/responses/window"
	"nexus/cmd/internal/web"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// compactRequest is the body of POST /v1/responses/compact. Clients send more members.
type compactRequest struct {
	Model              string    `json:"model"`
	Input              turns.Raw `json:"input"`
	PreviousResponseID *string   `json:"previous_response_id"`
	Instructions       *string   `json:"instructions"`
	PromptCacheKey     *string   `json:"prompt_cache_key"`
}

func (r *compactRequest) check() error {
	switch {
	case r.Model == "":
		return withCode("missing_required_parameter", invalid("model", "The member 'model' is missing."))
	case len(r.Model) > turns.MaxName:
		return invalid("model", "The name of a model has at most %d bytes.", turns.MaxName)
	case r.PromptCacheKey != nil && len(*r.PromptCacheKey) > maxIdentifier:
		return invalid("prompt_cache_key", "prompt_cache_key has at most %d bytes.", maxIdentifier)
	}
	return nil
}

// compaction is the reply.
type compaction struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	CreatedAt int64  `json:"created_at"`
	Output    []Item `json:"output"`
	Usage     *usage `json:"usage"`
	Nexus     *Nexus `json:"nexus"`
}

// waitForSummary is how long one call of the service waits for a summarizer, in
// milliseconds. The request goes on waiting.
const waitForSummary = 20_000

// postCompact is POST /v1/responses/compact: the user's messages, and one item for all that
// was said. What it covers, and the compaction itself, stay in the ledger.
func (d *Door) postCompact(w http.ResponseWriter, r *http.Request) {
	body, done, err := d.readBody(w, r)
	defer done()
	if err != nil {
		refuse(w, err)
		return
	}
	allowWait(w)
	out, err := d.compact(r.Context(), caller(r), body)
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, out)
}

func (d *Door) compact(ctx context.Context, c web.Caller, body []byte) (*compaction, error) {
	if d.places.Sealer.Key == nil {
		return nil, &Error{Status: http.StatusNotImplemented, Type: invalidRequest, Code: "unsupported", Message: "This server makes no compaction items.", Final: true}
	}
	var req compactRequest
	if err := readJSON(body, &req); err != nil {
		return nil, err
	}
	if err := req.check(); err != nil {
		return nil, err
	}
	release, err := d.admit(c)
	if err != nil {
		return nil, err
	}
	defer release()
	b := d.places.place(c, d.client(c), &CreateRequest{Model: req.Model, PreviousResponseID: req.PreviousResponseID})
	if err := b.target(ctx); err != nil {
		return nil, err
	}
	in, err := parseInput(req.Input, d.resolver(ctx, b))
	if err != nil {
		return nil, err
	}
	ask := window.Request{Model: req.Model, Input: in.messages, Wait: waitForSummary}
	if !b.Session.IsZero() {
		ask.From = turns.Ref{Session: b.Session, Turn: b.Parent}
	}
	if req.Instructions != nil && *req.Instructions != "" {
		ask.System = []string{*req.Instructions}
	}
	made, err := window.Compact(ctx, b.client, ask)
	if errors.Is(err, window.ErrEmpty) {
		return nil, invalid("input", "There is nothing to compact: input and previous_response_id are missing.")
	}
	if err != nil {
		return nil, inputFault(err)
	}
	return d.compacted(c, made)
}

// compacted is the reply for a window.
func (d *Door) compacted(c web.Caller, made *window.Result) (*compaction, error) {
	sealed, err := d.places.Sealer.Seal(c.Tenant, c.Agent, made.Window)
	if err != nil {
		return nil, err
	}
	place := made.At.Session.String() + made.At.Turn.String()
	out := &compaction{ID: "resp_cmp_" + place, Object: "response.compaction", CreatedAt: d.cfg.Now().Unix(), Output: []Item{}, Usage: new(usage), Nexus: &Nexus{Session: made.At.Session, Turn: made.At.Turn}}
	if made.Compaction != nil {
		out.Nexus.Depth, out.Nexus.Compaction = made.Compaction.Depth, made.Compaction.ID
	}
	if made.Usage != nil {
		out.Usage = usageOf(made.Usage, turns.UsageDetails{})
	}
	for i, m := range made.Users {
		it := messageItem{Type: "message", ID: fmt.Sprintf("msg_%su%d", place, i), Status: completed, Role: "user", Content: []turns.Raw{}}
		for j := range m.Parts {
			it.Content = append(it.Content, contentOf(turns.User, &m.Parts[j], false))
		}
		out.Output = append(out.Output, encode(it))
	}
	out.Output = append(out.Output, encode(compactionItem{"compaction", compactionPrefix + place, sealed}))
	return out, nil
}

// postInputTokens is POST /v1/responses/input_tokens: about how many tokens the model would
// read. Nothing is stored and no model is asked.
func (d *Door) postInputTokens(w http.ResponseWriter, r *http.Request) {
	body, done, err := d.readBody(w, r)
	defer done()
	if err != nil {
		refuse(w, err)
		return
	}
	n, err := d.inputTokens(r.Context(), caller(r), body)
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, struct {
		Object string `json:"object"`
		Tokens uint64 `json:"input_tokens"`
	}{"response.input_tokens", n})
}

func (d *Door) inputTokens(ctx context.Context, c web.Caller, body []byte) (n uint64, err error) {
	req, err := parseCreate(body)
	if err != nil {
		return 0, err
	}
	b := d.places.place(c, d.client(c), req)
	if err := b.target(ctx); err != nil {
		return 0, err
	}
	in, err := parseInput(req.Input, d.resolver(ctx, b))
	if err != nil {
		return 0, err
	}
	if !b.Session.IsZero() {
		cx, err := b.client.Context(ctx, b.Session, api.GetContext{At: b.Parent, Recorded: !b.Parent.IsZero() && !req.mayDrop()})
		if err != nil {
			return 0, err
		}
		n = cx.Tokens
	}
	counter := tokens.Approx{}
	if req.Instructions != nil {
		n += counter.Text(*req.Instructions)
	}
	for _, t := range req.Tools {
		n += counter.Text(string(t))
	}
	return n + tokens.Messages(counter, in.messages), nil
}
