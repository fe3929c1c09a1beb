package keyring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nexus/turns"
	"nexus/turns/seal"
)

// The two copies, and the endings of their files.
const (
	copyA = "a"
	copyB = "b"

	epochSuffix = ".epoch"
	logSuffix   = ".log"
	newSuffix   = ".new"
)

var sides = [2]string{copyA, copyB}

var (
	ourFile   = regexp.MustCompile(`^([0-9a-f]{16})(\.epoch|\.log|\.log\.new)$`)
	oldFolder = regexp.MustCompile(`^[0-9a-f]{2}$`)
)

// name returns the name of a file of an epoch.
func (s *Store) name(side string, number uint64, suffix string) string {
	return filepath.Join(s.dir, side, fmt.Sprintf("%016x%s", number, suffix))
}

// logName returns the name of a copy of the log.
func (s *Store) logName(side string) string { return s.name(side, s.epoch.number, logSuffix) }

// current returns the number of the epoch, 0 if there is none yet.
func (s *Store) current() (uint64, error) {
	number, orphan := uint64(0), ""
	var first [2]map[string]bool // files of epoch 1 in a and b, by their endings
	for i, side := range sides {
		first[i] = make(map[string]bool)
		list, err := s.disk.List(filepath.Join(s.dir, side))
		if err != nil {
			return 0, err
		}
		for _, name := range list {
			if oldFolder.MatchString(name) {
				return 0, fmt.Errorf("%w: %s has keys in the layout of an earlier build, one file a key, which this build does not read",
					turns.ErrUnsupported, filepath.Join(s.dir, side, name))
			}
			n, suffix := parse(name)
			if suffix == logSuffix {
				number = max(number, n)
			} else if n > 1 {
				orphan = filepath.Join(s.dir, side, name)
			}
			if n == 1 {
				first[i][suffix] = true
			}
		}
	}
	if first[1][epochSuffix] && !first[0][logSuffix+newSuffix] && !first[1][logSuffix+newSuffix] { // the first open has one of them then
		orphan = s.name(copyB, 1, epochSuffix)
	}
	if number == 0 && orphan != "" {
		return 0, fmt.Errorf("%w: %s is there, and no log of any epoch", turns.ErrCorrupt, orphan)
	}
	return number, nil
}

// parse returns the epoch and the ending of a file's name, and no ending if it is not ours.
func parse(name string) (number uint64, suffix string) {
	m := ourFile.FindStringSubmatch(name)
	if m == nil {
		return 0, ""
	}
	number, err := strconv.ParseUint(m[1], 16, 64)
	if err != nil {
		return 0, ""
	}
	return number, m[2]
}

// storeOf returns the store that a file of ours names, and false where its bytes are not sound
// enough to name one. It needs no key, so it knows a stranger's file too.
func storeOf(suffix string, b []byte) (storeID, bool) {
	if suffix == epochSuffix {
		for _, at := range []int{0, epochSecond} {
			if block, ok := blockAt(b, at); ok && block[8] == logVersion {
				return storeID(block[17:33]), true
			}
		}
		return storeID{}, false
	}
	if len(b) < headerSize || string(b[:8]) != logMagic || b[8] != logVersion ||
		binary.BigEndian.Uint32(b[headerSize-4:]) != crc32.Checksum(b[:headerSize-4], castagnoli) {
		return storeID{}, false
	}
	return storeID(b[24:40]), true
}

// read reads the files of both copies, by name. Nothing was changed before it, and nothing is
// if two of them name different stores. Errors: [ErrOtherStore]; the disk's.
func (s *Store) read() (map[string][]byte, error) {
	files := make(map[string][]byte)
	var store storeID
	var from string // the file that names store
	if s.epoch != nil {
		store, from = s.epoch.store, "the store that is open"
	}
	for _, side := range sides {
		list, err := s.disk.List(filepath.Join(s.dir, side))
		if err != nil {
			return nil, err
		}
		slices.Sort(list)
		for _, file := range list {
			_, suffix := parse(file)
			if suffix == "" {
				continue
			}
			name := filepath.Join(s.dir, side, file)
			b, err := s.disk.Read(name)
			if err != nil {
				return nil, err
			}
			files[name] = b
			switch other, ok := storeOf(suffix, b); {
			case !ok:
			case from == "":
				store, from = other, name
			case other != store:
				return nil, fmt.Errorf("%w: %s is of store %x, %s of store %x: one of them was put there from another folder. Nothing was changed",
					ErrOtherStore, from, store, name, other)
			}
		}
	}
	return files, nil
}

