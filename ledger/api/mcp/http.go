package mcp

import (
	"context"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxBody bounds the body of a request over HTTP, in bytes.
const maxBody = 256 << 10

// Handler serves requests over HTTP, for the caller that callerOf returns; false refuses
// the request with 403. It keeps nothing between requests: there are no sessions to be
// lost, to time out, or to pile up, and any daemon answers any request.
//
// A page of another site is refused: a browser says where a request comes from. Whoever
// serves the handler checks the Host header and the token before it.
func (t *Tools) Handler(callerOf func(*http.Request) (Caller, bool)) http.Handler {
	type serverKey struct{}
	serve := sdk.NewStreamableHTTPHandler(
		func(r *http.Request) *sdk.Server { s, _ := r.Context().Value(serverKey{}).(*sdk.Server); return s },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
			DisableLocalhostProtection: true}) // the names of the listener are known better to who checks them
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := callerOf(r)
		if !ok {
			http.Error(w, "nobody known sent this request", http.StatusForbidden)
			return
		}
		ctx, server := t.from(r.Context(), c)
		serve.ServeHTTP(w, r.WithContext(context.WithValue(ctx, serverKey{}, server)))
	}))
}
