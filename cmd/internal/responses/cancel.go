package responses

import "net/http"

// postCancel is POST /v1/responses/{id}/cancel: of a background response only. One that
// has ended stays as it is.
func (d *Door) postCancel(w http.ResponseWriter, r *http.Request) {
	v, err := d.load(r.Context(), d.client(caller(r)), r.PathValue("id"), loadWhole)
	if err != nil {
		refuse(w, err)
		return
	}
	if !v.echo.Background {
		refuse(w, &Error{Status: http.StatusBadRequest, Type: invalidRequest, Code: "not_in_background", Message: "Only a response with background: true can be cancelled.", Param: "response_id", Final: true})
		return
	}
	if v.live == nil {
		reply(w, http.StatusOK, v.response(false))
		return
	}
	v.live.cancel(errCancelled)
	allowWait(w)
	res, err := v.live.wait(r.Context())
	if res == nil {
		d.endRefused(w, err)
		return
	}
	reply(w, http.StatusOK, res)
}
