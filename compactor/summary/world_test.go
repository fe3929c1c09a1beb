package summary

import (
	"encoding/binary"
	"testing"

	"nexus/turns"
)

func testID(n uint64) (id turns.ID) {
	binary.BigEndian.PutUint64(id[8:], n)
	id[0] = 1
	return id
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
