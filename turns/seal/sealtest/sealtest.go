// Package sealtest makes for tests what an operator's mistake or a crash leaves of a key store.
package sealtest

import (
	"os"
	"slices"
	"testing"

	"nexus/turns"
	"nexus/turns/seal/keyring"
)

// Forget makes the key store in a folder one that never had the keys of some ids. Nobody may
// have it open.
func Forget(t testing.TB, dir string, ids ...turns.ID) {
	t.Helper()
	old := open(t, dir)
	left := open(t, dir+".left")
	have, destroyed := old.IDs()
	if err := left.Destroy(destroyed...); err != nil {
		t.Fatal(err)
	}
	for _, id := range have {
		if slices.Contains(ids, id) {
			continue
		}
		k, err := old.Key(id)
		if err == nil {
			err = left.Put(id, k)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*keyring.Store{old, left} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".left", dir); err != nil {
		t.Fatal(err)
	}
}

// IDs are those that have a key in the store in a folder, sorted. Nobody may have it open.
func IDs(t testing.TB, dir string) []turns.ID {
	t.Helper()
	s := open(t, dir)
	defer s.Close()
	ids, _ := s.IDs()
	slices.SortFunc(ids, turns.ID.Compare)
	return ids
}

func open(t testing.TB, dir string) *keyring.Store {
	t.Helper()
	s, err := keyring.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
