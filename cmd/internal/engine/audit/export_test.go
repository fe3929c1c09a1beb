package audit

// EndWaits ends the verifications that wait for their next page, as time does.
func (au *Audit) EndWaits() {
	au.paged.mu.Lock()
	defer au.paged.mu.Unlock()
	for agent, p := range au.paged.byAgent {
		if v := au.paged.end(agent, p); v != nil {
			_ = v.close()
		}
	}
}
