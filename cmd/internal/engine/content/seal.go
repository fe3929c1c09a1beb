package content

import (
	"context"
	"errors"
	"fmt"
	"io"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// Seal moves the large parts of body to blobs, compresses and seals the rest under
// keys into ev, and returns the encoded event. The first key is that of the event's
// chain. A nil body leaves ev without one. The digest of the request in ev is put under
// the event's key, so ev is sealed once: who tries again makes another event.
func (cs *Store) Seal(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, body any, keys []turns.ID) ([]byte, error) {
	var b []byte
	if body != nil {
		err := cs.Offload(ctx, tenant, root, ev, body)
		if err == nil {
			b, err = turns.EncodeBody(body)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := seal.Seal(ev, b, cs.Keyring(), keys, cs.Rand); err != nil {
		return nil, err
	}
	return ev.Encode()
}

// SameRequest reports whether a stored event has the digest of a request.
//
// Errors: [*MissingKeyError], [*SealOffError]; [ledger.ErrErased] if a key of the event
// is destroyed: then nobody can tell any more.
func (cs *Store) SameRequest(ev *turns.Event, request turns.Hash) (bool, error) {
	ring := cs.OpeningKeyring()
	if cs.Keys == nil && len(ev.Keys) == 0 {
		ring = nil
	}
	return seal.SameRequest(ev, ring, request)
}

// Keyring returns the keyring to seal with, nil if the ledger does not seal.
func (cs *Store) Keyring() seal.Keyring {
	if cs.Keys == nil {
		return nil
	}
	return keyring{cs.Keys}
}

// OpeningKeyring returns the keyring to open with. If the ledger does not seal, it opens
// only what is not sealed: its keys are a [*SealOffError].
func (cs *Store) OpeningKeyring() seal.Keyring {
	if cs.Keys == nil {
		return sealOff{}
	}
	return keyring{cs.Keys}
}

type sealOff struct{}

// Content implements [seal.Keyring].
func (sealOff) Content(id turns.ID) (seal.Content, error) { return seal.Content{}, &SealOffError{id} }

// SealOffError says that content is sealed and that this daemon, with seal off, has no
// keys. It is [ledger.ErrUnsupported] and [seal.ErrNoKey].
type SealOffError struct{ ID turns.ID }

// Error returns the text of the error.
func (e *SealOffError) Error() string { return e.contract().Message }

// Unwrap returns the error as the contract has it, and [seal.ErrNoKey].
func (e *SealOffError) Unwrap() []error { return []error{e.contract(), seal.ErrNoKey} }

func (e *SealOffError) contract() *api.Error {
	return api.Errorf(api.Unsupported, map[string]any{"key": e.ID.String()},
		"it is sealed under key %s, and this nexusd runs with seal off: the operator starts it with --seal on", e.ID)
}

// keyring is a key store whose errors name a missing key as this package does.
type keyring struct{ keys Keys }

// Content implements [seal.Keyring]. Errors: those of [Store.Key].
func (r keyring) Content(id turns.ID) (seal.Content, error) {
	k, err := r.keys.Content(id)
	if errors.Is(err, seal.ErrNoKey) {
		err = &MissingKeyError{id}
	}
	return k, err
}

// MissingKeyError says that the content key with an id is not in the key store: what
// is sealed under it can't be read. It is [ledger.ErrCorrupt] and [seal.ErrNoKey]. A
// key that was destroyed is [ledger.ErrErased] instead.
type MissingKeyError struct{ ID turns.ID }

// Error returns the text of the error.
func (e *MissingKeyError) Error() string { return e.contract().Message }

// Unwrap returns the error as the contract has it, and [seal.ErrNoKey].
func (e *MissingKeyError) Unwrap() []error { return []error{e.contract(), seal.ErrNoKey} }

func (e *MissingKeyError) contract() *api.Error {
	return api.Errorf(api.Corrupt, map[string]any{"key": e.ID.String()},
		"content can't be read: no key %s; the operator puts it back from a backup, with nexusd keys", e.ID)
}

// Key returns the content key of a session, or what is left of it, the zero key if the ledger does not
// seal.
//
// Errors: [*MissingKeyError]; [ledger.ErrErased] if the key is destroyed.
func (cs *Store) Key(id turns.ID) (seal.Content, error) {
	if cs.Keys == nil {
		return seal.Content{}, nil
	}
	return keyring{cs.Keys}.Content(id)
}

// EnsureKey makes the content key of an id if there is none. Where events were taken from it, what is left of it seals
// what comes. Errors: those of [Keys].Create.
func (cs *Store) EnsureKey(id turns.ID) error {
	_, err := cs.Keys.Create(id, cs.Rand)
	if errors.Is(err, seal.ErrPunctured) {
		return nil
	}
	return err
}

// LedgerKey returns the ledger's own key, and makes it if there is none. It returns
// the zero key if nothing is sealed.
func (cs *Store) LedgerKey() (seal.Key, error) {
	if cs.Keys == nil {
		return seal.Key{}, nil
	}
	k, err := cs.Keys.Create(turns.ID(cs.Ledger), cs.Rand)
	if err != nil {
		return k, fmt.Errorf("the key of the ledger: %w", err)
	}
	return k, nil
}

// AgentKeyID returns the id of an agent's content key. See [seal.AgentKeyID].
func (cs *Store) AgentKeyID(tenant, agent string) (turns.ID, error) {
	k, err := cs.LedgerKey()
	return seal.AgentKeyID(k, tenant, agent), err
}

// AgentKey returns the content key of an agent, or what is left of it, and makes it if there is none. It is
// durable before the first event that is sealed under it. It returns the zero key if
// nothing is sealed.
//
// Errors: [ledger.ErrErased] if the key is destroyed.
func (cs *Store) AgentKey(tenant, agent string) (seal.Content, error) {
	if cs.Keys == nil {
		return seal.Content{}, nil
	}
	id, err := cs.AgentKeyID(tenant, agent)
	if err != nil {
		return seal.Content{}, err
	}
	k, err := cs.Keys.Create(id, cs.Rand)
	if errors.Is(err, seal.ErrPunctured) {
		return cs.Keys.Content(id)
	}
	if err != nil {
		return seal.Content{}, fmt.Errorf("the key of agent %s: %w", agent, err)
	}
	return k.Content(), nil
}

// Open opens the body of a stored event into body: where it was redacted, the one that stands in the place of its own.
func (cs *Store) Open(ev *turns.Event, body any) error {
	if _, b, err := cs.Redaction(ev); err != nil {
		return err
	} else if b != nil {
		return decodeBody(ev, b.Body, body)
	}
	return OpenBody(cs.OpeningKeyring(), ev, body)
}

// OpenBody opens the body of an event with the keys of ring. A body that can be
// unsealed but not decoded is [ledger.ErrCorrupt], since no request is wrong.
func OpenBody(ring seal.Keyring, ev *turns.Event, body any) error {
	if len(ev.Body) == 0 && ev.Encoding == 0 {
		return nil
	}
	b, err := seal.Open(ev, ring)
	if err != nil {
		return err // it names the event
	}
	return decodeBody(ev, b, body)
}

// OpenCommitted is [OpenBody] for who does not trust the writer: it checks as well that
// the body is what the header commits to, and that the JSON in it is sound.
func OpenCommitted(ring seal.Keyring, ev *turns.Event, body any) error {
	if len(ev.Body) == 0 && ev.Encoding == 0 {
		return nil
	}
	b, err := seal.OpenCommitted(ev, ring)
	if err != nil {
		return err
	}
	if err := decodeBody(ev, b, body); err != nil {
		return err
	}
	if err := turns.CheckBody(body); err != nil {
		return fmt.Errorf("%w: the body of %s %s: %v", ledger.ErrCorrupt, ev.Kind, ev.ID, err)
	}
	return nil
}

func decodeBody(ev *turns.Event, b []byte, body any) error {
	err := turns.DecodeBody(b, body)
	if errors.Is(err, turns.ErrUnsupported) { // a later build wrote it
		return fmt.Errorf("the body of %s %s: %w", ev.Kind, ev.ID, err)
	}
	if err != nil {
		return fmt.Errorf("%w: the body of %s %s: %v", ledger.ErrCorrupt, ev.Kind, ev.ID, err)
	}
	return nil
}

// Keys is the key store as the engine uses it. A nil Keys means that the ledger does
// not seal.
type Keys interface {
	seal.Keyring
	Create(id turns.ID, rand io.Reader) (seal.Key, error)
	// Begin is Create that returns before the second copy is durable, for which durable waits. It is
	// called once if err is nil.
	Begin(id turns.ID, rand io.Reader) (k seal.Key, durable func() error, err error)
	Put(id turns.ID, k seal.Key) error
	// Destroy makes keys unreadable for ever.
	Destroy(ids ...turns.ID) error
	// Puncture makes events of a chain unreadable for ever; see keyring.Store.
	Puncture(id turns.ID, begun uint64, indexes ...uint64) error
	// PutRemains stores what is left of a key; see keyring.Store.
	PutRemains(id turns.ID, left *seal.Remains) error
	// OnDestroy has f called when a key was destroyed, or events were taken from it. f must not call Keys.
	OnDestroy(f func())
}
