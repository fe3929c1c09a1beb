package seal

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"nexus/turns"
)

// A key file is, in bytes: 8 magic, 1 version, 16 key id, 32 key, 32 SHA-256
// of all before. A tombstone has another magic and no key.
const (
	keyMagic    = "NEXUSKEY"
	tombMagic   = "NEXUSDEL"
	fileVersion = 1
	keyFileSize = 8 + 1 + 16 + 32 + 32
)

// The two copies, and the endings of the files of an id.
const (
	copyA = "a"
	copyB = "b"

	keyFile   = ".key"
	tombFile  = ".erased"
	newSuffix = ".new"
)

var copies = [2]string{copyA, copyB}

func encodeKey(id turns.ID, k Key) []byte {
	b := append([]byte(keyMagic), fileVersion)
	b = append(append(b, id[:]...), k[:]...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func encodeTomb(id turns.ID) []byte {
	b := append([]byte(tombMagic), fileVersion)
	b = append(b, id[:]...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decodeKey reads the key of id. Errors: [turns.ErrUnsupported] for a version
// that this build does not know, which is left alone; [turns.ErrCorrupt].
func decodeKey(b []byte, id turns.ID) (k Key, err error) {
	sum := sha256.Sum256(b[:max(0, len(b)-sha256.Size)])
	switch {
	case len(b) < len(keyMagic)+1+sha256.Size || !bytes.HasSuffix(b, sum[:]):
		return k, fmt.Errorf("%w: the check fails (%d bytes)", turns.ErrCorrupt, len(b))
	case string(b[:8]) != keyMagic:
		return k, fmt.Errorf("%w: not a key file", turns.ErrCorrupt)
	case b[8] != fileVersion:
		return k, fmt.Errorf("%w: key file version %d, this build knows %d", turns.ErrUnsupported, b[8], fileVersion)
	case len(b) != keyFileSize:
		return k, fmt.Errorf("%w: %d bytes, not %d", turns.ErrCorrupt, len(b), keyFileSize)
	case turns.ID(b[9:25]) != id:
		return k, fmt.Errorf("%w: it holds the key of %s", turns.ErrCorrupt, turns.ID(b[9:25]))
	}
	return Key(b[25:57]), nil
}
