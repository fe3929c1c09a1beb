package contexts

import (
	"crypto/sha256"
	"sync/atomic"
	"unsafe"

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
	shown        []turns.Raw      // json, as the contract has it
	sums         []messageSum     // of json
	system       jsontext.Value   // the format's system member, nil if it has none
	systemSum    turns.Hash       // of system; zero if that is nil
	grown        atomic.Bool      // a context goes on in the room behind the lists
	size         int              // about how many bytes of memory it takes, without memo
}

// after returns what is kept of the context of ms, whose first n messages r has too, and of how it was rendered. It hashes
// what r has not. The first context that goes on behind all of r gets the room behind its lists, which nobody reads; another
// gets copies.
func (r *rendered) after(ms []turns.Message, n int, by *render.Rendered) *rendered {
	json := by.Messages
	same := commonJSON(r.json, json)
	out := &rendered{messages: ms, json: json, memo: by.Memo(), system: by.System, size: r.size - sizeOf(r.messages[n:]) + sizeOf(ms[n:])}
	if n == len(r.fingerprints) && same == len(r.sums) && r.grown.CompareAndSwap(false, true) {
		out.fingerprints, out.shown, out.sums = r.fingerprints, r.shown, r.sums
	} else {
		out.fingerprints = append(make([]view.Fingerprint, 0, room(len(ms))), r.fingerprints[:n]...)
		out.shown = append(make([]turns.Raw, 0, room(len(json))), r.shown[:same]...)
		out.sums = append(make([]messageSum, 0, room(len(json))), r.sums[:same]...)
	}
	switch {
	case by.System == nil:
	case isSame(by.System, r.system):
		out.systemSum = r.systemSum
	default:
		out.systemSum = sha256.Sum256(by.System)
	}
	for i := n; i < len(ms); i++ {
		out.fingerprints = append(out.fingerprints, out.fingerprint().Add(&ms[i]))
	}
	for i := same; i < len(json); i++ {
		out.shown = append(out.shown, turns.Raw(json[i]))
		if i < len(r.json) && isSame(json[i], r.json[i]) {
			out.sums = append(out.sums, r.sums[i])
			continue
		}
		h := sha256.Sum256(json[i])
		out.sums = append(out.sums, messageSum(h[:len(messageSum{})]))
	}
	return out
}

// room is the capacity of lists of n that may get longer.
func room(n int) int { return n + n/8 + 8 }

// commonJSON returns how many values a and b begin with in common, of one memory.
func commonJSON(a, b []jsontext.Value) (n int) {
	shorter := min(len(a), len(b))
	if shorter > 0 && &a[0] == &b[0] {
		return shorter
	}
	for n < shorter && isSame(a[n], b[n]) {
		n++
	}
	return n
}

// isSame reports whether two values are one in memory.
func isSame(a, b jsontext.Value) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
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
