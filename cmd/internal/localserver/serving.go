package localserver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/wholefile"
)

// Serving says how the process that serves a folder is reached.
type Serving struct {
	URL      string    `json:"url"` // of NATS
	PID      int       `json:"pid"`
	Version  string    `json:"version"`
	Operator string    `json:"operator,omitempty"` // file of the operator's credentials; "": none are asked for
	CA       string    `json:"ca,omitempty"`       // PEM file of the authority to trust; "": without TLS
	Child    bool      `json:"child,omitempty"`    // a ledgerctl started it: it ends by itself, and gives way
	Began    time.Time `json:"began"`
}

func servingFile(data string) string { return filepath.Join(data, "serving.json") }

// Save writes s into the folder that it serves, for its owner alone. The caller has the folder's lock.
func Save(data string, s Serving) error {
	return wholefile.Write(servingFile(data), 0o600, func(w io.Writer) error { return json.MarshalWrite(w, s) })
}

// Remove removes what Save wrote. The caller has the folder's lock.
func Remove(data string) error {
	if err := os.Remove(servingFile(data)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Find returns how the folder is served, as the last process said that served it; it may have ended.
// [fs.ErrNotExist]: none is known.
func Find(data string) (s Serving, err error) {
	b, err := os.ReadFile(servingFile(data))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil || s.URL == "" {
		return s, fmt.Errorf("%s can't be read; remove it, and try again", servingFile(data))
	}
	return s, nil
}
