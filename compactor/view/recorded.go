package view

import (
	"slices"

	"nexus/turns"
	"nexus/turns/tokens"
)

// WithoutPending returns the context without the synthetic responses for calls that wait
// at the head.
func (c Context) WithoutPending() Context {
	n := len(c.Messages)
	for n > 0 && c.Sources[c.Origins[n-1]].Why == whyPending {
		n--
	}
	if n == len(c.Messages) {
		return c
	}
	c.Tokens -= c.Pending()
	c.Messages, c.Origins = c.Messages[:n:n], c.Origins[:n:n]
	last := len(c.Sources) // a half with an empty message has a source and no message
	for last > 0 && c.Sources[last-1].Why == whyPending {
		last--
	}
	c.Sources = c.Sources[:last:last]
	return c
}

// WithHalf returns the context with a half of a turn behind it, as an agent sends it
// behind a context that it was given. c is not changed.
func (c Context) WithHalf(at turns.Ref, half turns.Half, ms []turns.Message, by tokens.Counter) Context {
	c.Messages, c.Origins = slices.Clone(c.Messages), slices.Clone(c.Origins)
	src := Source{Turn: at, Half: half, Status: Verbatim, Why: "it is the turn's own"}
	for i := range ms {
		src.Tokens += by.Message(&ms[i])
		c.Messages, c.Origins = append(c.Messages, ms[i]), append(c.Origins, len(c.Sources))
	}
	c.Sources = append(slices.Clone(c.Sources), src)
	c.Tokens += src.Tokens
	return c
}
