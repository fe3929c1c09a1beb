package chat

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"nexus/turns"
)

// A log of requests has a conversation once for each call: each line holds all messages so
// far. Lines without an id of their own are one conversation where a line begins with all that
// an earlier one holds, and has more: it goes on there. Of a conversation that went on so, a
// line that has some of its answers and then other messages is a fork. A line that only begins
// like another (the same question, or one answer) is a conversation of its own: those of strangers
// begin alike, and lists of examples are no logs.

// chatLog is a conversation of which several lines may have a part.
type chatLog struct {
	session turns.ID
	began   time.Time
	grown   bool                  // a line went on where another ended
	tips    map[turns.ID]turns.ID // by session: its last turn
	ids     map[turns.ID]bool     // of turns
	keys    []prefixDigest        // those in answered and ends
	line    int                   // the last one that has a part of it
}

func newChatLog(session turns.ID, began time.Time) *chatLog {
	return &chatLog{session: session, began: began, tips: make(map[turns.ID]turns.ID), ids: make(map[turns.ID]bool)}
}

// chatAt is the turn of an answer in a log.
type chatAt struct {
	log *chatLog
	ref turns.Ref
}

// chatEnd is where a line ended.
type chatEnd struct {
	log  *chatLog
	tail func() error // stores the messages at its end without an answer; nil: there are none, or a later line has them
}

// maxTails is how many lines are kept that end without an answer, in case a later one goes on
// there. Of those before them the messages are stored.
const maxTails = 1024

// maxLogs is how many conversations are kept, at least, in case a later line goes on with one:
// those that lines had last.
const maxLogs = 4096

// prefixDigest is the digest of the first messages of a conversation, without what clients
// change when they send them again: reasoning, and marks beside the content.
type prefixDigest [sha256.Size]byte

// prefixDigests returns for each message the digest of the messages up to it.
func prefixDigests(ms []turns.Message) []prefixDigest {
	out := make([]prefixDigest, len(ms))
	h := sha256.New()
	text := func(s []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write(s)
	}
	for i := range ms {
		text([]byte(ms[i].Role))
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			if p.Type == turns.Reasoning {
				continue
			}
			for _, s := range []string{string(p.Type), p.ID, p.Name, string(p.Arguments), string(p.Response)} {
				text([]byte(s))
			}
			text(p.ContentBytes())
		}
		h.Sum(out[i][:0])
	}
	return out
}

// logOf returns the log that a conversation goes on in; nil: none.
func (c *chatReader) logOf(prefixes []prefixDigest) (log *chatLog) {
	for i := len(prefixes) - 2; i >= 0; i-- {
		e := c.ends[prefixes[i]]
		if e == nil || log != nil && e.log != log {
			continue
		}
		log = e.log
		e.tail, log.grown = nil, true
	}
	for i := len(prefixes) - 1; i >= 0 && log == nil; i-- {
		if at := c.answered[prefixes[i]]; at.log != nil && at.log.grown {
			log = at.log
		}
	}
	return log
}

// use notes that a line has a part of a log. Of many logs the older half is forgotten: a file of
// examples has as many as lines.
func (c *chatReader) use(log *chatLog) error {
	if log.line == 0 {
		c.logs = append(c.logs, log)
	}
	log.line = c.index
	if len(c.logs) < 2*maxLogs {
		return nil
	}
	slices.SortFunc(c.logs, func(a, b *chatLog) int { return cmp.Compare(a.line, b.line) })
	var ends []*chatEnd
	for _, old := range c.logs[:maxLogs] {
		for _, k := range old.keys {
			if e := c.ends[k]; e != nil && e.log == old {
				ends = append(ends, e)
				delete(c.ends, k)
			}
			if c.answered[k].log == old {
				delete(c.answered, k)
			}
		}
	}
	c.logs = slices.Clone(c.logs[maxLogs:])
	return endTails(ends)
}

// endLine notes where a line of a log ends.
func (c *chatReader) endLine(log *chatLog, end prefixDigest, tail func() error) error {
	if c.ends == nil {
		c.ends = make(map[prefixDigest]*chatEnd)
	}
	if was := c.ends[end]; was != nil && was.log == log { // the same request again
		return nil
	}
	e := &chatEnd{log, tail}
	log.keys = append(log.keys, end)
	if c.ends[end] = e; tail == nil {
		return nil
	}
	c.tails = append(c.tails, e)
	if len(c.tails) < 2*maxTails {
		return nil
	}
	old := c.tails[:maxTails]
	c.tails = append([]*chatEnd(nil), c.tails[maxTails:]...)
	return endTails(old)
}

// endTails stores the messages at the ends of lines that no other line has.
func endTails(ends []*chatEnd) error {
	for _, e := range ends {
		if tail := e.tail; tail != nil {
			e.tail = nil
			if err := tail(); err != nil {
				return err
			}
		}
	}
	return nil
}
