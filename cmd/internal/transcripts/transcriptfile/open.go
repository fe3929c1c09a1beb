package transcriptfile

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"nexus/ledger/jetstream/backup"
	"nexus/turns/transcript"
	"nexus/turns/transcript/formats"
)

// ExportPrefix begins an export of raw events.
const ExportPrefix = `{"nexus_export":`

// ArchivePrefix begins the archive of a compaction.
const ArchivePrefix = `{"nexus_archive":`

// gzipPrefix begins what gzip compressed.
const gzipPrefix = "\x1f\x8b"

// FormatNames returns the names that [Importer] takes as a format, as a list for people.
func FormatNames() string {
	names := []string{"auto"}
	for _, f := range formats.All() {
		names = append(names, f.Name)
	}
	return strings.Join(append(names, "jsonl"), ", ")
}

// File is a file to import. Searched says that it was found in a folder; Special,
// that it is one of a folder which is not to be read: a pipe, a socket, a device, or a
// link to one or to a folder. To open a pipe that nobody writes to would take for ever.
type File struct {
	Name              string
	Searched, Special bool
}

// Find returns the files that args name, those in folders included, and their
// size in bytes. Of a folder the file that was written last comes first: an import of years is
// asked about today before it is through. A file that args name itself is never special.
func Find(args []string) (files []File, size int64, err error) {
	for _, a := range args {
		if a == "-" {
			files = append(files, File{Name: a})
			continue
		}
		st, err := os.Stat(a)
		if err != nil {
			return nil, 0, UsageError{err}
		}
		if !st.IsDir() {
			files, size = append(files, File{Name: a}), size+st.Size()
			continue
		}
		n, written := len(files), make(map[string]time.Time)
		err = filepath.WalkDir(a+string(filepath.Separator), func(name string, d fs.DirEntry, err error) error {
			if err != nil { // it is among those that fail
				files = append(files, File{Name: name, Searched: true})
				return nil
			}
			if d.IsDir() || !isTranscriptName(name) {
				return nil
			}
			f := File{Name: name, Searched: true}
			if st, err := os.Stat(name); err == nil { // else the import of it says why
				if f.Special = !st.Mode().IsRegular(); !f.Special {
					written[name] = st.ModTime()
					size += st.Size()
				}
			}
			files = append(files, f)
			return nil
		})
		if err != nil {
			return nil, 0, UsageError{err}
		}
		slices.SortStableFunc(files[n:], func(a, b File) int { return written[b.Name].Compare(written[a.Name]) })
		if len(files) == n {
			return nil, 0, UsageError{fmt.Errorf("%s holds no .jsonl or .json file", a)}
		}
	}
	return files, size, nil
}

// isTranscriptName reports whether a file of a folder may be a transcript.
func isTranscriptName(name string) bool {
	return slices.Contains([]string{".jsonl", ".json"}, filepath.Ext(strings.TrimSuffix(name, ".zst")))
}

// CheckFormat returns an error that names the formats, unless [Importer] takes name as one.
func CheckFormat(name string) error {
	if !slices.Contains(strings.Split(FormatNames(), ", "), name) {
		return UsageError{fmt.Errorf("format %q is none of %s", name, FormatNames())}
	}
	return nil
}

// UnknownFormat is the error of a file that no format recognizes.
type UnknownFormat struct {
	Empty bool // there is nothing in the file
}

// Error names the formats.
func (u UnknownFormat) Error() string {
	if u.Empty {
		return "the file is empty"
	}
	return "the format is none of " + strings.TrimPrefix(FormatNames(), "auto, ")
}

// Waits reports whether a file that was named is a pipe or a device: to read it may take as
// long as its writer does.
func (f *File) Waits() bool { return f.Name != "-" && !f.Searched && IsStream(f.Name) }

// IsStream reports whether a file can be read once only, like standard input or a pipe.
func IsStream(name string) bool {
	if name == "-" {
		return true
	}
	st, err := os.Stat(name)
	return err == nil && !st.Mode().IsRegular()
}

// Transcript is an open file, and the format that it is in.
type Transcript struct {
	*bufio.Reader
	Format transcript.Format
	file   *os.File // nil: standard input
	unzip  func()   // ends the decompression; nil: there is none
}

