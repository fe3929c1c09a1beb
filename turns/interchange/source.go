package interchange

import (
	"errors"
	"fmt"
	"io"
	"nexus/turns"
)

// Source is the side of a [Reader] that a format fills: a format embeds it, sets read or
// calls readLines, and adds steps and losses as it reads.
type Source struct {
	loss  LossReport
	names Titles

	read   func() error             // reads one record; io.EOF after the last
	torn   func(line int, b []byte) // reads what is left of a torn object, before the others of its line; nil: nothing
	titles func() Titles            // nil: names

	complete func() []Step // the steps that the end of the file would add here; nil: none
	repeats  bool          // Next gives those of complete again

	queue []Step // read, and not returned yet
	err   error  // of read: the last
}

// reader returns the reader of what the source reads.
func (r *Source) reader() *Reader { return &Reader{r} }

// step adds a step to those that Next returns.
func (r *Source) step(s Step) { r.queue = append(r.queue, s) }

// takeSteps returns the steps that Next has not returned, and takes them from it.
func (r *Source) takeSteps() []Step {
	steps := r.queue
	r.queue = nil
	return steps
}

func (r *Source) next() (Step, error) {
	for len(r.queue) == 0 {
		if r.err != nil {
			return Step{}, r.err
		}
		r.err = r.read()
	}
	s := r.queue[0]
	r.queue[0] = Step{}
	r.queue = r.queue[1:]
	return s, nil
}

func (r *Source) titlesSoFar() map[turns.ID]string {
	if r.titles != nil {
		return r.titles().texts()
	}
	return r.names.texts()
}

// lineFormat is a format of one JSON object a line.
type lineFormat struct {
	name   string                            // in errors
	object func(line int, json []byte) error // reads one object; an error ends the reading
	end    func(line int)                    // reads the end of the file
}

// readLines makes r read the JSON objects of lines, one line a call of read.
func (r *Source) readLines(in io.Reader, opt Options, f lineFormat) {
	limit := opt.MaxLine
	if limit <= 0 {
		limit = DefaultMaxLine
	}
	lines := newLineReader(in, limit)
	r.read = func() error {
		line, err := lines.next()
		switch {
		case err == io.EOF:
			f.end(line.n)
			return io.EOF
		case errors.Is(err, errNoMore):
			return err
		case errors.Is(err, errLineTooLong):
			r.loss.add(line.n, "skipped", "the line is longer than "+plural(limit, "byte"), "")
			return nil
		}
		if err == nil {
			objects, torn := lineObjects(line, opt.Final, &r.loss)
			if torn != nil && r.torn != nil {
				r.torn(line.n, torn)
			}
			for _, b := range objects {
				if err = f.object(line.n, b); err != nil {
					break
				}
			}
		}
		if err != nil {
			return fmt.Errorf("read %s, line %d: %w", f.name, line.n, err)
		}
		return nil
	}
}
