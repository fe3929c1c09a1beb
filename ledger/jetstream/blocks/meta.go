package blocks

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/ledger"
)

const (
	metaFile = "meta.inf"
	sumFile  = "meta.sum"
	keyFile  = "meta.key"
	maxMeta  = 16 << 20
)

// Stream is what meta.inf says of the stream.
type Stream struct {
	Name    string
	Created time.Time      // tells a stream from another of the same name
	Config  jsontext.Value // the whole file: the configuration as the server's API shows it, and "Created"
}

// ReadStream reads meta.inf in dir, the folder of the stream, and compares it
// with the checksum in meta.sum. Errors: [*Damage] if a file is missing, damaged or of
// another stream (the server would not open the stream, and not report why);
// [ledger.ErrUnsupported] for an encrypted or compressed stream.
func ReadStream(dir string) (Stream, error) {
	dir, err := filepath.Abs(dir) // its name is the key of the checksum
	if err != nil {
		return Stream{}, err
	}
	damage := func(file, format string, args ...any) error {
		return &Damage{Kind: Meta, File: file, Detail: fmt.Sprintf(format, args...)}
	}
	if _, err := os.Stat(filepath.Join(dir, keyFile)); err == nil {
		return Stream{}, fmt.Errorf("%w: stream %s is encrypted", ledger.ErrUnsupported, filepath.Base(dir))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Stream{}, err
	}
	var content [2][]byte
	for i, name := range []string{metaFile, sumFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return Stream{}, damage(name, "the file is missing")
		}
		if err != nil {
			return Stream{}, err
		}
		if info.Size() > maxMeta {
			return Stream{}, damage(name, "it has %d bytes, more than %d", info.Size(), maxMeta)
		}
		if content[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return Stream{}, err
		}
	}
	name := filepath.Base(dir)
	c, err := newChecksum(name)
	if err != nil {
		return Stream{}, err
	}
	_, _ = c.digest.Write(content[0])
	if sum := hex.EncodeToString(c.digest.Sum(c.sum[:0])); sum != string(content[1]) {
		return Stream{}, damage(metaFile, "its checksum is %s, %s says %q", sum, sumFile, string(content[1][:min(len(content[1]), 32)]))
	}
	var m struct {
		Name        string    `json:"name"`
		Created     time.Time `json:"Created"`
		Storage     string    `json:"storage"`
		Compression string    `json:"compression"`
	}
	if err := json.Unmarshal(content[0], &m); err != nil {
		return Stream{}, damage(metaFile, "%v", err)
	}
	switch {
	case m.Name != name:
		return Stream{}, damage(metaFile, "it is of stream %q, the folder is of %q", m.Name, name)
	case m.Storage != "file":
		return Stream{}, damage(metaFile, "a stream with storage %q has no folder", m.Storage)
	case m.Compression != "" && !strings.EqualFold(m.Compression, "none"):
		return Stream{}, fmt.Errorf("%w: stream %s is compressed by %s", ledger.ErrUnsupported, name, m.Compression)
	}
	return Stream{Name: m.Name, Created: m.Created.UTC(), Config: content[0]}, nil
}