// loadEpoch reads the key of an epoch, and mends its copies.
func (s *Store) loadEpoch(number uint64, files map[string][]byte) (*epoch, error) {
	var faults [2]error
	var stores [2]storeID
	var keys [2]seal.Key
	for i, side := range sides {
		name := s.name(side, number, epochSuffix)
		b, ok := files[name]
		if !ok {
			faults[i] = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		} else if stores[i], keys[i], faults[i] = decodeEpoch(b, number); faults[i] != nil {
			faults[i] = fmt.Errorf("%s: %w", name, faults[i])
		}
		if errors.Is(faults[i], turns.ErrUnsupported) {
			return nil, faults[i]
		}
	}
	switch {
	case faults[0] != nil && faults[1] != nil:
		return nil, fmt.Errorf("%w: no copy of the epoch's key can be read: %w; %w", turns.ErrCorrupt, faults[0], faults[1])
	case faults[0] == nil && faults[1] == nil && keys[0] != keys[1]:
		return nil, fmt.Errorf("%w: %s and %s hold different keys", turns.ErrCorrupt, s.name(copyA, number, epochSuffix), s.name(copyB, number, epochSuffix))
	case faults[0] != nil:
		stores[0], keys[0] = stores[1], keys[1]
	}
	want := encodeEpoch(number, stores[0], keys[0])
	for _, side := range sides {
		name := s.name(side, number, epochSuffix)
		if bytes.Equal(files[name], want) {
			continue
		}
		if err := s.disk.Write(name, want); err != nil { // in place: a rename would leave most of the key in a free block
			return nil, err
		}
		if err := s.disk.SyncDir(filepath.Dir(name)); err != nil {
			return nil, err
		}
		s.warn(fmt.Errorf("key store: %s was damaged or missing; repaired from the other copy", name))
	}
	return newEpoch(number, stores[0], keys[0]), nil
}

// loadLog reads the log of an epoch, and mends its copies.
func (s *Store) loadLog(e *epoch, files map[string][]byte) (merged, error) {
	var logs copies
	var names [2]string
	for i, side := range sides {
		names[i] = s.name(side, e.number, logSuffix)
		b, ok := files[names[i]]
		if logs[i] = b; ok && b == nil {
			logs[i] = []byte{}
		}
	}
	m, err := e.merge(logs, names)
	if err != nil {
		return merged{}, err
	}
	for i, name := range names {
		if err := s.mend(name, logs[i], m, i); err != nil {
			return merged{}, err
		}
		if m.damaged[i] {
			s.warn(fmt.Errorf("key store: %s was damaged or missing; repaired from the other copy", name))
		}
	}
	return m, nil
}

// mend makes copy i of the log what it should be, and writes its last write once more, which may
// be in memory only.
func (s *Store) mend(name string, log []byte, m merged, i int) error {
	from := min(m.last[i], m.end)
	if log == nil || from == m.end { // from == m.end: no record
		from = 0
	}
	tail := make([]byte, m.end-from)
	copy(tail, log[min(from, len(log)):])
	for _, p := range m.mend[i] {
		if p.at+len(p.bytes) > from {
			copy(tail[max(0, p.at-from):], p.bytes[max(0, from-p.at):])
		}
	}
	if log == nil {
		if err := s.disk.Write(name+newSuffix, tail); err != nil {
			return err
		}
		if err := s.disk.Rename(name+newSuffix, name); err != nil {
			return err
		}
		return s.disk.SyncDir(filepath.Dir(name))
	}
	for _, p := range m.mend[i] {
		if p.at < from {
			if err := s.disk.WriteAt(name, p.bytes, int64(p.at)); err != nil {
				return err
			}
		}
	}
	if len(log) > m.end {
		if err := s.disk.Truncate(name, int64(m.end)); err != nil {
			return err
		}
	}
	if err := s.disk.WriteAt(name, tail, int64(from)); err != nil {
		return err
	}
	return s.disk.SyncDir(filepath.Dir(name))
}

// publish writes the files of an epoch and makes it the current one; store.go has the steps.
// Committed: it may be the current one, also after an error.
func (s *Store) publish(e *epoch, log []byte) (committed bool, err error) {
	for _, side := range sides {
		if err := s.disk.Write(s.name(side, e.number, epochSuffix), encodeEpoch(e.number, e.store, e.key)); err != nil {
			return false, err
		}
		if err := s.disk.Write(s.name(side, e.number, logSuffix+newSuffix), log); err != nil {
			return false, err
		}
		if err := s.disk.SyncDir(filepath.Join(s.dir, side)); err != nil {
			return false, err
		}
	}
	for _, side := range sides {
		name := s.name(side, e.number, logSuffix)
		if err := s.disk.Rename(name+newSuffix, name); err != nil {
			return true, err
		}
		if err := s.disk.SyncDir(filepath.Dir(name)); err != nil {
			return true, err
		}
	}
	return true, nil
}

// sweep destroys the files of all epochs but one, keys first.
func (s *Store) sweep(keep uint64) error {
	for _, ofKeys := range []bool{true, false} {
		for _, side := range sides {
			dir := filepath.Join(s.dir, side)
			list, err := s.disk.List(dir)
			if err != nil {
				return err
			}
			swept := false
			for _, name := range list {
				n, suffix := parse(name)
				if suffix == "" || (suffix == epochSuffix) != ofKeys || n == keep && !strings.HasSuffix(name, newSuffix) {
					continue
				}
				if err := s.scrub(filepath.Join(dir, name)); err != nil {
					return err
				}
				swept = true
			}
			if swept || !ofKeys { // a file that was unlinked before may have its name still on the disk
				if err := s.disk.SyncDir(dir); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// scrub writes zeros over a file and unlinks it; a missing file is fine.
func (s *Store) scrub(path string) error {
	b, err := s.disk.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := s.disk.Write(path, make([]byte, max(len(b), epochFile))); err != nil {
		return err
	}
	return s.disk.Remove(path)
}
