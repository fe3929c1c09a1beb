package natsapi

import (
	"testing"
	"time"
)

// kept is a server that keeps what was published until the test takes it.
type kept map[uint64]int64

func newUnread(k kept) *unread {
	return &unread{ask: func() map[uint64]int64 { return k }, of: make(map[uint64]*owed)}
}

// publish publishes n bytes, if it may, to a server that keeps them.
func (k kept) publish(u *unread, connection string, id uint64, n int, must bool) bool {
	u.looked = time.Time{} // the server may be asked again
	end, ok := u.begin(connection, n, must)
	if ok {
		k[id] += int64(n)
		end()
	}
	return ok
}

func TestUnreadRepliesOfAConnectionAreBounded(t *testing.T) {
	k := kept{}
	u := newUnread(k)
	for range 1000 {
		k.publish(u, "1", 1, 1<<20, false)
	}
	if k[1] != maxUnread {
		t.Errorf("%d bytes are unread, want %d", k[1], maxUnread)
	}
	for range 1_000_000 {
		k.publish(u, "1", 1, smallReply, true)
	}
	if k[1] != 2*maxUnread {
		t.Errorf("with small ones %d bytes are unread, want %d", k[1], 2*maxUnread)
	}
	if !k.publish(u, "2", 2, 8<<20, false) {
		t.Error("another connection gets nothing")
	}
	k[1] = 0
	if !k.publish(u, "1", 1, 8<<20, false) {
		t.Error("it has read everything and gets nothing")
	}
}

func TestUnreadRepliesOfAllConnectionsAreBounded(t *testing.T) {
	k := kept{}
	u := newUnread(k)
	names := "123456789abcdefghi"
	for i := range names {
		for k.publish(u, names[i:i+1], uint64(i+1), 1<<20, false) && k[uint64(i+1)] < maxUnread {
		}
	}
	sum := int64(0)
	for _, n := range k {
		sum += n
	}
	if sum > maxUnreadOfAll+int64(len(names))*maxReplyOverAll {
		t.Errorf("%d bytes are unread", sum)
	}
	if !k.publish(u, "z", 35, maxReplyOverAll, false) {
		t.Error("a connection that has read everything gets nothing")
	}
	if k.publish(u, "y", 34, 8<<20, false) {
		t.Error("a large reply over the bound of all")
	}
	clear(k)
	if !k.publish(u, "y", 34, 8<<20, false) {
		t.Error("nothing is unread, and it gets nothing")
	}
}

// Replies that are being published count before the server has them.
func TestRepliesBeingPublishedCountAsUnread(t *testing.T) {
	u := newUnread(kept{})
	n := 0
	for ; n < 1000; n++ {
		u.looked = time.Time{}
		if _, ok := u.begin("1", 1<<20, false); !ok {
			break
		}
	}
	if n != maxUnread>>20 {
		t.Errorf("%d MiB are being published, want %d", n, maxUnread>>20)
	}
}

// Connections that came and went are forgotten, and so is what was published to those that
// read it.
func TestConnectionsThatHaveReadAreForgotten(t *testing.T) {
	u := newUnread(kept{})
	for id := range 3 * maxCounted {
		u.looked = time.Time{}
		end, ok := u.begin(string([]byte{'a' + byte(id%16), 'a' + byte(id/16%16), 'a' + byte(id/256%16), 'a' + byte(id/4096)}), 10, false)
		if !ok {
			t.Fatal("refused")
		}
		end()
	}
	if len(u.of) > maxCounted+1 {
		t.Errorf("%d connections are counted", len(u.of))
	}
}
