package audit

// EndWaits ends the verifications that wait for their next page, as time does.
func (au *Audit) EndWaits() {
	au.paged.mu.Lock()
	defer au.paged.mu.Unlock()
	for agent, p := range au.paged.byAgent {
		_ = au.paged.end(agent, p)
	}
}
