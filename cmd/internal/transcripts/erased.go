package transcripts

import (
	"context"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// IsErased reports whether a ledger has erased a session. One that it does not have is not erased.
func IsErased(ctx context.Context, c *client.Client, id turns.ID) (bool, error) {
	s, err := c.Session(ctx, id)
	if api.HasCode(err, api.NotFound) {
		return false, nil
	}
	return err == nil && s.State == turns.Erased.String(), err
}

// NoneReadable reports whether a ledger can read none of some sessions: each is erased, or is not there.
func NoneReadable(ctx context.Context, c *client.Client, sessions []turns.ID) (bool, error) {
	for _, id := range sessions {
		s, err := c.Session(ctx, id)
		switch {
		case api.HasCode(err, api.NotFound):
		case err != nil:
			return false, err
		case s.State != turns.Erased.String():
			return false, nil
		}
	}
	return true, nil
}
