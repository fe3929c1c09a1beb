package natsapi

import "sync"

// Limits of what is taken in. What is over them is busy.
const (
	// maxRequests is how many requests may be worked on or wait, and of one agent.
	maxRequests, maxOfAgent = 1024, 256
	// maxBytes is how many bytes they may have, and those of one agent.
	maxBytes, maxBytesOfAgent = 512 << 20, 128 << 20
)

// intake counts the requests that the service has taken, so that they are
// bounded and no agent takes the room of all others, and keeps those in order
// that came on one subject. Safe for concurrent use.
type intake struct {
	mu     sync.Mutex
	all    load
	agents map[string]*load
	queues map[string][]func() // by subject: what waits behind the one that runs
}

type load struct{ requests, bytes int }

// enter counts a request of an agent in, if there is room for it.
func (in *intake) enter(agent string, bytes int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	own := in.agents[agent]
	if own == nil {
		own = new(load)
	}
	// The bounds of all hold whatever names the requests have: names are free. An
	// agent's first request is taken whatever its share, since a message has the
	// server's own limit.
	if in.all.requests >= maxRequests || in.all.bytes+bytes > maxBytes || own.requests >= maxOfAgent ||
		(own.requests > 0 && own.bytes+bytes > maxBytesOfAgent) {
		return false
	}
	if in.agents == nil {
		in.agents = make(map[string]*load)
	}
	in.agents[agent] = own
	in.all.requests, in.all.bytes = in.all.requests+1, in.all.bytes+bytes
	own.requests, own.bytes = own.requests+1, own.bytes+bytes
	return true
}

// leave counts it out again.
func (in *intake) leave(agent string, bytes int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	own := in.agents[agent]
	in.all.requests, in.all.bytes = in.all.requests-1, in.all.bytes-bytes
	if own.requests, own.bytes = own.requests-1, own.bytes-bytes; own.requests == 0 {
		delete(in.agents, agent)
	}
}

// inOrder runs f in a goroutine of its own after all that was given for the
// same subject before it.
func (in *intake) inOrder(subject string, f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.queues == nil {
		in.queues = make(map[string][]func())
	}
	waiting, running := in.queues[subject]
	in.queues[subject] = append(waiting, f)
	if !running {
		go in.drain(subject)
	}
}

func (in *intake) drain(subject string) {
	for {
		in.mu.Lock()
		line := in.queues[subject]
		if len(line) == 0 {
			delete(in.queues, subject)
			in.mu.Unlock()
			return
		}
		f := line[0]
		line[0] = nil
		in.queues[subject] = line[1:]
		in.mu.Unlock()
		f()
	}
}
