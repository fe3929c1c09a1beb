package edits

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// The limits of a transcript that originals are read from.
const maxTranscriptLine, maxOriginals = 64 << 20, 256 << 20

// ErrTooLarge says that a transcript is over the limits.
var ErrTooLarge = errors.New("the transcript is too large")

// ReadOriginals returns what files held before the edits of a transcript of Claude Code, by
// the ids of the calls. Claude Code notes it beside a result, in a copy for its terminal
// that an import does not store. Lines that can't be read are skipped. [ErrTooLarge] over
// 256 MiB of files, or a line over 64 MiB.
func ReadOriginals(r io.Reader) (map[string]string, error) {
	out := make(map[string]string)
	sum := 0
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxTranscriptLine)
	for in.Scan() {
		if !bytes.Contains(in.Bytes(), []byte(`"originalFile"`)) {
			continue
		}
		var x struct {
			Result  turns.Raw `json:"toolUseResult"`
			Message struct {
				Content turns.Raw `json:"content"`
			} `json:"message"`
		}
		var copied struct {
			Original *string   `json:"originalFile"`
			Modified turns.Raw `json:"userModified"`
		}
		var blocks []struct {
			Type string `json:"type"`
			Of   string `json:"tool_use_id"`
		}
		if json.Unmarshal(in.Bytes(), &x) != nil || json.Unmarshal(x.Result, &copied) != nil || copied.Original == nil || string(copied.Modified) == "true" {
			continue
		}
		if json.Unmarshal(x.Message.Content, &blocks) != nil || len(blocks) != 1 || blocks[0].Type != "tool_result" || blocks[0].Of == "" {
			continue
		}
		if sum += len(*copied.Original); sum > maxOriginals {
			return nil, fmt.Errorf("%w: over %d bytes of files", ErrTooLarge, maxOriginals)
		}
		out[blocks[0].Of] = *copied.Original
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("%w: a line of over %d bytes", ErrTooLarge, maxTranscriptLine)
	}
	return out, in.Err()
}
