package turns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
)

// EncodeBody is the deterministic CBOR of a body. It never returns bytes that
// [DecodeBody] refuses, nor a [Raw] that is not one JSON value: a reader of the
// ledger would trip over it for ever.
// Errors: [ErrMalformed], [ErrTooLarge].
func EncodeBody(body any) ([]byte, error) {
	if t, ok := body.(*TurnBody); ok && t != nil {
		b, err := appendTurn(make([]byte, 0, sizeOfTurn(t)), t)
		if err == nil {
			err = checkBounds(b)
		}
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", body, err)
		}
		return b, nil
	}
	if m, ok := body.(*Message); ok && m != nil {
		if b, err := appendMessage(make([]byte, 0, m.encodedSize()), m); err == nil && checkBounds(b) == nil {
			return b, nil // of others the library says what is wrong
		}
	}
	v := reflect.Indirect(reflect.ValueOf(body))
	if !v.IsValid() {
		return nil, fmt.Errorf("%w: encode no body (%T)", ErrMalformed, body)
	}
	if err := checkRaw(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", body, err)
	}
	b, err := encMode.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("%w: encode %T: %v", ErrMalformed, body, err)
	}
	if err := DecodeBody(b, reflect.New(v.Type()).Interface()); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b, nil
}

// DecodeBody reads a body into the zero value that body points at, accepting
// only its canonical encoding. It allocates at most a few times len(b), and
// what [MaxElements] elements take.
// Errors: [ErrMalformed], [ErrTooLarge].
func DecodeBody(b []byte, body any) error {
	if err := checkBounds(b); err != nil {
		return err
	}
	if err := decMode.Unmarshal(b, body); err != nil {
		return fmt.Errorf("%w: %T: %v", ErrMalformed, body, err)
	}
	again, err := encodeAgain(body, len(b))
	if err != nil {
		return fmt.Errorf("%w: %T: %v", ErrMalformed, body, err)
	}
	if !bytes.Equal(again, b) {
		return fmt.Errorf("%w: %T is not in its canonical encoding", ErrMalformed, body)
	}
	return nil
}

// encodeAgain encodes a body that was decoded from size bytes.
func encodeAgain(body any, size int) ([]byte, error) {
	if t, ok := body.(*TurnBody); ok {
		w := bodyWriter{b: make([]byte, 0, size), decoded: true}
		w.turn(t)
		return w.b, nil
	}
	return encMode.Marshal(body)
}

// checkBounds checks the size of a body, and the number of its elements.
func checkBounds(b []byte) error {
	if len(b) > MaxBody {
		return tooLarge("", "the body is %d bytes, the limit is %d", len(b), MaxBody)
	}
	if n := elements(b); n > MaxElements {
		return tooLarge("", "the lists of the body have %d elements, the limit is %d", n, MaxElements)
	}
	return nil
}

// elements is the number of elements that the arrays of b announce, all
// together. It reads only the heads of CBOR items, one after the other, and
// stops at the first that is not one; whether b is CBOR is not its question.
func elements(b []byte) (n uint64) {
	for len(b) > 0 {
		major, arg := b[0]>>5, uint64(b[0]&31)
		b = b[1:]
		if arg >= 24 {
			size := 1 << (arg - 24)
			if arg > 27 || len(b) < size {
				return n
			}
			var be [8]byte
			copy(be[8-size:], b)
			arg, b = binary.BigEndian.Uint64(be[:]), b[size:]
		}
		switch major {
		case 2, 3:
			if arg > uint64(len(b)) {
				return n
			}
			b = b[arg:]
		case 4:
			if arg > uint64(len(b)) {
				return n
			}
			n += arg
		}
	}
	return n
}

var rawType = reflect.TypeFor[Raw]()

// checkRaw reports the first Raw in v that is not one JSON value.
func checkRaw(v reflect.Value) error {
	switch {
	case v.Type() == rawType:
		if v.Len() == 0 {
			return nil
		}
		return checkJSON(v.Bytes())
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return checkRaw(v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		for i := range v.Len() {
			if err := checkRaw(v.Index(i)); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if err := checkRaw(v.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
