package natsapi

import (
	"strconv"
	"sync"
	"time"
)

// Bounds on the replies that clients have not read, in bytes. The NATS server keeps them in
// memory, and cuts a connection that takes nothing after 10 s.
const (
	// maxUnread bounds those of one connection. A larger reply to a read is busy instead.
	// Over twice as much, nothing is published to the connection any more.
	maxUnread = 64 << 20
	// maxUnreadOfAll bounds those of all connections. Over it, a connection that has read
	// everything still gets replies up to maxReplyOverAll.
	maxUnreadOfAll, maxReplyOverAll = 512 << 20, 1 << 20
	// lookAfter is how many bytes are published to a connection before the server is
	// asked again what is unread.
	lookAfter = 1 << 20
	// maxCounted bounds the connections that are counted without a question to the server.
	maxCounted = 4096
)

const (
	// smallReply is the size up to which a reply to a read is sent like one to a change.
	smallReply = 4 << 10
	// unreadPause is when a request may come back whose reply would be over a bound.
	unreadPause = time.Second
)

// lookPause is the least time between two questions to the server.
const lookPause = 5 * time.Millisecond

// unread counts the replies that the connections of the server have not taken. Safe for
// concurrent use.
//
// Invariant: sum is that of held of all connections. held of one is never less than what
// the server keeps for it, but for what the service has written and the server not read.
type unread struct {
	mu     sync.Mutex
	ask    func() map[uint64]int64 // what the server keeps for each connection; nil: not known, and no bounds
	of     map[uint64]*owed
	sum    int64
	looked time.Time
}

// owed is what one connection has not read, in bytes.
type owed struct {
	kept       int64 // by the server, when it was asked last
	since      int64 // published since then
	publishing int64
}

func (o *owed) held() int64 { return o.kept + o.since + o.publishing }

// BoundUnread bounds the replies that clients have not read. ask returns the bytes that the
// NATS server keeps for each of its connections. Without BoundUnread there is no bound but
// the server's.
func (s *Service) BoundUnread(ask func() map[uint64]int64) {
	s.unread.mu.Lock()
	defer s.unread.mu.Unlock()
	s.unread.ask, s.unread.of = ask, make(map[uint64]*owed)
}

// begin reports whether n bytes may be published to a connection; if so, the caller calls
// end when they are. must: the reply is to be sent up to twice the bound.
func (u *unread) begin(connection string, n int, must bool) (end func(), ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	id, err := strconv.ParseUint(connection, 36, 64)
	if u.ask == nil || err != nil {
		return func() {}, true
	}
	size := int64(n)
	o := u.of[id]
	if o == nil {
		o = new(owed)
		u.of[id] = o
	}
	if o.since+size > lookAfter || u.sum+size > maxUnreadOfAll || len(u.of) > maxCounted {
		u.look()
		u.of[id] = o // look drops who owes nothing
	}
	held := o.held()
	switch {
	case must && held+size > 2*maxUnread,
		!must && held+size > maxUnread,
		!must && u.sum+size > maxUnreadOfAll && (held > 0 || size > maxReplyOverAll):
		return nil, false
	}
	o.publishing, u.sum = o.publishing+size, u.sum+size
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		o.publishing, o.since = o.publishing-size, o.since+size
	}, true
}

// look asks the server what is unread, if it was not asked just now.
func (u *unread) look() {
	if time.Since(u.looked) < lookPause {
		return
	}
	kept := u.ask()
	u.sum = 0
	for id, o := range u.of {
		o.kept, o.since = kept[id], 0
		if u.sum += o.held(); o.held() == 0 {
			delete(u.of, id)
		}
	}
	u.looked = time.Now()
}
