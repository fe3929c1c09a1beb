package contexts

import (
	"crypto/sha256"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/cmd/internal/engine/content"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/render"
	"nexus/turns/shared"
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
	fingerprints shared.List[view.Fingerprint] // of messages[:i+1]
	memo         *render.Memo
	json         []jsontext.Value        // of the format's messages
	shown        shared.List[turns.Raw]  // json, as the contract has it
	sums         shared.List[messageSum] // of json
	system       jsontext.Value          // the format's system member, nil if it has none
	systemSum    turns.Hash              // of system; zero if that is nil
	size         int                     // about how many bytes of memory it takes, without memo
}

// after returns what is kept of the context of ms, whose first n messages r has too, and of how it was rendered. It hashes
// what r has not.
func (r *rendered) after(ms []turns.Message, n int, by *render.Rendered) *rendered {
	json := by.Messages
	same := commonJSON(r.json, json)
	out := &rendered{messages: ms, json: json, memo: by.Memo(), system: by.System, size: r.size - sizeOf(r.messages[n:]) + sizeOf(ms[n:])}
	fingerprints, shown, sums := r.fingerprints.First(n, len(ms)), r.shown.First(same, len(json)), r.sums.First(same, len(json))
	switch {
	case by.System == nil:
	case isSame(by.System, r.system):
		out.systemSum = r.systemSum
	default:
		out.systemSum = sha256.Sum256(by.System)
	}
	for i := n; i < len(ms); i++ {
		fingerprints = append(fingerprints, last(fingerprints).Add(&ms[i]))
	}
	for i := same; i < len(json); i++ {
		shown = append(shown, turns.Raw(json[i]))
		if i < len(r.json) && isSame(json[i], r.json[i]) {
			sums = append(sums, r.sums.Items()[i])
			continue
		}
		h := sha256.Sum256(json[i])
		sums = append(sums, messageSum(h[:len(messageSum{})]))
	}
	out.fingerprints, out.shown, out.sums = shared.Of(fingerprints), shared.Of(shown), shared.Of(sums)
	return out
}

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
func (r *rendered) fingerprint() view.Fingerprint { return last(r.fingerprints.Items()) }

// last returns the last of the fingerprints of the beginnings of a list of messages.
func last(fs []view.Fingerprint) view.Fingerprint {
	if len(fs) == 0 {
		return view.NewFingerprint()
	}
	return fs[len(fs)-1]
}

// sizeOf returns about how many bytes of memory messages take, with their JSON and a state
// of SHA-256 each.
func sizeOf(ms []turns.Message) int {
	const frame = 1 << 10
	return 2*content.MessagesSize(ms) + frame*len(ms)
}
