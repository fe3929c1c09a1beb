package responses

import (
	"io"
	"net/http"
	"sync"
	"time"

	"nexus/cmd/internal/responses/wire"
	"nexus/cmd/internal/web"
)

// room is the memory that the requests of all agents take: bodies while they come, and the
// requests of responses under way. An agent may take as much as stays free, so however many
// are at it, one more has room. Safe for concurrent use.
type room struct {
	mu   sync.Mutex
	free int64
	held map[string]int64
}

func newRoom(bytes int64) *room { return &room{free: bytes, held: make(map[string]int64)} }

// take takes n bytes for an owner; false: it has its share. Nothing is always there to take:
// the end of a body, which comes without bytes, refuses no body whose last byte was taken.
func (r *room) take(owner string, n int64) bool {
	if n <= 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[owner]+n > r.free-n {
		return false
	}
	r.free -= n
	r.held[owner] += n
	return true
}

// give gives n bytes back.
func (r *room) give(owner string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
	if r.held[owner] -= n; r.held[owner] <= 0 {
		delete(r.held, owner)
	}
}

// ownerOf is whose share a caller's requests take.
func ownerOf(c web.Caller) string { return c.Tenant + "\x00" + c.Agent }

var errNoRoom = &wire.Error{Status: http.StatusTooManyRequests, Type: wire.TooMany, Code: "rate_limit_exceeded", Message: "The requests of this agent that are under way take too much memory.", RetryAfter: time.Second}

// taking is a body whose bytes are taken from a room as they come.
type taking struct {
	r     io.Reader
	room  *room
	owner string
	n     int64 // taken
}

func (t *taking) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	if !t.room.take(t.owner, int64(n)) {
		return 0, errNoRoom
	}
	t.n += int64(n)
	return n, err
}

// done gives back what was taken.
func (t *taking) done() {
	t.room.give(t.owner, t.n)
	t.n = 0
}