// Close closes the file; standard input stays open.
func (t *Transcript) Close() error {
	if t.unzip != nil {
		t.unzip()
	}
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// openFile opens a file. A pipe waits for its writer, until ctx ends: then a read of it
// ends too.
func openFile(ctx context.Context, name string) (*os.File, error) {
	if !IsStream(name) {
		return os.Open(name)
	}
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() { // ends with the process at the latest: nothing ends an open that waits
		f, err := os.Open(name)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		if o.err == nil {
			context.AfterFunc(ctx, func() { _ = o.f.Close() })
		}
		return o.f, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Open opens a file, - for stdin, and detects its format. read is called with
// the number of bytes that were read; it may be nil.
func Open(name string, stdin io.Reader, form string, read func(int)) (*Transcript, error) {
	return OpenContext(context.Background(), name, stdin, form, read)
}

// OpenContext is [Open]. It ends with ctx where the file is a pipe that nobody writes to.
func OpenContext(ctx context.Context, name string, stdin io.Reader, form string, read func(int)) (*Transcript, error) {
	t := new(Transcript)
	in := stdin
	if name != "-" {
		f, err := openFile(ctx, name)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, UsageError{err}
		}
		in, t.file = f, f
	}
	t.Reader = bufio.NewReaderSize(backup.Counted{Reader: in, Count: read}, 1<<20)
	var err error
	if t.Reader, t.unzip, err = uncompressed(t.Reader); err != nil {
		return nil, errors.Join(UsageError{fmt.Errorf("%s: %w", name, err)}, t.Close())
	}
	if head, _ := t.Reader.Peek(len(byteOrderMark)); string(head) == byteOrderMark {
		_, _ = t.Reader.Discard(len(byteOrderMark)) // it was just peeked
	}
	if t.Format, err = detect(t.Reader, form); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// byteOrderMark begins a file that an editor or a shell of Windows wrote again.
const byteOrderMark = "\xef\xbb\xbf"

// Gunzipped returns the content of r, without gzip's compression if it has that.
func Gunzipped(r *bufio.Reader) (*bufio.Reader, error) {
	if head, err := r.Peek(2); err != nil || string(head) != gzipPrefix {
		return r, nil // its reader tells what is wrong
	}
	z, err := gzip.NewReader(r)
	return bufio.NewReaderSize(z, 1<<20), err
}

// zstdPrefix begins what zstd compressed: Codex does that with rollouts of weeks past.
const zstdPrefix = "\x28\xb5\x2f\xfd"

// uncompressed returns the content of r, without the compression of gzip or zstd if it has
// one. done ends the decompression.
func uncompressed(r *bufio.Reader) (out *bufio.Reader, done func(), err error) {
	if head, err := r.Peek(len(zstdPrefix)); err != nil || string(head) != zstdPrefix {
		out, err := Gunzipped(r)
		return out, nil, err
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return r, nil, err
	}
	return bufio.NewReaderSize(z, 1<<20), z.Close, nil
}

// maxWindow bounds what the decompression of a file keeps in memory, in bytes.
const maxWindow = 256 << 20

// Detect returns the format of a file that begins with head; an error if none recognizes
// it, or if it is an export.
func Detect(head []byte) (transcript.Format, error) {
	for _, f := range formats.All() {
		if f.Sniff(head) {
			return f, nil
		}
	}
	return transcript.Format{}, UsageError{UnknownFormat{}}
}

// detect returns the format of the name, and for auto the first that recognizes the
// beginning of br. The format jsonl has no Open: an export holds events, not steps.
func detect(br *bufio.Reader, name string) (transcript.Format, error) {
	head, err := br.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return transcript.Format{}, err
	}
	if strings.HasPrefix(string(head), ArchivePrefix) {
		return transcript.Format{}, UsageError{errors.New("the archive of a compaction has a part of a session; import the archive of the whole session, or an export")}
	}
	auto := name == "auto"
	if auto && len(head) == 0 {
		return transcript.Format{}, UsageError{UnknownFormat{Empty: true}}
	}
	if name == "jsonl" || auto && strings.HasPrefix(string(head), ExportPrefix) {
		return transcript.Format{Name: "jsonl"}, nil
	}
	for _, f := range formats.All() {
		if f.Name == name || auto && f.Sniff(head) {
			return f, nil
		}
	}
	if err := CheckFormat(name); err != nil {
		return transcript.Format{}, err
	}
	return transcript.Format{}, UsageError{UnknownFormat{}}
}
