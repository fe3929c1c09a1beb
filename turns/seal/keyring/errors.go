package keyring

import (
	"errors"
	"fmt"

	"nexus/turns"
	"nexus/turns/seal"
)

// ErrDifferent: another key is stored under the id.
var ErrDifferent = errors.New("different key")

// ErrOtherStore: the files in the folder are of two stores.
var ErrOtherStore = errors.New("files of two key stores")

var errClosed = errors.New("the key store is closed")

func erased(id turns.ID) error {
	return fmt.Errorf("%w: the key of %s is destroyed", turns.ErrErased, id)
}

func noKey(id turns.ID) error { return fmt.Errorf("%w: of %s", seal.ErrNoKey, id) }

func punctured(id turns.ID) error { return fmt.Errorf("%w %s", seal.ErrPunctured, id) }

func different(id turns.ID) error {
	return fmt.Errorf("put the key of %s: another key is here: %w", id, ErrDifferent)
}

// whole is the key of id, if c is one.
func whole(id turns.ID, c seal.Content, err error) (seal.Key, error) {
	if err != nil {
		return seal.Key{}, err
	}
	k, err := c.Whole()
	if err != nil {
		err = punctured(id)
	}
	return k, err
}
