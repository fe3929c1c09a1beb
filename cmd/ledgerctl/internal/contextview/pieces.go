package contextview

import (
	"fmt"

	"nexus/ledger/api"
	"nexus/turns"
)

// Piece is what a context shows of one source: of a half of a turn, or of what stands
// for others.
type Piece struct {
	api.Source
	Messages []turns.Message
}

// PiecesOf splits a context that was asked for with explain. Each message is in one
// piece. A source without a message has a piece too.
func PiecesOf(cx *api.Context) ([]Piece, error) {
	out := make([]Piece, 0, len(cx.Sources))
	next := 0
	for _, s := range cx.Sources {
		p := Piece{Source: s}
		for range min(s.Messages, uint64(len(cx.Messages)-next)) {
			var m turns.Message
			if err := turns.DecodeJSON(cx.Messages[next], &m); err != nil {
				return nil, fmt.Errorf("message %d of a context: %w", next, err)
			}
			p.Messages, next = append(p.Messages, m), next+1
		}
		out = append(out, p)
	}
	if next != len(cx.Messages) {
		return nil, fmt.Errorf("a context has %d messages, and sources for %d", len(cx.Messages), next)
	}
	return out, nil
}
