package summary

import (
	"encoding/binary"

	"nexus/turns"
)

func testID(n uint64) (id turns.ID) {
	binary.BigEndian.PutUint64(id[8:], n)
	id[0] = 1
	return id
}
