package jetstream

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/turns"
)

// HoldTime is how long at least a blob stays after a put or a [Blobs.KeepBlob], whatever
// its age. It is longer than any request lasts: within it, the event that refers to the
// blob is stored, or never will be.
const HoldTime = time.Hour

// BlobKey names a blob of a tenant. Two blobs have the same key with no practical chance;
// if they had, a collection would keep both as long as one is needed.
type BlobKey [16]byte

// keyOf returns the key of the blob whose chunks are under base.
func keyOf(base string) BlobKey {
	sum := sha256.Sum256([]byte(base))
	return BlobKey(sum[:16])
}

// KeyOf returns the key of the blob that a chunk belongs to, by its subject in any stream
// of blobs. ok is false for another subject.
func KeyOf(subject string) (k BlobKey, ok bool) {
	name, ok := firstSubject(subject)
	if !ok {
		return k, false
	}
	parts := strings.SplitN(strings.TrimPrefix(name, firstPrefix), ".", 3)
	if len(parts) != 3 || parts[0] == "" || len(parts[1]) != 2*sha256.Size {
		return k, false
	}
	return keyOf(firstPrefix + parts[0] + "." + parts[1]), true
}

// KeyOfBlob returns the key of a blob. ok is false if the tenant has none.
func KeyOfBlob(tenant string, digest turns.Hash) (k BlobKey, ok bool) {
	base, err := blobSubject(tenant, digest)
	return keyOf(base), err == nil
}

// Chunks returns how many chunks a blob has, by the header of its first one; 0 for another.
func Chunks(header []byte) int {
	h, err := nats.DecodeHeadersMsg(header)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(h.Get(chunksHeader))
	return n
}

// holds remembers the blobs that requests relied on lately. It counts time by the
// process's own clock, which no change of the system's time moves. A restart forgets them,
// and ends the requests too. The zero holds needs now.
type holds struct {
	now func() time.Time

	mu            sync.Mutex
	turned        time.Time            // when recent began
	recent, older map[BlobKey]struct{} // each of at most HoldTime; guarded by mu
}

func (h *holds) add(k BlobKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn()
	if h.recent == nil {
		h.recent = make(map[BlobKey]struct{})
	}
	h.recent[k] = struct{}{}
}

func (h *holds) has(k BlobKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn()
	_, recent := h.recent[k]
	_, older := h.older[k]
	return recent || older
}

// turn forgets what was added more than two HoldTimes ago, and nothing of the last one.
func (h *holds) turn() {
	now := h.now()
	age := now.Sub(h.turned)
	if age < HoldTime {
		return
	}
	h.older, h.recent = h.recent, nil
	if age >= 2*HoldTime {
		h.older = nil
	}
	h.turned = now
}
