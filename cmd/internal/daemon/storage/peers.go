package storage

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// PeersPrefix, with the ledger's UUID, is the subject on which the daemons of a ledger on a server
// of others hear of each other. The ledger's user may publish and subscribe to it.
const PeersPrefix = "nexus.daemons."

const (
	peerBeat     = 5 * time.Second        // how often a daemon says that it is there
	peerForget   = 30 * time.Second       // how long one is waited for that says nothing
	peerPatience = 5 * time.Second        // how long each is waited for when it is asked
	maxPeers     = 1000                   // that are remembered
	maxPeerName  = 64                     // bytes of a name
	peerFirst    = 300 * time.Millisecond // how long a start waits for daemons that it has not heard
)

// peers asks the other daemons of a ledger what they know of the log, and answers them. What
// another says is a question only: the log's own record is the proof. Safe for concurrent use.
type peers struct {
	id      string
	nc      *nats.Conn
	subject string
	log     *jetstream.Log
	// accepted are records that an operator of this daemon gave up.
	accepted map[mark.Place]bool

	mu    sync.Mutex
	heard map[string]time.Time
	asked bool
}

// peerMessage is what a daemon says: the newest record that it found on the log.
type peerMessage struct {
	Daemon string     `json:"daemon"`
	Seq    uint64     `json:"seq,string"` // 0: none yet
	Hash   turns.Hash `json:"hash,omitzero"`
	Lost   bool       `json:"lost,omitzero"` // the log does not have it any more
	Ends   bool       `json:"ends,omitzero"` // the daemon stops
}

func (m peerMessage) place() mark.Place { return mark.Place{Seq: m.Seq, Sum: m.Hash} }

func newPeers(nc *nats.Conn, accepted map[mark.Place]bool) *peers {
	return &peers{id: uuid.NewString(), nc: nc, accepted: accepted, heard: make(map[string]time.Time)}
}

// of says which log it is of, before anything else is called.
func (p *peers) of(log *jetstream.Log) { p.log, p.subject = log, PeersPrefix+log.Ledger() }

// start listens, says now and then that the daemon is there, and compares the log, until stop.
func (p *peers) start() (stop func(context.Context) error, err error) {
	sub, err := p.nc.Subscribe(p.subject, p.hear)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		t := time.NewTicker(peerBeat)
		defer t.Stop()
		for {
			p.say(p.subject, peerMessage{})
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
	})
	running.Go(func() { p.log.Watch(ctx) })
	return func(context.Context) error {
		cancel()
		running.Wait()
		p.say(p.subject, peerMessage{Ends: true})
		if err := sub.Unsubscribe(); !errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
		return nil
	}, nil
}

// say publishes m with the daemon's name and the newest record that it found on the log. One that is lost
// on the way is said again, or is missed: whoever asks waits a bounded time.
func (p *peers) say(subject string, m peerMessage) {
	m.Daemon = p.id
	if m.Seq == 0 {
		newest := p.log.Confirmed()
		m.Seq, m.Hash = newest.Seq, newest.Sum
	}
	if b, err := turns.EncodeJSON(m); err == nil {
		_ = p.nc.Publish(subject, b)
	}
}

// hear takes what another daemon says, and answers if it asks.
func (p *peers) hear(msg *nats.Msg) {
	var m peerMessage
	if turns.DecodeJSON(msg.Data, &m) != nil || m.Daemon == "" || len(m.Daemon) > maxPeerName || m.Daemon == p.id {
		return
	}
	p.mu.Lock()
	if len(p.heard) >= maxPeers {
		clear(p.heard)
	}
	if p.heard[m.Daemon] = time.Now(); m.Ends {
		delete(p.heard, m.Daemon)
	}
	p.mu.Unlock()
	if m.Lost && p.counts(m) {
		p.log.Doubt(m.place())
	}
	if msg.Reply != "" {
		p.say(msg.Reply, peerMessage{})
	}
}

// counts reports whether what a daemon names is a record that the log must have.
func (p *peers) counts(m peerMessage) bool {
	return m.Seq > 0 && m.Hash != (turns.Hash{}) && !p.accepted[m.place()]
}

// tellLost says that the log lacks a record, so that the others look.
func (p *peers) tellLost(place mark.Place) {
	p.say(p.subject, peerMessage{Seq: place.Seq, Hash: place.Sum, Lost: true})
}

// ask returns the newest records that the other daemons found on the log. It waits a while for
// each that was heard lately.
func (p *peers) ask(ctx context.Context) (places []mark.Place, err error) {
	wanted, patience := p.expected()
	inbox := p.nc.NewInbox()
	sub, err := p.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, errors.Join(ledger.ErrUnavailable, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	b, err := turns.EncodeJSON(peerMessage{Daemon: p.id})
	if err == nil {
		err = p.nc.PublishRequest(p.subject, inbox, b)
	}
	if err != nil {
		return nil, errors.Join(ledger.ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for len(wanted) > 0 {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			break // the others go on without those that do not answer
		}
		var m peerMessage
		if turns.DecodeJSON(msg.Data, &m) != nil || m.Daemon == p.id {
			continue
		}
		delete(wanted, m.Daemon)
		if p.counts(m) {
			places = append(places, m.place())
		}
	}
	return places, nil
}

// nobody is in the place of the daemons that a start has not heard yet.
const nobody = ""

// expected returns the daemons to wait for, and for how long.
func (p *peers) expected() (wanted map[string]bool, patience time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.heard, func(_ string, at time.Time) bool { return time.Since(at) > peerForget })
	wanted, patience = make(map[string]bool), peerPatience
	for id := range p.heard {
		wanted[id] = true
	}
	if !p.asked && len(wanted) == 0 {
		wanted[nobody], patience = true, peerFirst
	}
	p.asked = true
	return wanted, patience
}
