package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"nexus/compactor/policy"
	"nexus/turns"
)

// RendererVersion names how [Render] turns a path into messages. It changes whenever
// the bytes for some path change.
const RendererVersion = "render-1"

// Recipe holds what is needed to build the same context again. The same recipe on
// the same ledger gives the same bytes, whatever was appended since, whatever the
// time is and however the daemon is configured.
type Recipe struct {
	Renderer   string           `json:"renderer"`
	Session    turns.ID         `json:"session"`
	Head       TurnName         `json:"head,omitzero"`
	Compaction TurnName         `json:"compaction,omitzero"` // the compaction in force; absent: none
	Settings   turns.ID         `json:"settings,omitzero"`   // the event of the session that holds the settings
	Policy     turns.Hash       `json:"policy"`
	Requested  *RequestedPolicy `json:"asked,omitempty"` // the requested policy, if it was not the session's
	Counter    string           `json:"counter"`
	Limits     turns.Limits     `json:"limits,omitzero"`  // the limits used, after those of the model
	Budget     uint64           `json:"budget"`           // the budget that it had to fit, overhead included; 0: none
	Summary    string           `json:"summary,omitzero"` // who wrote the summary of a view that its budget squeezed, with its version; absent: no view was squeezed, or a build before 0.1 wrote the recipe
	Cache      string           `json:"cache,omitzero"`   // "cold" or "warm", if the policy's view depends on it: see [policy.Prune]
	Memory     *MemoryRecipe    `json:"memory,omitempty"`
	Recalled   []RecalledPart   `json:"recalled,omitempty"` // pieces of older turns that a query brought back, in path order
}

// MemoryRecipe says which memories a context was given. nil: none.
type MemoryRecipe struct {
	Ledger   string     `json:"ledger"`             // whose positions count
	Position uint64     `json:"position"`           // what came later on the log does not count
	Day      string     `json:"day,omitzero"`       // the day that was today, as in 2026-11-22
	Zone     string     `json:"zone,omitzero"`      // IANA name of the zone of the days
	Episodes []turns.ID `json:"episodes,omitempty"` // those that ranked best, best first
}

// RequestedPolicy names a policy and its overrides.
type RequestedPolicy struct {
	Name string    `json:"name"`
	Set  turns.Raw `json:"set,omitempty"`
}

// The values of [Recipe].Cache.
const (
	cacheCold = "cold"
	cacheWarm = "warm"
)

// TurnName is a [turns.Ref] as a JSON object.
type TurnName struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn"`
}

// Ref returns the turn that n names.
func (n TurnName) Ref() turns.Ref { return turns.Ref{Session: n.Session, Turn: n.Turn} }

// NameOf returns r as a JSON object.
func NameOf(r turns.Ref) TurnName { return TurnName{r.Session, r.Turn} }

// NewRecipe returns the recipe of Render(p, p.Counter) under the policy with a digest and a
// budget. The caller sets Settings and Requested.
func NewRecipe(p Path, pol turns.Hash, budget uint64) Recipe {
	r := Recipe{
		Renderer: RendererVersion, Session: p.Session, Head: NameOf(p.Head.Ref), Compaction: NameOf(p.Previous()),
		Policy: pol, Counter: p.CountedBy().Name(), Limits: p.Limits, Budget: budget,
	}
	if p.View.When == "cache_cold" {
		if r.Cache = cacheWarm; p.Cold {
			r.Cache = cacheCold
		}
	}
	return r
}

// Replay returns p as it was when the recipe was written. p is loaded under pol at
// the recipe's head.
//
// Error: [turns.ErrUnsupported] if p differs from the recipe in a way that this
// build cannot undo.
func (r Recipe) Replay(p Path, pol policy.Policy) (Path, error) {
	not := func(what string, have, want any) error {
		return fmt.Errorf("%w: the recipe is of %s %v, here it is %v", turns.ErrUnsupported, what, want, have)
	}
	switch {
	case pol.Digest() != r.Policy:
		return p, not("policy", pol.Digest(), r.Policy)
	case p.CountedBy().Name() != r.Counter:
		return p, not("counter", p.CountedBy().Name(), r.Counter)
	case p.Head.Ref != r.Head.Ref():
		return p, not("head", p.Head.Ref, r.Head.Ref())
	case p.Previous() != r.Compaction.Ref():
		return p, not("compaction", p.Previous(), r.Compaction.Ref())
	}
	p.Limits, p.Cold = r.Limits, r.Cache == cacheCold
	return p, nil
}

// JSON returns the recipe as a turn stores it.
func (r Recipe) JSON() (turns.Raw, error) {
	b, err := turns.EncodeJSON(r)
	return b, err
}

// isLater reports whether a renderer is one of a later build.
func isLater(renderer string) bool {
	number := func(s string) uint64 {
		n, _ := strconv.ParseUint(strings.TrimPrefix(s, "render-"), 10, 32)
		return n
	}
	return strings.HasPrefix(renderer, "render-") && number(renderer) > number(RendererVersion)
}

// ParseRecipe reads a recipe. Errors: [turns.FieldError]; [turns.ErrUnsupported] for
// another renderer version and for a recipe that names no settings.
func ParseRecipe(raw turns.Raw) (Recipe, error) {
	var r Recipe
	if err := turns.DecodeJSON(raw, &r); err != nil {
		return Recipe{}, fmt.Errorf("read recipe: %w", err)
	}
	if isLater(r.Renderer) {
		return Recipe{}, fmt.Errorf("read recipe: %w", &turns.VersionError{What: "renderer", Version: r.Renderer, Known: RendererVersion})
	}
	if r.Renderer != RendererVersion {
		return Recipe{}, fmt.Errorf("read recipe: %w: renderer %.40q, this build has %s", turns.ErrUnsupported, r.Renderer, RendererVersion)
	}
	if r.Settings.IsZero() {
		return Recipe{}, fmt.Errorf("read recipe: %w: it does not say under which settings", turns.ErrUnsupported)
	}
	if len(r.Recalled) > MaxRecalled {
		return Recipe{}, fmt.Errorf("read recipe: %w: it brings %d pieces back, the limit is %d", turns.ErrMalformed, len(r.Recalled), MaxRecalled)
	}
	if m := r.Memory; m != nil {
		if _, err := time.Parse(time.DateOnly, m.Day); m.Day != "" && err != nil || len(m.Episodes) > policy.MaxEpisodes || m.Position == 0 {
			return Recipe{}, fmt.Errorf("read recipe: %w: its memory has no position, a day that is none, or over %d episodes", turns.ErrMalformed, policy.MaxEpisodes)
		}
	}
	return r, nil
}
