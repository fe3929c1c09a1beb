package kinds

import (
	"nexus/ledger/api"
	"nexus/turns"
)

// Kind is the index of a kind in [All].
type Kind int

// The kinds, in the order in which legends list them.
const (
	System    Kind = iota // the system part and the definitions of tools
	Summary               // what stands for turns that a compaction covers
	Memory                // memories, and what a query brought back
	Verbatim              // turns word for word
	Shortened             // turns of which a part is left out
	Notice                // what the ledger says in place of what is missing
	Uncounted             // what the provider counted beyond the ledger's estimate
)

// These colours can be distinguished with every common kind of colour vision (Okabe and
// Ito, 2008, the darker of them), on white and on black.
const (
	Blue   = "#0072b2"
	Orange = "#d55e00"
	Green  = "#009e73"
	Pink   = "#b4609a"
	Ochre  = "#b58900"
	Sky    = "#3d9bd1"
	Grey   = "#7f7f7f"
	Red    = "#c0504d"
)

// Look is how a kind looks.
type Look struct {
	ID     string // in the names of styles and shapes
	Name   string
	Colour string
	Glyph  string // the shape, where there is text alone
}

// All is the look of each kind.
var All = [...]Look{
	System:    {"system", "system and tools", Grey, "▤"},
	Summary:   {"summary", "summary", Pink, "◆"},
	Memory:    {"memory", "memories", Ochre, "●"},
	Verbatim:  {"verbatim", "kept word for word", Blue, "■"},
	Shortened: {"shortened", "shown shortened", Orange, "◧"},
	Notice:    {"notice", "put in by the ledger", Red, "▲"},
	Uncounted: {"uncounted", "beyond the estimate", Sky, "□"},
}

// Look is how k looks.
func (k Kind) Look() Look { return All[k] }

// Of is the kind of a part of a context with a status of [api.Source].
func Of(status string) Kind {
	switch status {
	case "summary":
		return Summary
	case "memory", "recalled":
		return Memory
	case "verbatim":
		return Verbatim
	case "elided", "trimmed", "cleared":
		return Shortened
	}
	return Notice // a notice in place of what is missing, dropped or erased
}

// NameOf is a status of [api.Source] for people: as legends name its kind, and how a part was shortened.
func NameOf(status string) string {
	switch k := Of(status); k {
	case Verbatim:
		return k.Look().Name
	case Shortened:
		return k.Look().Name + ": " + status
	}
	return status
}

// Span is what a context shows of one turn in one kind.
type Span struct {
	Kind   Kind
	Turn   turns.ID // none: the system part and the tools
	Tokens uint64
}

// Spans is what a context is made of, in the order in which the model reads it.
// Where a provider counted it, the sum is that count: what it counted beyond the
// ledger's estimate comes first, since a system part that was never stored does; a
// lower count makes every span smaller.
func Spans(cx *api.Context) (out []Span) {
	used := cx.Tokens + cx.Overhead
	if cx.Reported > used {
		out = append(out, Span{Kind: Uncounted, Tokens: cx.Reported - used})
	}
	add := func(k Kind, turn turns.ID, tokens uint64) {
		if cx.Reported > 0 && cx.Reported < used {
			tokens = uint64(float64(tokens) * float64(cx.Reported) / float64(used))
		}
		if n := len(out); n > 0 && out[n-1].Turn == turn && out[n-1].Kind == k {
			out[n-1].Tokens += tokens
			return
		}
		out = append(out, Span{k, turn, tokens})
	}
	if cx.Overhead > 0 {
		add(System, turns.ID{}, cx.Overhead)
	}
	for _, s := range cx.Sources {
		if s.Half == "memory" {
			continue // part of the overhead
		}
		add(Of(s.Status), s.Turn, s.Tokens)
	}
	return out
}
