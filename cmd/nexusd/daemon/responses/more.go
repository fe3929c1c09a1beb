package responses

import (
	"context"
	"net/http"

	"nexus/cmd/nexusd/daemon/responses/socket"
	"nexus/cmd/nexusd/daemon/responses/window"
)

// more is what a door has beside responses: WebSocket connections and compaction items.
type more struct {
	sockets *socket.Server
	sealer  window.Sealer
}

// newMore makes it from a configuration whose defaults are set. Without a key there are no
// compaction items.
func (d *Door) newMore() {
	d.sockets = socket.New(socket.Config{MaxMessage: d.cfg.MaxBody, Expired: socket.Limit.Event(), TooLarge: socket.Large.Event()})
	if d.cfg.Key == nil {
		return
	}
	d.sealer = window.Sealer{Key: d.cfg.Key}
	if d.cfg.Unseal == nil {
		d.cfg.Unseal = d.unseal
	}
}

func (d *Door) moreRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/responses", d.getSocket)
	mux.HandleFunc("POST /v1/responses/compact", d.postCompact)
	mux.HandleFunc("POST /v1/responses/input_tokens", d.postInputTokens)
	mux.HandleFunc("POST /v1/conversations", d.postConversation)
	mux.HandleFunc("GET /v1/conversations/{id}", d.getConversation)
	mux.HandleFunc("POST /v1/conversations/{id}", d.setConversation)
	mux.HandleFunc("DELETE /v1/conversations/{id}", d.deleteConversation)
	mux.HandleFunc("POST /v1/conversations/{id}/items", d.postItems)
	mux.HandleFunc("GET /v1/conversations/{id}/items", d.getItems)
	mux.HandleFunc("GET /v1/conversations/{id}/items/{item}", d.getItem)
	mux.HandleFunc("DELETE /v1/conversations/{id}/items/{item}", d.deleteItem)
}

// closeMore ends the connections. It comes before the calls of models end, which those at
// work wait for.
func (d *Door) closeMore(ctx context.Context) error { return d.sockets.Close(ctx) }
