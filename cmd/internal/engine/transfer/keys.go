package transfer

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// pendingKey names a content key that came before the first event of its session.
// The key stays in memory until then. It is stored only together with an event that
// opens under it, so that nobody can choose the key of a future session.
type pendingKey struct {
	reader.Caller
	id turns.ID
}

// pendingKeyBytes is what a key weighs in the cache, which has room for 65,536 keys.
const pendingKeyBytes = 1 << 10

// importKeyring has the keys that an import may use: those of sessions that the
// caller may see, and those that came with the import.
type importKeyring struct {
	transfer *Transfer
	caller   reader.Caller
}

// keyring returns the importKeyring of a caller, nil if the ledger does not seal.
func (tr *Transfer) keyring(c reader.Caller) seal.Keyring {
	if tr.content.Keys == nil {
		return nil
	}
	return importKeyring{tr, c}
}

// Content implements [seal.Keyring].
func (r importKeyring) Content(id turns.ID) (seal.Content, error) {
	s, err := r.transfer.reader.Projections.Session(id)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		if k, ok := r.transfer.pendingKeys.Get(pendingKey{r.caller, id}); ok {
			return k, nil
		}
	case err != nil:
		return seal.Content{}, err
	case reader.CheckVisible(r.caller, &s) == nil:
		return r.transfer.content.Keys.Content(id)
	}
	return seal.Content{}, fmt.Errorf("%w: of %s", seal.ErrNoKey, id)
}

// tree returns a tree of forks, if the caller may see it.
func (tr *Transfer) tree(c reader.Caller, root turns.ID) (content.Tree, error) {
	if tr.content.Keys != nil {
		return tr.content.TreeBy(importKeyring{tr, c}, root)
	}
	if s, err := tr.reader.Projections.Session(root); err == nil && reader.CheckVisible(c, &s) != nil {
		return content.Tree{}, fmt.Errorf("%w: of %s", seal.ErrNoKey, root)
	}
	return tr.content.Tree(root)
}

// importKey takes the content key of a session.
func (tr *Transfer) importKey(ctx context.Context, c reader.Caller, k *api.ExportKey) error {
	if err := tr.writer.CheckID("/key/id", k.ID); err != nil {
		return err
	}
	if len(k.Remains) == 0 && len(k.Key) != len(seal.Key{}) {
		return api.FieldErrorf("/key/key", "%d bytes, a key has %d", len(k.Key), len(seal.Key{}))
	}
	key, err := seal.ReadContent(k.Key, k.Remains)
	if err != nil {
		return api.FieldErrorf("/key/remains", "%d bytes are not what is left of a key", len(k.Remains))
	}
	if tr.content.Keys == nil {
		return &api.Error{Code: api.Unsupported, Message: "this ledger does not seal and keeps no keys; it can't take a sealed export"}
	}
	if _, err := tr.reader.CatchUp(ctx, c.Tenant, k.ID); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	s, err := tr.reader.Projections.Session(k.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		tr.pendingKeys.Put(pendingKey{c, k.ID}, key, pendingKeyBytes+len(k.Remains))
		return nil
	}
	if err != nil {
		return err
	}
	if reader.CheckVisible(c, &s) != nil {
		return notImportable(k.ID)
	}
	return tr.restoreKey(c, &s, key)
}

// restoreKey takes the key of a stored session. The key must be the one that is
// stored here, or, if that is lost, open the session's first event. What is left of the key here stays where the import has
// all of it; what the import has left of it takes its place, for the operator.
func (tr *Transfer) restoreKey(c reader.Caller, s *ledger.Session, k seal.Content) error {
	have, err := tr.content.Keys.Content(s.ID)
	switch {
	case err != nil || have.Same(k):
	case have.SameOrigin(k) && (k.Remains() == nil || have.IsLeftOf(k)):
		return nil
	case k.IsLeftOf(have) && k.Covers(s.Tail.Index): // else what was stored here since would be lost
		if !c.Operator() {
			return &api.Error{Code: api.Denied, Message: fmt.Sprintf("turns of session %s were redacted where the export is from; only the operator brings that", s.ID)}
		}
		return tr.putKey(s.ID, k)
	default:
		return &api.Error{Code: api.Conflict, Message: fmt.Sprintf("session %s has another key here", s.ID)}
	}
	if !errors.Is(err, seal.ErrNoKey) {
		return err
	}
	payload, err := tr.reader.Projections.EventAt(s.ID, 0)
	if err != nil {
		return err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return err
	}
	if len(ev.Keys) == 0 {
		return &api.Error{Code: api.Conflict, Message: fmt.Sprintf("the first event of session %s is not sealed: it has no key", s.ID)}
	}
	if err := content.OpenCommitted(oneKey{s.ID, k}, ev, new(turns.OpenedBody)); err != nil {
		return err
	}
	return tr.putKey(s.ID, k)
}

// putKey stores a key, or what is left of one.
func (tr *Transfer) putKey(id turns.ID, k seal.Content) error {
	if left := k.Remains(); left != nil {
		return tr.content.Keys.PutRemains(id, left)
	}
	whole, err := k.Whole()
	if err != nil {
		return err
	}
	return tr.content.Keys.Put(id, whole)
}

// oneKey is a keyring with one key.
type oneKey struct {
	id  turns.ID
	key seal.Content
}

// Content implements [seal.Keyring].
func (k oneKey) Content(id turns.ID) (seal.Content, error) {
	if id != k.id {
		return seal.Content{}, fmt.Errorf("%w: of %s", seal.ErrNoKey, id)
	}
	return k.key, nil
}

// newKey returns the key that opened a session's first event. It returns an error if
// another key is stored under its id.
func (tr *Transfer) newKey(c reader.Caller, id turns.ID) (*seal.Content, error) {
	k, err := importKeyring{tr, c}.Content(id)
	if err != nil {
		return nil, missingDependency(err)
	}
	have, err := tr.content.Keys.Content(id)
	switch {
	case errors.Is(err, seal.ErrNoKey), err == nil && have.Same(k):
		return &k, nil
	case err == nil:
		return nil, notImportable(id)
	}
	return nil, fmt.Errorf("the key of session %s: %w", id, err)
}
