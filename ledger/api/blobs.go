package api

import "nexus/turns"

// PutBlob is blob.put: a piece of content, or pieces to put together.
type PutBlob struct {
	// ID is that of the call, as every change has one. This one has the same outcome each time, so it is not stored.
	ID       turns.ID     `json:"id,omitzero"`
	Session  turns.ID     `json:"session"`
	Data     []byte       `json:"data,omitempty,omitzero"`   // base64
	Pieces   []turns.Hash `json:"pieces,omitempty,omitzero"` // digests that earlier calls returned, in order
	InPieces bool         `json:"in_pieces,omitzero"`        // the content stays in its pieces, each but the last of [turns.MaxPiece] bytes
}

// BlobInfo is blob.put's reply: what a part's ref says.
type BlobInfo struct {
	Digest turns.Hash `json:"digest"`
	Size   uint64     `json:"size"` // bytes

	Pieces []turns.Hash `json:"pieces,omitempty,omitzero"` // of content that stays in pieces
}

// GetBlob is blob.get.
type GetBlob struct {
	Session turns.ID   `json:"session"`
	Digest  turns.Hash `json:"digest"`
	Offset  uint64     `json:"offset,omitempty,omitzero"` // bytes
}

// BlobData is blob.get's reply.
type BlobData struct {
	Digest turns.Hash `json:"digest"`
	Size   uint64     `json:"size"` // of the whole, bytes
	Offset uint64     `json:"offset"`
	Data   []byte     `json:"data"`                    // base64
	Next   uint64     `json:"next,omitempty,omitzero"` // offset of what follows; absent at the end
}
