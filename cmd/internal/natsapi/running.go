package natsapi

import "sync"

// running counts the requests that run. Once it is closed no more begin, so that who waits for the
// last one may close what requests use. The zero value is open. Safe for concurrent use.
type running struct {
	mu   sync.Mutex
	n    int           // guarded by mu
	idle chan struct{} // made by close, closed when n is 0; guarded by mu
}

// begin counts a request, and reports whether it may run. If so, its end calls end.
func (r *running) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle != nil {
		return false
	}
	r.n++
	return true
}

// end counts the end of a request.
func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 && r.idle != nil {
		close(r.idle)
	}
}

// close lets no more requests begin. It returns a channel that is closed when none runs.
func (r *running) close() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle == nil {
		if r.idle = make(chan struct{}); r.n == 0 {
			close(r.idle)
		}
	}
	return r.idle
}
