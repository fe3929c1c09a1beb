package terminal

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/charmbracelet/colorprofile"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/turns"
)

// Terminal is where a command reads and writes, and how it shows things there.
// The zero value writes plain text of any width; it needs its writers.
type Terminal struct {
	JSON             bool // results as JSON
	Quiet            bool // no talk on Err
	Verbose          bool // say on Err which ledger is asked
	NoColor, NoPager bool
	LessFlags        string // of a pager whose owner set none
	In               io.Reader
	Out, Err         io.Writer
	Raw              io.Writer // Out as it was given, for content that is not text
	Width            int       // of the terminal behind Out, in cells; 0: not a terminal, or one of unknown width
	OutIsTerminal    bool      // Out is one
	ErrIsTerminal    bool      // Err is one
}

// Print writes v as one line of JSON: byte for byte where out is a file or a pipe,
// with hidden characters escaped where it is a terminal.
func (term *Terminal) Print(v any) error {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = term.Lines().Write(append(b, '\n'))
	return err
}

// Lines returns the writer of JSON, whole values at a time.
func (term *Terminal) Lines() io.Writer {
	if term.OutIsTerminal {
		return escaper{term.Raw}
	}
	return term.Raw
}

// escaper writes JSON with its hidden characters escaped. A write holds whole values.
type escaper struct{ w io.Writer }

func (x escaper) Write(b []byte) (int, error) {
	if _, err := x.w.Write(prose.EscapeHidden(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Tell writes a sentence to stdout, in as many lines as the terminal makes of it.
func (term *Terminal) Tell(format string, args ...any) {
	fmt.Fprintln(term.Out, Wrapped(term.Width, fmt.Sprintf(format, args...), "  "))
}

// Result writes what a verb did: as JSON, or as a sentence.
func (term *Terminal) Result(v any, format string, args ...any) error {
	if term.JSON {
		return term.Print(v)
	}
	term.Tell(format, args...)
	return nil
}

// Say writes a sentence to stderr.
func (term *Terminal) Say(format string, args ...any) {
	if !term.Quiet {
		fmt.Fprintln(term.Err, Wrapped(term.Width, fmt.Sprintf(format, args...), "  "))
	}
}

// Dress makes Out and Err take the styles as their terminals can show them:
// none where they are files, where NO_COLOR is set, or with --no-color.
func (t *Terminal) Dress() {
	t.Width, t.OutIsTerminal = 0, false
	if f, ok := t.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		t.OutIsTerminal = true
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			t.Width = w
		}
	}
	if f, ok := t.Err.(*os.File); ok {
		t.ErrIsTerminal = term.IsTerminal(int(f.Fd()))
	}
	t.Out, t.Err = t.Plain(t.Out), t.Plain(t.Err)
}

// Plain returns w as what takes the styles that it can show.
func (term *Terminal) Plain(w io.Writer) io.Writer {
	p := colorprofile.NewWriter(w, os.Environ())
	if term.NoColor {
		p.Profile = colorprofile.NoTTY
	}
	return p
}

// Progress is a bar on stderr that says how much of a work is done, and how long
// the rest may take; it draws on a terminal only. more are options beyond those.
func (term *Terminal) Progress(total int64, what string, more ...progressbar.Option) *progressbar.ProgressBar {
	if !term.ErrIsTerminal || term.Quiet || term.JSON {
		return progressbar.DefaultSilent(total, what)
	}
	// The bar asks its writer for the width of the terminal, which only the file knows. A bar
	// without the file takes 80 cells, and begins a new line at each update of a narrower one.
	w := term.Err
	if p, ok := w.(*colorprofile.Writer); ok {
		w = p.Forward
	}
	return progressbar.NewOptions64(total, append(more, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(24), progressbar.OptionThrottle(1e8), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())...)
}

// ReadFile is a file's content; - is standard input.
func (term *Terminal) ReadFile(name string) (b []byte, err error) {
	if name == "" {
		return nil, fault.Usage(errors.New("the name of the file is empty; - is stdin"))
	}
	if name == "-" {
		return io.ReadAll(term.In)
	}
	if b, err = os.ReadFile(name); err != nil {
		err = fault.Usage(err)
	}
	return b, err
}

// PrintJSON prints each value as a line of JSON.
func PrintJSON[T any](term *Terminal, list []T) error {
	for _, x := range list {
		if err := term.Print(x); err != nil {
			return err
		}
	}
	return nil
}

// PrintEach prints each of a list: as JSON, or as its line. limit, where it is not
// 0, is the most that are printed.
func PrintEach[T any](term *Terminal, all iter.Seq2[T, error], limit int, line func(*T) string) error {
	n := 0
	for x, err := range all {
		if err != nil {
			return err
		}
		if term.JSON {
			err = term.Print(x)
		} else {
			_, err = fmt.Fprintln(term.Out, line(&x))
		}
		if n++; err != nil || n == limit {
			return err
		}
	}
	return nil
}
