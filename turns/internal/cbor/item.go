package cbor

import "encoding/binary"

// ItemHead is the argument of the item that b begins with, and the size of its head: 0
// for one that is cut or not in its shortest form.
func ItemHead(b []byte) (n uint64, size int) {
	if len(b) == 0 {
		return 0, 0
	}
	short := b[0] & 31
	if short < 24 {
		return uint64(short), 1
	}
	if short > 27 || len(b) <= 1<<(short-24) {
		return 0, 0
	}
	var least uint64 // of what needs so many bytes
	switch short {
	case 24:
		n, size, least = uint64(b[1]), 2, 24
	case 25:
		n, size, least = uint64(binary.BigEndian.Uint16(b[1:])), 3, 1<<8
	case 26:
		n, size, least = uint64(binary.BigEndian.Uint32(b[1:])), 5, 1<<16
	case 27:
		n, size, least = binary.BigEndian.Uint64(b[1:]), 9, 1<<32
	}
	if n < least {
		return 0, 0
	}
	return n, size
}

// maxDepth is how deep maps and arrays nest at most in what [Skip] passes over.
const maxDepth = 16

// Skip returns the length of the item that b begins with: maps, arrays, numbers, strings and
// true, nested at most [maxDepth] deep. 0: it is none of these, or cut.
func Skip(b []byte) int { return skip(b, maxDepth) }

func skip(b []byte, depth int) int {
	if len(b) == 0 || depth == 0 {
		return 0
	}
	if b[0] == 0xf5 {
		return 1
	}
	arg, n := ItemHead(b)
	if n == 0 {
		return 0
	}
	switch b[0] >> 5 {
	case 0, 1:
		return n
	case 2, 3:
		if arg > uint64(len(b)-n) {
			return 0
		}
		return n + int(arg)
	case 4, 5:
		if arg > uint64(len(b)) {
			return 0
		}
		if b[0]>>5 == 5 {
			arg *= 2
		}
		for range arg {
			size := skip(b[n:], depth-1)
			if size == 0 {
				return 0
			}
			n += size
		}
		return n
	}
	return 0
}

func zero(b []byte) bool {
	var any byte
	for _, x := range b {
		any |= x
	}
	return any == 0
}

// appendHead appends the head of a CBOR item: its major type and its number in the
// shortest form.
func appendHead(b []byte, major byte, n uint64) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}

func appendBytes(b, v []byte) []byte { return append(appendHead(b, 2, uint64(len(v))), v...) }

func appendText(b []byte, s string) []byte { return append(appendHead(b, 3, uint64(len(s))), s...) }
