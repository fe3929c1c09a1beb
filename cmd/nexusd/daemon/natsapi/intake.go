package natsapi

import "sync"

// Bounds on the requests that the service accepts. A request over a bound gets busy.
const (
	// maxRequests bounds the requests that run or wait, maxOfAgent those of one agent.
	maxRequests, maxOfAgent = 1024, 256
	// maxBytes bounds their bytes, maxBytesOfAgent those of one agent.
	maxBytes, maxBytesOfAgent = 512 << 20, 128 << 20
)

// intake counts the requests that the service has accepted. It bounds them, keeps
// one agent from taking the room of all others, and runs the requests on one subject
// in their order. Safe for concurrent use.
type intake struct {
	mu     sync.Mutex
	all    load
	agents map[string]*load
	queues map[string][]func() // requests that wait, by subject; no entry if none runs
}

// load is a number of requests and their bytes.
type load struct{ requests, bytes int }

// enter counts a request of an agent, and reports whether there was room for it.
func (in *intake) enter(agent string, bytes int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	agentLoad := in.agents[agent]
	if agentLoad == nil {
		agentLoad = new(load)
	}
	// A client chooses the agent's name, so only the bounds of all agents limit the
	// memory. An agent's first request may be larger than its share, since the server
	// limits a message anyway.
	if in.all.requests >= maxRequests || in.all.bytes+bytes > maxBytes || agentLoad.requests >= maxOfAgent ||
		(agentLoad.requests > 0 && agentLoad.bytes+bytes > maxBytesOfAgent) {
		return false
	}
	if in.agents == nil {
		in.agents = make(map[string]*load)
	}
	in.agents[agent] = agentLoad
	in.all.requests, in.all.bytes = in.all.requests+1, in.all.bytes+bytes
	agentLoad.requests, agentLoad.bytes = agentLoad.requests+1, agentLoad.bytes+bytes
	return true
}

// leave ends what enter began.
func (in *intake) leave(agent string, bytes int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	agentLoad := in.agents[agent]
	in.all.requests, in.all.bytes = in.all.requests-1, in.all.bytes-bytes
	if agentLoad.requests, agentLoad.bytes = agentLoad.requests-1, agentLoad.bytes-bytes; agentLoad.requests == 0 {
		delete(in.agents, agent)
	}
}

// inOrder runs f in another goroutine, after every earlier f of the same subject.
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

// drain runs the queue of a subject until it is empty.
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
