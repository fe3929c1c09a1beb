package responses

import (
	"context"
	"net/http"
	"time"

	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// deletedChannel of an agent holds the ids of the responses that it deleted. The turns
// stay: other turns build on them.
const deletedChannel = "responses.deleted"

func deletedID(response string) turns.ID {
	return turns.DeriveID(time.Unix(0, 0), "responses deleted", response)
}

func isDeleted(ctx context.Context, client *client.Client, response string) (bool, error) {
	_, err := client.Event(ctx, api.GetEvent{Channel: deletedChannel, ID: deletedID(response)})
	if wire.OfCode(err, api.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// deletedItems is the channel of the items that were deleted of a conversation: one for each
// conversation, so that a list of its items reads them at once, and no others.
func deletedItems(session turns.ID) string { return deletedChannel + "." + session.String() }

// deletedOf returns the ids of what was deleted of a conversation, by [deletedID].
func deletedOf(ctx context.Context, client *client.Client, session turns.ID) (map[turns.ID]bool, error) {
	out := make(map[turns.ID]bool)
	for e, err := range client.Events(ctx, api.ListEvents{Channel: deletedItems(session)}) {
		if wire.OfCode(err, api.NotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		out[e.ID] = true
	}
	return out, nil
}

// hide notes in a channel that what has a name, a response or an item, was deleted.
func hide(ctx context.Context, client *client.Client, channel, name, kind string) error {
	_, err := client.AppendEvent(ctx, api.AppendEvent{ID: deletedID(name), Channel: channel, Kind: "responses.deleted", Body: wire.Encode(map[string]string{kind: name})})
	return err
}

// delete is DELETE /v1/responses/{id}. It is durable on return.
func (d *Server) delete(w http.ResponseWriter, r *http.Request) {
	id, client := r.PathValue("id"), d.client(caller(r))
	v, err := d.load(r.Context(), client, id, loadWhole)
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	if v.live != nil {
		wire.Refuse(w, &wire.Error{Status: http.StatusConflict, Type: wire.InvalidRequest, Code: "response_in_progress", Message: "The response is in progress; cancel it first.", Final: true})
		return
	}
	if err := hide(r.Context(), client, deletedChannel, id, "response"); err != nil {
		wire.Refuse(w, err)
		return
	}
	d.spools.Remove(id)
	wire.Reply(w, http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{id, "response", true})
}
