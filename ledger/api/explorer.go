package api

import "nexus/turns"

// OpenPages is ui.open: a link that logs a browser in at the explorer.
type OpenPages struct {
	Session  turns.ID `json:"session,omitzero"`   // the page of a session; none: the list of sessions
	Turn     turns.ID `json:"turn,omitzero"`      // with session: the page of its turn
	ReadOnly bool     `json:"read_only,omitzero"` // the browser may change nothing
}

// OpenedPages is ui.open's reply.
type OpenedPages struct {
	URL     string `json:"url"`     // with a code that is redeemed once; whoever has it may do what the caller may
	Expires Time   `json:"expires"` // after this the code counts no more
}
