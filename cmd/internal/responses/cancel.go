package responses

import (
	"net/http"
	"nexus/cmd/internal/responses/wire"
)

// postCancel is POST /v1/responses/{id}/cancel: of a background response only. One that
// has ended stays as it is.
func (d *Server) postCancel(w http.ResponseWriter, r *http.Request) {
	v, err := d.load(r.Context(), d.client(caller(r)), r.PathValue("id"), loadWhole)
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	if !v.echo.Background {
		wire.Refuse(w, &wire.Error{Status: http.StatusBadRequest, Type: wire.InvalidRequest, Code: "not_in_background", Message: "Only a response with background: true can be cancelled.", Param: "response_id", Final: true})
		return
	}
	if v.live == nil {
		wire.Reply(w, http.StatusOK, v.response(false))
		return
	}
	v.live.Abort(wire.ErrCancelled)
	allowWait(w)
	res, err := v.live.Wait(r.Context())
	if res == nil {
		d.endRefused(w, err)
		return
	}
	wire.Reply(w, http.StatusOK, res)
}
