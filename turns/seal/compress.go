package seal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"nexus/turns"
)

// The coders are made at first use and then shared: each holds buffers that
// cost more than a body does. Their EncodeAll and DecodeAll are safe for
// concurrent use. Decision 92 has the figures for the level.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		// No checksum: the seal, or else the event's hash, checks the bytes.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err)
		}
		return e
	})

	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(turns.MaxBody), zstd.WithDecoderMaxWindow(turns.MaxBody),
			zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// minCompress is the size in bytes below which zstd does not pay.
const minCompress = 64

// compress returns b or, where that is smaller, the zstd of b, which it appends to dst.
// So the result is dst's memory, or new, or b's.
func compress(dst, b []byte) ([]byte, turns.Encoding) {
	if len(b) < minCompress {
		return b, 0
	}
	if z := encoder().EncodeAll(b, slices.Grow(dst, len(b))); len(z) < len(b) {
		return z, turns.Zstd
	}
	return b, 0
}

// scratch holds memory for what is compressed and then sealed. It holds no content: who
// used it writes zeros over it.
var scratch = sync.Pool{New: func() any { return new([maxScratch]byte) }}

// maxScratch is the size in bytes of the bodies that are compressed there.
const maxScratch = 16 << 10

// compressed calls use with b compressed, where that makes it smaller. use keeps no
// reference to what it is given.
func compressed(b []byte, use func(packed []byte, enc turns.Encoding) error) error {
	if len(b) > maxScratch {
		return use(compress(nil, b))
	}
	buffer := scratch.Get().(*[maxScratch]byte)
	defer func() {
		clear(buffer[:len(b)])
		scratch.Put(buffer)
	}()
	return use(compress(buffer[:0:len(b)], b))
}

// decompress is the inverse of compress. The result is not packed's memory.
// A frame that claims or holds more than [turns.MaxBody] bytes is refused
// before they are allocated.
func decompress(enc turns.Encoding, packed []byte) ([]byte, error) {
	if enc&turns.Zstd == 0 {
		if len(packed) > turns.MaxBody {
			return nil, fmt.Errorf("%w: %d bytes, the limit is %d", turns.ErrTooLarge, len(packed), turns.MaxBody)
		}
		return bytes.Clone(packed), nil
	}
	if !oneFrame(packed) {
		return nil, fmt.Errorf("%w: decompress: not one frame of zstd", turns.ErrCorrupt)
	}
	b, err := decoder().DecodeAll(packed, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, fmt.Errorf("%w: over %d bytes when decompressed", turns.ErrTooLarge, turns.MaxBody)
	case err != nil:
		return nil, fmt.Errorf("%w: decompress: %v", turns.ErrCorrupt, err)
	}
	return b, nil
}

// oneFrame reports whether b is one frame of zstd (RFC 8878, section 3.1.1), as far as its headers say: a reader that
// goes on behind a frame, and one that doesn't, would find different bodies in several.
func oneFrame(b []byte) bool {
	var h zstd.Header
	if h.Decode(b) != nil || h.Skippable {
		return false
	}
	for at := h.HeaderSize; at+3 <= len(b); {
		block := uint32(b[at]) | uint32(b[at+1])<<8 | uint32(b[at+2])<<16
		size := int(block >> 3)
		if block>>1&3 == 1 { // one byte, repeated
			size = 1
		}
		if at += 3 + size; block&1 == 1 { // the last one
			if h.HasCheckSum {
				at += 4
			}
			return at == len(b)
		}
	}
	return false
}
