package client

import (
	"context"

	"nexus/ledger/api"
	"nexus/turns"
)

// Checkpoint is audit.checkpoint: it signs now.
func (c *Client) Checkpoint(ctx context.Context) (*api.Checkpoint, error) {
	return read[api.Checkpoint](ctx, c, "audit.checkpoint", turns.ID{}, api.GetCheckpoint{})
}

// CheckpointKey is audit.key.
func (c *Client) CheckpointKey(ctx context.Context) (*api.CheckpointKey, error) {
	return read[api.CheckpointKey](ctx, c, "audit.key", turns.ID{}, api.GetKey{})
}

// Consistency is audit.consistency.
func (c *Client) Consistency(ctx context.Context, r api.GetConsistency) (*api.Consistency, error) {
	return read[api.Consistency](ctx, c, "audit.consistency", turns.ID{}, r)
}

// Proof is audit.proof.
func (c *Client) Proof(ctx context.Context, session turns.ID, r api.GetProof) (*api.TurnProof, error) {
	return read[api.TurnProof](ctx, c, "audit.proof", session, r)
}

// VerifyCheckpoint is audit.verify of everything, which is compared with a checkpoint too.
func (c *Client) VerifyCheckpoint(ctx context.Context, note string) (*api.Verified, error) {
	return read[api.Verified](ctx, c, "audit.verify", turns.ID{}, &api.Verify{Checkpoint: note})
}
