package tokens

import (
	_ "embed"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packedO200k is the vocabulary o200k_base in zstd: the lengths of its tokens
// in the order of their ranks, a byte each, and then the tokens. Its test
// makes the published file of it again and compares the SHA-256.
//
//go:embed o200k.zst
var packedO200k []byte

const (
	tokensO200k  = 199_998
	longestToken = 128 // bytes
)

type vocabularyO200k struct {
	ranks   map[string]uint32 // token → rank, from 0
	classes *classes
}

// vocabulary reads the embedded vocabulary at the first call.
var vocabulary = sync.OnceValue(func() *vocabularyO200k {
	v, err := readVocabulary(packedO200k)
	if err != nil {
		panic(fmt.Sprintf("tokens: the embedded vocabulary: %v", err)) // the program was built wrong
	}
	return v
})

func readVocabulary(packed []byte) (*vocabularyO200k, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	b, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, err
	}
	if len(b) < tokensO200k {
		return nil, fmt.Errorf("%d bytes can't hold the lengths of %d tokens", len(b), tokensO200k)
	}
	lengths, text := b[:tokensO200k], string(b[tokensO200k:])
	v := &vocabularyO200k{ranks: make(map[string]uint32, tokensO200k), classes: newClasses()}
	for rank, n := range lengths {
		if int(n) > len(text) || n > longestToken {
			return nil, fmt.Errorf("token %d has %d bytes of %d", rank, n, len(text))
		}
		v.ranks[text[:n]] = uint32(rank)
		text = text[n:]
	}
	if len(v.ranks) != tokensO200k || text != "" {
		return nil, fmt.Errorf("%d different tokens of %d, %d bytes over", len(v.ranks), tokensO200k, len(text))
	}
	return v, nil
}
