package codex

import (
	"slices"
	"strings"
	"time"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// codexHistory is the history at the beginning of the rollout of an agent that another
// one started or was forked from.
//
// It is copied whole, and then its turns are those of the parent and the session a fork of
// it; or only what the agent is to know of it (messages and final answers, no calls), and
// then it is no turn of the parent: it is what the first turn of the session was sent. It
// was copied whole if it has what the short form leaves out, or, at its end, if it has answers
// that are not said to be final, and not more usage than answers. Until that is known its
// records are held back; they are messages only. A history of a thread that no header names is
// not the parent's either, and is given too.
//
// The ids of tasks hold their time, as those of threads do. So a task belongs to the newest
// thread of the headers that is not younger, and one that is not older than the agent itself
// ends the history. Where no task has such an id the times of the records are compared, if
// the copy has the old ones.
type codexHistory struct {
	is       historyState
	held     []codexHeld
	named    int  // the thread of records before and without tasks
	tasks    bool // a task's id has a time
	stranger bool // a task is older than all threads
	newTimes bool // a record has not its old time

	items   int // that were held back
	answers int // of them
	plain   int // of answers: those that are not said to be final
	counts  int // of usage that were held back
	told    codexInfo
}

type historyState int

const (
	historyNone  historyState = iota // there is none, or it has ended
	historyAsked                     // it is not known if there is one
	historyHeld                      // it is not known if it is whole
	historyWhole
	historyGiven
)

type codexHeld struct {
	line int
	r    codexRecord
}

// place reads a record as one of the history, or as this session's own.
func (c *codexReader) place(line int, r *codexRecord) error {
	if r.Type == "session_meta" {
		return c.meta(line, r)
	}
	c.endHeaders()
	if c.history.is == historyNone {
		return c.readPayload(line, r)
	}
	h := &c.history
	task := taskTime(r)
	at := values.ParseTime(turns.RawText(r.Time))
	old := !at.IsZero() && at.Before(c.threads[0].at)
	own := !task.IsZero() && !task.Before(c.threads[0].at)
	if h.is == historyAsked {
		switch {
		case old || !task.IsZero() && !own:
			h.is = historyHeld
		case own || isCodexWork(r):
			c.settleHistory(historyNone)
			return c.readPayload(line, r)
		}
	}
	switch {
	case task.IsZero():
		own = own || !h.tasks && !h.newTimes && !old && (len(h.held) > 0 || h.is > historyHeld) && !at.IsZero()
	case !own:
		h.tasks = true
		h.stranger = h.stranger || task.Before(c.threads[len(c.threads)-1].at)
	}
	if own {
		c.endHistory(line)
		return c.readPayload(line, r)
	}
	h.newTimes = h.newTimes || !old
	if h.is == historyHeld && (isCodexWork(r) || c.metas[0].spawner() == "" && isCodexAnswer(r)) {
		is := historyWhole
		if h.stranger {
			is = historyGiven
			c.givenLoss(line, "it is of a session that no header names")
		}
		c.settleHistory(is)
	}
	if h.is == historyHeld || h.is == historyAsked {
		h.hold(line, r)
		return nil
	}
	if h.is == historyWhole {
		c.descend(task)
	}
	return c.readPayload(line, r)
}

// hold holds a record back.
func (h *codexHistory) hold(line int, r *codexRecord) {
	h.held = append(h.held, codexHeld{line, *r})
	switch r.Type {
	case "response_item", "inter_agent_communication":
		h.items++
		var it codexItem
		if values.Decode(r.Payload, &it) == nil && it.Type == "message" && it.Role == "assistant" {
			h.answers++
			if it.Phase == "" {
				h.plain++
			}
		}
	case "event_msg":
		var e codexEvent
		if values.Decode(r.Payload, &e) == nil && e.Info != nil && *e.Info != h.told {
			h.told = *e.Info
			h.counts++
		}
	}
}

// descend goes down to the thread that a task is of.
func (c *codexReader) descend(task time.Time) {
	for !task.IsZero() && c.index > 1 && !task.Before(c.threads[c.index-1].at) {
		c.leaveThread()
	}
}

// endHeaders ends the headers. The thread that a header names as the one before it needs no
// header of its own.
func (c *codexReader) endHeaders() {
	if c.begun {
		return
	}
	c.begun = true
	last := &c.metas[len(c.metas)-1]
	up := last.before()
	switch {
	case len(c.metas) > 1 || last.ForkedFrom != "":
		c.history.is = historyHeld
	case up != "":
		c.history.is = historyAsked
	default:
		return
	}
	c.history.named = max(len(c.metas)-1, 1)
	if up != "" {
		m := codexMeta{ID: up}
		c.metas, c.threads = append(c.metas, m), append(c.threads, newCodexThread(&m))
	}
}

// settleHistory reads the records that were held back, now that it is known what they are.
func (c *codexReader) settleHistory(is historyState) {
	held := c.history.held
	c.history.is, c.history.held = is, nil
	switch is {
	case historyNone:
		c.openThread()
	case historyWhole:
		if c.index = c.history.named; c.history.tasks {
			c.index = len(c.threads) - 1
		}
		for i := range held { // what is before the first task is of its thread
			if task := taskTime(&held[i].r); !task.IsZero() {
				c.descend(task)
				break
			}
		}
	}
	for i := range held {
		if c.nextTask = taskTime(&held[i].r); !c.nextTask.IsZero() {
			break
		}
	}
	for _, x := range held {
		if is == historyWhole {
			c.descend(taskTime(&x.r))
		}
		if err := c.readPayload(x.line, &x.r); err != nil {
			c.Loss.Add(x.line, "skipped", "a record that can't be read: "+err.Error(), "")
		}
	}
	c.nextTask = time.Time{}
}

// endHistory ends the history that was copied: what follows is this session's own.
func (c *codexReader) endHistory(line int) {
	h := &c.history
	switch {
	case h.is != historyHeld:
	case h.items == 0 && !h.tasks && slices.ContainsFunc(h.held, func(x codexHeld) bool { return x.r.Type == "compacted" }):
		c.settleHistory(historyNone) // the file was written anew
	case h.stranger && len(h.held) > 0:
		c.givenLoss(line, "it is of a session that no header names")
		c.settleHistory(historyGiven)
	case h.plain > 0 && h.counts <= h.answers:
		c.settleHistory(historyWhole)
	default:
		c.settleHistory(historyGiven)
		if len(c.messages) > 0 || len(c.response.Parts) > 0 {
			c.givenLoss(line, "it is a part of the parent's")
		}
	}
	if c.history.is == historyGiven {
		c.finish()
		c.given, c.program = len(c.messages), usersOf(c.messages)
		for i := range c.points {
			p := &c.points[i]
			p.given, p.program = len(p.kept), usersOf(p.kept)
		}
		c.openThread()
	}
	for c.index > 0 {
		c.leaveThread()
	}
	c.history = codexHistory{}
}

// usersOf returns which messages have the role of the user.
func usersOf(ms []turns.Message) (at []int) {
	for i := range ms {
		if ms[i].Role == turns.User {
			at = append(at, i)
		}
	}
	return at
}

func (c *codexReader) givenLoss(line int, why string) {
	c.Loss.Add(line, "repaired", "the history that the agent was given is kept as what its first turn was sent: "+why, c.threads[1].id)
}

// leaveThread ends the history of a thread. The messages after its last response belong to
// the next one: there Codex tells the new agent its task.
func (c *codexReader) leaveThread() {
	c.finish()
	c.flushUncounted()
	c.index--
}

// emitted reports whether what is being read is emitted.
func (c *codexReader) emitted() bool { return c.index == 0 || c.opt.Copied }

// taskTime returns the time in the id of the task that a record begins, zero if there is
// none.
func taskTime(r *codexRecord) time.Time {
	if r.Type != "turn_context" && (r.Type != "event_msg" || len(r.Payload) > 4096) {
		return time.Time{}
	}
	var e codexEvent
	if values.Decode(r.Payload, &e) != nil || r.Type == "event_msg" && e.Type != "task_started" && e.Type != "turn_started" {
		return time.Time{}
	}
	return timeInID(e.Turn)
}

// isCodexAnswer reports whether a record is what a model said.
func isCodexAnswer(r *codexRecord) bool {
	var it codexItem
	return r.Type == "response_item" && values.Decode(r.Payload, &it) == nil && (it.isModels() || it.Type == "message" && it.Role == "assistant")
}

// isCodexWork reports whether a record is what a model did on its way to an answer, or what
// it was told in between. An agent that is given a history is not given that.
func isCodexWork(r *codexRecord) bool {
	var it codexItem
	if r.Type != "response_item" || values.Decode(r.Payload, &it) != nil {
		return false
	}
	return it.isModels() || it.CallID != "" && strings.HasSuffix(it.Type, "_output") || it.Type == "message" && it.Role == "assistant" && it.Phase != "" && it.Phase != "final_answer"
}
