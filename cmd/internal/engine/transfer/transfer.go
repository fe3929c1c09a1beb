package transfer

import (
	"context"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/policies"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/sessions"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// Transfer takes sessions out of a ledger and brings them into another, byte for
// byte. Safe for concurrent use.
type Transfer struct {
	content  *content.Store
	page     *page.Limits
	paths    *paths.Loader
	reader   *reader.Reader
	writer   *writer.Writer
	policies *policies.Policies
	sessions *sessions.Sessions

	exports     *cache.Cache[turns.ID, *firstMentions] // by session
	pendingKeys *cache.Cache[pendingKey, seal.Content] // keys of sessions that an import is about to open

	pendingPolicies *cache.Cache[pendingPolicy, policy.Policy] // that an imported event is about to name

	opened chan struct{} // one for each body of an import that is in memory
}

// maxOpened is how many bodies of imports are open at a time. A body of a few hundred bytes can hold
// [turns.MaxElements] parts, some 110 MB in memory, and nothing tells before it is open.
const maxOpened = 4

// waitToOpen waits until a body may be opened; the caller calls release when it is done with it.
// [api.Busy] if ctx ends first.
func (tr *Transfer) waitToOpen(ctx context.Context) (release func(), err error) {
	select {
	case tr.opened <- struct{}{}:
		return func() { <-tr.opened }, nil
	case <-ctx.Done():
		return nil, &api.Error{Code: api.Busy, Message: "as many imported bodies are being checked as there is memory for", Details: map[string]any{"retry_after_ms": 1000}}
	}
}

// These bound the keys and the policies that wait for the events of their sessions.
// Each kind has its own budget, so that no other cache drives it out.
const (
	pendingBytes       = 64 << 20
	pendingPolicyBytes = 32 << 20
)

// New returns the transfer of the sessions of ss.
func New(cs *content.Store, limits *page.Limits, pl *paths.Loader, r *reader.Reader, w *writer.Writer, ps *policies.Policies, ss *sessions.Sessions, budget *cache.Budget) *Transfer {
	return &Transfer{
		content: cs, page: limits, paths: pl, reader: r, writer: w, policies: ps, sessions: ss,
		exports: cache.New[turns.ID, *firstMentions](budget, "exports"), pendingKeys: cache.New[pendingKey, seal.Content](cache.NewBudget(pendingBytes), "keys"),
		opened:          make(chan struct{}, maxOpened),
		pendingPolicies: cache.New[pendingPolicy, policy.Policy](cache.NewBudget(pendingPolicyBytes), "policies"),
	}
}
