package contexts

import (
	"github.com/go-json-experiment/json/jsontext"

	"nexus/cmd/internal/engine/content"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/render"
)

// A context repeats the context before it, and has a few messages more. So the messages
// of the last one are kept, with their JSON and their fingerprints. The next one
// compares its messages with them, and encodes and hashes only those that differ.

// renderedKey names the contexts of a session that are likely to begin alike.
type renderedKey struct {
	session turns.ID
	policy  turns.Hash
	format  string
}

// rendered is the messages of a context. Requests share it; nobody changes it.
type rendered struct {
	messages     []turns.Message
	fingerprints []view.Fingerprint // of messages[:i+1]
	memo         *render.Memo
	json         []jsontext.Value // of the format's messages
	sums         []messageSum     // of json
	size         int              // about how many bytes of memory it takes, without memo
}

// shared returns how many messages r and ms begin with in common.
func (r *rendered) shared(ms []turns.Message) (n int) {
	for n < min(len(r.messages), len(ms)) && r.messages[n].SameAs(&ms[n]) {
		n++
	}
	return n
}

// after returns the fingerprints of messages, of which the first n, that r begins with, are
// not hashed again.
func (r *rendered) after(ms []turns.Message, n int) *rendered {
	out := &rendered{messages: ms, fingerprints: make([]view.Fingerprint, n, len(ms)), memo: r.memo}
	copy(out.fingerprints, r.fingerprints)
	out.size = r.size - sizeOf(r.messages[n:]) + sizeOf(ms[n:])
	for i := n; i < len(ms); i++ {
		out.fingerprints = append(out.fingerprints, out.fingerprint().Add(&ms[i]))
	}
	return out
}

// fingerprint returns the fingerprint of all messages.
func (r *rendered) fingerprint() view.Fingerprint {
	if len(r.fingerprints) == 0 {
		return view.NewFingerprint()
	}
	return r.fingerprints[len(r.fingerprints)-1]
}

// sizeOf returns about how many bytes of memory messages take, with their JSON and a state
// of SHA-256 each.
func sizeOf(ms []turns.Message) int {
	const frame = 1 << 10
	return 2*content.MessagesSize(ms) + frame*len(ms)
}
