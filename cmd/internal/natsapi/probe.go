package natsapi

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// prober tells when the service has seen what the server had sent to it: it sends
// itself one message through the queue of each verb in use, behind everything that
// waits there. Its subjects have a secret name for a tenant, so no client can send
// one. micro counts them in its statistics.
type prober struct {
	tenant string
	verbs  []*probedVerb

	mu     sync.Mutex
	number int    // of the newest probe
	left   int    // messages of it that are not back
	seen   func() // of the newest probe
}

// probedVerb is an endpoint that probes go through once it had a request.
type probedVerb struct {
	verb verb
	used atomic.Bool
}

func newProber() *prober { return &prober{tenant: "probe-" + strings.ToLower(rand.Text())} }

// Probe calls seen when the service has handled, or queued, each request that the
// server had sent before. It drops the probe before, whose seen is never called if
// it is not back yet.
func (s *Service) Probe(seen func()) {
	p := s.prober
	var subjects []string
	p.mu.Lock()
	p.number++
	for _, v := range p.verbs {
		if v.used.Load() {
			subject := fmt.Sprintf("%s%s.%d.%s", prefix, p.tenant, p.number, v.verb.name)
			if v.verb.session {
				subject += ".probe"
			}
			subjects = append(subjects, subject)
		}
	}
	p.left, p.seen = len(subjects), seen
	p.mu.Unlock()
	if len(subjects) == 0 {
		seen()
	}
	for _, subject := range subjects {
		if err := s.nc.Publish(subject, nil); err != nil {
			s.logger.Debug("probe", "err", err)
			return
		}
	}
}

// back takes in a message on subject, and reports whether it is of a probe.
func (p *prober) back(subject string) bool {
	rest, ok := strings.CutPrefix(subject, prefix+p.tenant+".")
	if !ok {
		return false
	}
	number, _, _ := strings.Cut(rest, ".")
	n, _ := strconv.Atoi(number)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n != p.number {
		return true
	}
	if p.left--; p.left == 0 {
		p.seen()
	}
	return true
}
