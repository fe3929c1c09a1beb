package live

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/explorer/login"
	"nexus/cmd/internal/explorer/visit"
	"nexus/ledger/api"
	"nexus/turns"
)

// Pattern is that of a stream. It has no bound of time, as pages do.
const Pattern = "GET /ui/live"

const (
	// streamsOfOne bounds the streams of one person's pages that follow the ledger: a browser needs
	// one, whatever tabs it has. maxStreams bounds those of all.
	streamsOfOne = 8
	maxStreams   = 256
	// hintTime is how long hints are gathered before they are sent.
	hintTime = 200 * time.Millisecond
	// pulse is how often a stream without hints says that it is there: proxies end a silent one.
	pulse = 25 * time.Second
)

// Streams counts the streams of pages that follow the ledger.
type Streams struct {
	nc     *nats.Conn
	mu     sync.Mutex
	n      int
	of     map[login.Person]int
	closed chan struct{}
	once   sync.Once
}

// New returns what follows the ledger over nc.
func New(nc *nats.Conn) *Streams {
	return &Streams{nc: nc, of: make(map[login.Person]int), closed: make(chan struct{})}
}

// Close ends all streams.
func (l *Streams) Close() { l.once.Do(func() { close(l.closed) }) }

// Count returns how many pages follow the ledger.
func (l *Streams) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// enter takes a place for a stream of a person, if there is one.
func (l *Streams) enter(p login.Person) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n >= maxStreams || l.of[p] >= streamsOfOne {
		return false
	}
	l.n++
	l.of[p]++
	return true
}

func (l *Streams) leave(p login.Person) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	if l.of[p]--; l.of[p] == 0 {
		delete(l.of, p)
	}
}

// hint is what a stream says: that a session has something new. It has no content.
type hint struct {
	Session  turns.ID `json:"session"`
	Kind     string   `json:"kind"`
	Position string   `json:"position"`
}

// Pages is what the room serves, by pattern.
func (l *Streams) Pages() visit.Pages {
	return visit.Pages{Pattern: l.follow}
}

// follow is a stream of hints. A page that misses some loses nothing: each only says that there is
// something to load.
func (l *Streams) follow(v *visit.Visit) error {
	person := v.Who.Person()
	if !l.enter(person) {
		return api.Errorf(api.Busy, nil, "as many pages follow the ledger as may; this one shows what it has, and a reload the rest")
	}
	defer l.leave(person)
	agent := v.Who.Agent
	if agent == api.Operator {
		agent = "*"
	}
	msgs := make(chan *nats.Msg, 256)
	sub, err := l.nc.ChanSubscribe(fmt.Sprintf("nexus.v1.%s.%s.notify.>", v.Who.Tenant, agent), msgs)
	if err != nil {
		return api.Errorf(api.Unavailable, nil, "the ledger can't be followed now")
	}
	defer sub.Unsubscribe()
	control := http.NewResponseController(v.W)
	if err := control.SetReadDeadline(time.Time{}); err != nil { // that of the request; a browser that goes is noticed by reading
		return api.Errorf(api.Unavailable, nil, "the ledger can't be followed over this connection")
	}
	h := v.W.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	send := func(text string) error {
		if err := control.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		if _, err := v.W.Write([]byte(text)); err != nil {
			return err
		}
		return control.Flush()
	}
	if send("retry: 3000\n\n") != nil {
		return nil
	}
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	for {
		var text strings.Builder
		select {
		case <-v.R.Context().Done():
			return nil
		case <-l.closed:
			return nil
		case <-beat.C:
			if _, ok := v.WhoIs(v.R); !ok { // logged out; a beat also keeps the cookie in use
				return nil
			}
			text.WriteString(": here\n\n")
		case m := <-msgs:
			wait := time.NewTimer(hintTime)
			gathered := map[hint]bool{}
			add := func(m *nats.Msg) {
				if x, ok := hintOf(m); ok {
					gathered[x] = true
				}
			}
			add(m)
		gather:
			for len(gathered) < 64 {
				select {
				case m := <-msgs:
					add(m)
				case <-wait.C:
					break gather
				}
			}
			wait.Stop()
			for x := range gathered {
				fmt.Fprintf(&text, "id: %s\ndata: %s %s\n\n", x.Position, x.Session, x.Kind)
			}
		}
		if send(text.String()) != nil {
			return nil
		}
	}
}

// hintOf reads a notification. What it says of content is left out.
func hintOf(m *nats.Msg) (x hint, ok bool) {
	var n api.Notification
	if api.UnmarshalLenient(m.Data, &n) != nil || n.Session.IsZero() {
		return x, false
	}
	return hint{n.Session, n.Kind, n.Position}, true
}
