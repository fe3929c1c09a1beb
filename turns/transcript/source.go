package transcript

import (
	"errors"
	"fmt"
	"io"
	"nexus/turns"
	"nexus/turns/internal/values"
)

// Source is the side of a [Reader] that a format fills: a format embeds it, sets read or
// calls readLines, and adds steps and losses as it reads.
type Source struct {
	Loss  LossReport
	Names Titles

	Read   func() error             // reads one record; io.EOF after the last
	Torn   func(line int, b []byte) // reads what is left of a torn object, before the others of its line; nil: nothing
	Titles func() Titles            // nil: names

	Complete func() []Step // the steps that the end of the file would add here; nil: none
	Repeats  bool          // Next gives those of complete again

	queue []Step // read, and not returned yet
	err   error  // of read: the last
}

// Reader returns the reader of what the source reads.
func (r *Source) Reader() *Reader { return &Reader{r} }

// Step adds a step to those that Next returns.
func (r *Source) Step(s Step) { r.queue = append(r.queue, s) }

// TakeSteps returns the steps that Next has not returned, and takes them from it.
func (r *Source) TakeSteps() []Step {
	steps := r.queue
	r.queue = nil
	return steps
}

func (r *Source) next() (Step, error) {
	for len(r.queue) == 0 {
		if r.err != nil {
			return Step{}, r.err
		}
		r.err = r.Read()
	}
	s := r.queue[0]
	r.queue[0] = Step{}
	r.queue = r.queue[1:]
	return s, nil
}

func (r *Source) titlesSoFar() map[turns.ID]string {
	if r.Titles != nil {
		return r.Titles().texts()
	}
	return r.Names.texts()
}

// LineFormat is a format of one JSON object a line.
type LineFormat struct {
	Name   string                            // in errors
	Object func(line int, json []byte) error // reads one object; an error ends the reading
	End    func(line int)                    // reads the end of the file
	// Begins are the beginnings of records, such as {"type":, by which whole records are found
	// behind a torn one on its line: those that have a type, and Untyped those that need none. None:
	// such records are lost with the torn one.
	Begins, Untyped []string
}

// ReadLines makes r read the JSON objects of lines, one line a call of read.
func (r *Source) ReadLines(in io.Reader, opt Options, f LineFormat) {
	limit := opt.MaxLine
	if limit <= 0 {
		limit = DefaultMaxLine
	}
	lines := newLineReader(in, limit)
	r.Read = func() error {
		line, err := lines.next()
		switch {
		case err == io.EOF:
			f.End(line.n)
			return io.EOF
		case errors.Is(err, errNoMore):
			return err
		case errors.Is(err, errLineTooLong):
			r.Loss.Add(line.n, "skipped", "the line is longer than "+values.Plural(limit, "byte"), "")
			return nil
		}
		if err == nil {
			objects, torn := f.lineObjects(line, opt.Final, &r.Loss)
			if torn != nil && r.Torn != nil {
				r.Torn(line.n, torn)
			}
			for _, b := range objects {
				if err = f.Object(line.n, b); err != nil {
					break
				}
			}
		}
		if err != nil {
			return fmt.Errorf("read %s, line %d: %w", f.Name, line.n, err)
		}
		return nil
	}
}
