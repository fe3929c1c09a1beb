package reader

import (
	"context"

	"nexus/projections"
	"nexus/turns"
)

// Heirs returns the sessions that were forked from a session, and those that were forked from them.
func (rd *Reader) Heirs(ctx context.Context, id turns.ID) (out []turns.ID, err error) {
	seen, next := map[turns.ID]bool{id: true}, []turns.ID{id}
	for len(next) > 0 {
		of := next[0]
		next = next[1:]
		for after := (projections.Fork{}); ; {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if after, err = rd.Projections.NextFork(of, after); err != nil {
				return nil, err
			}
			if after == (projections.Fork{}) {
				break
			}
			if !seen[after.Session] {
				seen[after.Session], out, next = true, append(out, after.Session), append(next, after.Session)
			}
		}
	}
	return out, nil
}
