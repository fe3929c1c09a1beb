package responses

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"nexus/cmd/internal/responses/place"
	"nexus/cmd/internal/responses/window"
	"nexus/cmd/internal/responses/wire"
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
		return wire.WithCode("missing_required_parameter", wire.Invalid("model", "The member 'model' is missing."))
	case len(r.Model) > turns.MaxName:
		return wire.Invalid("model", "The name of a model has at most %d bytes.", turns.MaxName)
	case r.PromptCacheKey != nil && len(*r.PromptCacheKey) > wire.MaxIdentifier:
		return wire.Invalid("prompt_cache_key", "prompt_cache_key has at most %d bytes.", wire.MaxIdentifier)
	}
	return nil
}

// compaction is the reply.
type compaction struct {
	ID        string      `json:"id"`
	Object    string      `json:"object"`
	CreatedAt int64       `json:"created_at"`
	Output    []wire.Item `json:"output"`
	Usage     *wire.Usage `json:"usage"`
	Nexus     *wire.Nexus `json:"nexus"`
}

// waitForSummary is how long one call of the service waits for a summarizer, in
// milliseconds. The request goes on waiting.
const waitForSummary = 20_000

// postCompact is POST /v1/responses/compact: the user's messages, and one item for all that
// was said. What it covers, and the compaction itself, stay in the ledger.
func (d *Server) postCompact(w http.ResponseWriter, r *http.Request) {
	body, done, err := d.readBody(w, r)
	defer done()
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	allowWait(w)
	out, err := d.compact(r.Context(), caller(r), body)
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	wire.Reply(w, http.StatusOK, out)
}

func (d *Server) compact(ctx context.Context, c web.Caller, body []byte) (*compaction, error) {
	if d.places.Sealer.Key == nil {
		return nil, &wire.Error{Status: http.StatusNotImplemented, Type: wire.InvalidRequest, Code: "unsupported", Message: "This server makes no compaction items.", Final: true}
	}
	var req compactRequest
	if err := wire.ReadJSON(body, &req); err != nil {
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
	b := d.places.New(c, d.client(c), &wire.CreateRequest{Model: req.Model, PreviousResponseID: req.PreviousResponseID})
	if err := b.Target(ctx); err != nil {
		return nil, err
	}
	in, err := wire.ParseInput(req.Input, d.resolver(ctx, b))
	if err != nil {
		return nil, err
	}
	ask := window.Request{Model: req.Model, Input: in.Messages, Wait: waitForSummary}
	if !b.Session.IsZero() {
		ask.From = turns.Ref{Session: b.Session, Turn: b.Parent}
	}
	if req.Instructions != nil && *req.Instructions != "" {
		ask.System = []string{*req.Instructions}
	}
	made, err := window.Compact(ctx, b.Client, ask)
	if errors.Is(err, window.ErrEmpty) {
		return nil, wire.Invalid("input", "There is nothing to compact: input and previous_response_id are missing.")
	}
	if err != nil {
		return nil, place.InputFault(err)
	}
	return d.compacted(c, made)
}

// compacted is the reply for a window.
func (d *Server) compacted(c web.Caller, made *window.Result) (*compaction, error) {
	sealed, err := d.places.Sealer.Seal(c.Tenant, c.Agent, made.Window)
	if err != nil {
		return nil, err
	}
	place := made.At.Session.String() + made.At.Turn.String()
	out := &compaction{ID: "resp_cmp_" + place, Object: "response.compaction", CreatedAt: d.cfg.Now().Unix(), Output: []wire.Item{}, Usage: new(wire.Usage), Nexus: &wire.Nexus{Session: made.At.Session, Turn: made.At.Turn}}
	if made.Compaction != nil {
		out.Nexus.Depth, out.Nexus.Compaction = made.Compaction.Depth, made.Compaction.ID
	}
	if made.Usage != nil {
		out.Usage = wire.UsageOf(made.Usage, turns.UsageDetails{})
	}
	for i, m := range made.Users {
		it := wire.MessageItem{Type: "message", ID: fmt.Sprintf("msg_%su%d", place, i), Status: wire.Completed, Role: "user", Content: []turns.Raw{}}
		for j := range m.Parts {
			it.Content = append(it.Content, wire.ContentOf(turns.User, &m.Parts[j], false))
		}
		out.Output = append(out.Output, wire.Encode(it))
	}
	out.Output = append(out.Output, wire.Encode(wire.CompactionItem{Type: "compaction", ID: wire.CompactionPrefix + place, Encrypted: sealed}))
	return out, nil
}

// postInputTokens is POST /v1/responses/input_tokens: about how many tokens the model would
// read. Nothing is stored and no model is asked.
func (d *Server) postInputTokens(w http.ResponseWriter, r *http.Request) {
	body, done, err := d.readBody(w, r)
	defer done()
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	n, err := d.inputTokens(r.Context(), caller(r), body)
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	wire.Reply(w, http.StatusOK, struct {
		Object string `json:"object"`
		Tokens uint64 `json:"input_tokens"`
	}{"response.input_tokens", n})
}

func (d *Server) inputTokens(ctx context.Context, c web.Caller, body []byte) (n uint64, err error) {
	req, err := wire.ParseCreate(body)
	if err != nil {
		return 0, err
	}
	b := d.places.New(c, d.client(c), req)
	if err := b.Target(ctx); err != nil {
		return 0, err
	}
	in, err := wire.ParseInput(req.Input, d.resolver(ctx, b))
	if err != nil {
		return 0, err
	}
	if !b.Session.IsZero() {
		cx, err := b.Client.Context(ctx, b.Session, api.GetContext{At: b.Parent, Recorded: !b.Parent.IsZero() && !req.MayDrop()})
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
	return n + tokens.Messages(counter, in.Messages), nil
}
