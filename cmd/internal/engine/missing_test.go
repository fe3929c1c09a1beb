package engine_test

import (
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A request without the turn that it is about is wrong; it is not one for a turn that
// is not there.
func TestRequestWithoutItsTurnIsMalformed(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("hello", "hi"))
	r := api.CreateFork{}
	_, err := e.Forks.Fork(t.Context(), alice, s.ID, r, canon(r))
	wantField(t, "fork.create", err, "/turn")
	_, err = e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{})
	wantField(t, "turn.get", err, "/id")
	_, err = e.History.GetCompaction(t.Context(), alice, s.ID, api.GetTurn{})
	wantField(t, "compaction.get", err, "/id")
	_, err = e.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{})
	wantField(t, "compaction.expand", err, "/id")
}

// A piece that is not stored is not_found, in every request that names one, with the
// place of its name.
func TestMissingPieceIsNotFound(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	missing := turns.Hash{1, 2, 3}
	first := must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s.ID, Data: []byte("a piece")}))(t)
	_, put := e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s.ID, Pieces: []turns.Hash{first.Digest, missing}})
	_, blob := e.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: []api.ExportRecord{
		{Blob: &api.ExportBlob{Root: s.ID, Digest: turns.Hash{9}, Pieces: []turns.Hash{missing}}}}})
	_, event := e.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: []api.ExportRecord{
		{Piece: &api.ExportPiece{Sealed: []byte("a piece")}}, {Event: &api.ExportEvent{Hash: turns.Hash{9}, Pieces: []turns.Hash{missing}}}}})
	for what, c := range map[string]struct {
		err   error
		field string
	}{
		"blob.put":                   {put, "/pieces/1"},
		"session.import of a blob":   {blob, "/records/0/blob/pieces/0"},
		"session.import of an event": {event, "/records/1/event/pieces/0"},
	} {
		if x := api.FromError(c.err); x.Code != api.NotFound || x.Details["field"] != c.field {
			t.Errorf("%s: %v, want not_found at %s", what, c.err, c.field)
		}
	}
}
