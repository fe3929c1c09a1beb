package alike

import (
	"crypto/sha256"
	"time"

	"nexus/turns"
)

// Sum stands for what is compared: equal sums are of equal values. The zero sum is of nothing.
type Sum = [sha256.Size]byte

// TurnSum is the sum of what a step says of a turn.
func TurnSum(messages []turns.Message, response *turns.Message, model string, u *turns.Usage, at time.Time, meta turns.Raw) Sum {
	var m map[string]turns.Raw
	_ = turns.DecodeJSON(meta, &m) // its members may be in another order
	when := ""
	if !at.IsZero() {
		when = at.UTC().Format(time.RFC3339Nano)
	}
	if messages == nil {
		messages = []turns.Message{}
	}
	return SumOf(messages, response, model, u, when, m)
}

// ResponseSum is the sum of what a response says; zero for none.
func ResponseSum(m *turns.Message) Sum {
	if m == nil {
		return Sum{}
	}
	return SumOf(m.Parts)
}

// SumOf is the sum of values.
func SumOf(values ...any) Sum {
	b, err := turns.EncodeJSON(values)
	if err != nil {
		return Sum{1} // like nothing that is stored
	}
	return sha256.Sum256(b)
}
