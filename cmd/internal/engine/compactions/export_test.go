package compactions

import (
	"context"

	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/turns"
)

// What tests of this room reach of its background.

func (cm *Compactions) Enqueue(ctx context.Context, c reader.Caller, session turns.ID) (queued bool) {
	j, added := cm.enqueue(ctx, c, session, Spec{}, 0)
	return j != nil && added
}

func (cm *Compactions) Prepare(ctx context.Context, c reader.Caller, session, head turns.ID) (queued bool) {
	return cm.prepare(ctx, c, session, head, 2) != nil
}

func (cm *Compactions) Pause(ctx context.Context, c reader.Caller, session, head turns.ID) {
	cm.pause(ctx, c, session, head)
}

func (cm *Compactions) FindRun(ctx context.Context, session, id turns.ID) {
	_, _ = cm.findRun(ctx, session, writer.Request{ID: id})
}

// MaxBackground and MaxOfAgent are the places of the queue, of all and of one agent.
const MaxBackground, MaxOfAgent = maxBackground, maxPerAgent

// WithQueue returns compactions whose queue nobody works on.
func WithQueue() *Compactions {
	cm := new(Compactions)
	cm.background.workers, cm.background.queue, cm.background.agents = 1, make(chan *job, maxBackground), make(map[string]int)
	return cm
}
