package backup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"nexus/ledger"
)

// frames reads the frames of a file and finds the next one behind damage.
type frames struct {
	file  io.ReaderAt
	size  int64
	at    int64 // of the next frame
	in    *bufio.Reader
	frame []byte // that was read last
}

// hole is bytes that are no sound frame.
type hole struct {
	kind byte  // of the frame that they were, if it is one and its head is sound; otherwise 0
	end  int64 // of the file, where the next frame begins
	why  string
}

// seek goes to a byte.
func (f *frames) seek(at int64) {
	at = min(at, f.size)
	f.at, f.in = at, bufio.NewReaderSize(io.NewSectionReader(f.file, at, f.size-at), int(min(f.size-at, 256<<10)))
}

// next reads the next frame, or a hole, and returns where it begins. io.EOF; [errShort]; the errors of the file.
func (f *frames) next() (at int64, h *hole, err error) {
	at = f.at
	f.frame, err = readFrame(f.in, f.frame)
	if err == nil {
		f.at += int64(len(f.frame))
		return at, nil, nil
	}
	if !errors.Is(err, ledger.ErrCorrupt) {
		return at, nil, err
	}
	why := err.Error()
	if err := torn(io.NewSectionReader(f.file, at+int64(len(f.frame)), f.size), f.frame, err); !errors.Is(err, ledger.ErrCorrupt) {
		return at, nil, err
	}
	h = &hole{why: why}
	if isHead(f.frame) {
		h.kind, h.end = f.frame[0], at+int64(len(f.frame))
	} else if err := f.find(at, h); err != nil {
		return at, nil, err
	} else if h.kind != 0 {
		f.frame = make([]byte, h.end-at)
		if _, err := f.file.ReadAt(f.frame, at); err != nil && !errors.Is(err, io.EOF) {
			return at, nil, err
		}
		f.frame[0] = h.kind
	}
	f.seek(h.end)
	return at, h, nil
}

// isHead reports whether a frame begins with a sound head.
func isHead(b []byte) bool {
	n := binary.LittleEndian.Uint32(b[1:])
	switch b[0] {
	case beginKind, endKind, logKind, blobKind:
		return n <= maxFrame && crc32.Checksum(b[:5], castagnoli) == binary.LittleEndian.Uint32(b[5:])
	}
	return false
}

// find finds where the frame at a byte ends, whose head is damaged: at the next sound frame,
// or at the end of the file. A flipped byte leaves the length or the checksum of the length, so
// an end that fits one of them comes before any other: a payload may hold what looks like a
// frame. Where the checksum of the body fits too, the next frame may be damaged.
func (f *frames) find(at int64, h *hole) error {
	head := make([]byte, headSize)
	if _, err := f.file.ReadAt(head, at); err != nil {
		return err
	}
	fits := func(end int64) byte {
		var b [5]byte
		n := end - at - headSize
		if n < 0 || n > maxFrame {
			return 0
		}
		binary.LittleEndian.PutUint32(b[1:], uint32(n))
		for _, kind := range []byte{logKind, blobKind, beginKind, endKind} {
			if b[0] = kind; crc32.Checksum(b[:], castagnoli) == binary.LittleEndian.Uint32(head[5:]) || [5]byte(head) == b {
				return kind
			}
		}
		return 0
	}
	const window = 1 << 20
	buf := make([]byte, 1+headSize+min(f.size-at, window)) // one byte before the window
	first, body := int64(0), uint32(0)                     // body is the checksum of what is before p
	for from := at + 1; from < f.size; from += window {
		n, err := f.file.ReadAt(buf, from-1)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		n = min(n-1, int(f.size-from))
		for i := 0; i < min(window, n-headSize+1); i++ {
			p := from + int64(i)
			if p > at+headSize {
				body = crc32.Update(body, castagnoli, buf[i:i+1])
			}
			if body == binary.LittleEndian.Uint32(head[9:]) && fits(p) != 0 {
				h.kind, h.end = fits(p), p
				return nil
			}
			if !isHead(buf[i+1:]) {
				continue
			}
			if _, err := readFrame(io.NewSectionReader(f.file, p, f.size-p), nil); errors.Is(err, ledger.ErrCorrupt) || errors.Is(err, errShort) {
				continue
			} else if err != nil {
				return err
			}
			if h.kind = fits(p); h.kind != 0 {
				h.end = p
				return nil
			}
			if first == 0 {
				first = p
			}
		}
		if first > 0 && from-at > headSize+maxFrame {
			break
		}
	}
	h.kind, h.end = fits(f.size), f.size
	if h.kind == 0 && first > 0 {
		h.end = first
	}
	return nil
}
