package backup

import (
	"context"
	"errors"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// Source reads what is stored.
type Source interface {
	// State returns where the streams end, as far as all of it was acknowledged.
	State(ctx context.Context) (*api.BackupState, error)
	// Read returns frames of the records of a stream from r.First on, of at most about so
	// many bytes and one record at least, and the position after them. One record alone, if r.Offset is
	// over 0. [api.Conflict]: a collection replaced the stream.
	Read(ctx context.Context, r api.ReadBackup, bytes int) (frames []byte, next uint64, err error)
}

// Backup reads a ledger for a backup. Safe for concurrent use.
type Backup struct {
	source  Source
	content *content.Store
	page    *page.Limits
}

// New returns the backup of what source reads; nil: there is nothing to read.
func New(source Source, cs *content.Store, limits *page.Limits) *Backup {
	return &Backup{source: source, content: cs, page: limits}
}

// maxKeyIDs bounds the keys of one request.
const maxKeyIDs = 1000

// permit returns nil if c, whose user has every tenant or not, may back the ledger up. A
// backup has the records of all tenants.
func (b *Backup) permit(c reader.Caller, everyTenant bool) error {
	if !c.Operator() || !everyTenant {
		return &api.Error{Code: api.Denied, Message: "only an operator of every tenant backs the ledger up"}
	}
	if b.source == nil {
		return &api.Error{Code: api.Unsupported, Message: "the streams are on an external NATS server: back them up with its tools"}
	}
	return nil
}

// State is backup.state.
func (b *Backup) State(ctx context.Context, c reader.Caller, everyTenant bool) (*api.BackupState, error) {
	if err := b.permit(c, everyTenant); err != nil {
		return nil, err
	}
	out, err := b.source.State(ctx)
	if err != nil {
		return nil, err
	}
	out.Sealed, out.Key = b.content.Keys != nil, turns.ID(b.content.Ledger)
	return out, nil
}

// Read is backup.read.
func (b *Backup) Read(ctx context.Context, c reader.Caller, everyTenant bool, r api.ReadBackup) (*api.BackupRecords, error) {
	if err := b.permit(c, everyTenant); err != nil {
		return nil, err
	}
	switch {
	case r.Stream != "log" && r.Stream != "blobs":
		return nil, api.FieldErrorf("/stream", "%.20q is neither log nor blobs", r.Stream)
	case r.Stream == "log" && r.Number != 0:
		return nil, api.FieldErrorf("/number", "the log has no number")
	case r.First == 0 || r.First > r.Last:
		return nil, api.FieldErrorf("/first", "not a position up to last")
	}
	room := b.page.Payload() * 11 / 16 // in JSON a byte takes four thirds
	frames, next, err := b.source.Read(ctx, r, room)
	if err != nil {
		return nil, err
	}
	out := &api.BackupRecords{Frames: frames, Next: next}
	if r.Offset == 0 && len(frames) <= room {
		return out, nil
	}
	if r.Offset < 0 || r.Offset >= len(frames) || next != r.First+1 {
		return nil, api.FieldErrorf("/offset", "not what a page gave as next_offset")
	}
	if out.Frames = frames[r.Offset:]; len(out.Frames) > room {
		out.Frames, out.Next, out.NextOffset = out.Frames[:room], r.First, r.Offset+room
	}
	return out, nil
}

// Keys is backup.keys. [api.Unsupported]: this daemon has no keys, as one with seal off; the
// ledger may have some.
func (b *Backup) Keys(_ context.Context, c reader.Caller, everyTenant bool, r api.BackupKeys) (*api.BackedUpKeys, error) {
	if err := b.permit(c, everyTenant); err != nil {
		return nil, err
	}
	if len(r.IDs) > maxKeyIDs {
		return nil, api.FieldErrorf("/ids", "%d ids, the limit is %d", len(r.IDs), maxKeyIDs)
	}
	if b.content.Keys == nil && len(r.IDs) > 0 {
		return nil, &api.Error{Code: api.Unsupported, Message: "this nexusd runs with seal off: it has no keys"}
	}
	out := &api.BackedUpKeys{Keys: []api.ExportKey{}}
	for _, id := range r.IDs {
		k, err := b.content.Keys.Content(id)
		switch {
		case errors.Is(err, turns.ErrErased):
			out.Erased = append(out.Erased, id)
		case errors.Is(err, seal.ErrNoKey):
		case err != nil:
			return nil, err
		default:
			out.Keys = append(out.Keys, api.ExportKey{ID: id, Key: k.Bytes(), Remains: k.Remains().Encode()})
		}
	}
	return out, nil
}
