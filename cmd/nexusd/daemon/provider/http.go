package provider

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/compactor/overflow"
	"nexus/turns"
)

// Bounds of a call.
const (
	maxLine     = 16 << 20        // bytes of one event of a stream
	maxAnswer   = 64 << 20        // bytes of a stream
	maxError    = 64 << 10        // bytes that are read of a refusal
	maxWords    = 500             // bytes of a provider's message that are passed on
	firstByte   = 5 * time.Minute // until the answer begins
	between     = 2 * time.Minute // from one byte to the next
	wholeCall   = time.Hour
	tries       = 3
	longestWait = 30 * time.Second
)

// Row is a provider as a configuration names it.
type Row struct {
	Name string
	Kind string
	URL  string
	Key  string // "": none is sent
}

// httpClient follows no redirect: the key and the content are for the configured server only.
var httpClient = &http.Client{
	Transport: transport(),
	CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("redirects are not followed")
	},
}

func transport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 32
	t.DisableCompression = true // a compressed stream arrives in lumps, and can be a bomb
	return t
}

// call sends a body and hands each event of the stream that comes back to take. It sends the
// body again where the provider refused it before it began, and says or is known to mean
// that it may be tried.
func (r Row) call(ctx context.Context, path string, header http.Header, body []byte, take func(name string, data []byte) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wholeCall, &Error{Code: "timeout", Message: "the model was not done within an hour", Lost: true})
	defer cancel()
	for try := 1; ; try++ {
		err := r.once(ctx, path, header, body, take)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.again || try == tries || e.RetryAfter > longestWait {
			return err
		}
		pause := max(e.RetryAfter, time.Duration(try)*500*time.Millisecond)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// once sends a body once.
func (r Row) once(ctx context.Context, path string, header http.Header, body []byte, take func(string, []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slow := time.AfterFunc(firstByte, func() {
		cancel(&Error{Code: "timeout", Message: fmt.Sprintf("the provider did not begin to answer within %v", firstByte), Lost: true})
	})
	defer slow.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(r.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return &Error{Code: "server_error", Message: "the provider's address is no URL"}
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	res, err := httpClient.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return unreachable(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, maxError)) // a part will do
		return r.refused(res, b)
	}
	broke := func(err error) error {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	slow.Reset(between)
	return readEvents(&steady{r: io.LimitReader(res.Body, maxAnswer+1), read: func() { slow.Reset(between) }}, take, broke)
}

// steady calls read whenever bytes came.
type steady struct {
	r    io.Reader
	n    int64
	read func()
}

func (s *steady) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if n > 0 {
		s.read()
	}
	if s.n += int64(n); s.n > maxAnswer {
		return n, lost("the answer has over %d bytes", maxAnswer)
	}
	return n, err
}

// errDone ends a stream without an error.
var errDone = errors.New("the stream is done")

// readEvents reads server-sent events. take returns errDone after the last one. A stream that
// ends before that is lost.
func readEvents(r io.Reader, take func(name string, data []byte) error, broke func(error) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var name string
	var data []byte
	for {
		line, err := readLine(in, maxLine-len(data))
		if err != nil {
			var own *Error
			if errors.As(err, &own) {
				return own
			}
			return broke(lost("the stream broke off before its end"))
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && len(data) > 0:
			if err := take(name, data); errors.Is(err, errDone) {
				return nil
			} else if err != nil {
				return err
			}
			name, data = "", data[:0]
		case len(line) == 0:
			name = ""
		case string(field) == "event":
			name = string(value[:min(len(value), 100)])
		case string(field) == "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
	}
}

// readLine reads a line without its end, of at most n bytes.
func readLine(in *bufio.Reader, n int) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > n {
			return nil, lost("an event of the stream has over %d bytes", maxLine)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

func lost(format string, args ...any) *Error {
	return &Error{Code: "lost", Message: "the model's answer: " + fmt.Sprintf(format, args...), Lost: true}
}

// unreachable is a call that nobody answered. Whether the request arrived is not known,
// unless nobody was there.
func unreachable(err error) *Error {
	refused := strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "no such host")
	e := &Error{Code: "server_error", Message: "the provider can't be reached", Lost: !refused, again: refused}
	if !refused {
		e.Message = "the connection to the provider broke before it answered"
	}
	return e
}

// refused is a provider's refusal, in its own words, without anything that could be the key.
func (r Row) refused(res *http.Response, body []byte) *Error {
	var said struct {
		Error struct {
			Message string    `json:"message"`
			Type    string    `json:"type"`
			Code    turns.Raw `json:"code"`
			Param   *string   `json:"param"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &said) // what is not JSON says nothing
	e := &Error{Status: res.StatusCode, Message: said.Error.Message, RetryAfter: retryAfter(res.Header.Get("Retry-After"))}
	e.Code, _ = said.Error.Code.Text()
	if said.Error.Param != nil {
		e.Param = *said.Error.Param
	}
	if e.Code == "" {
		e.Code = said.Error.Type
	}
	switch status := res.StatusCode; {
	case overflow.Read(status, string(body)).Overflow():
		e.Code = "context_length_exceeded"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Code, e.Message = "server_error", fmt.Sprintf("provider %s refused this server's key (status %d)", r.Name, status)
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		e.again = true
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("provider %s answered with status %d", r.Name, res.StatusCode)
	}
	e.Message, e.Code, e.Param = r.clean(e.Message), r.clean(e.Code), r.clean(e.Param)
	return e
}

// clean bounds what a provider says and takes the key out of it.
func (r Row) clean(s string) string {
	if r.Key != "" {
		s = strings.ReplaceAll(s, r.Key, "[key]")
	}
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + "…"
	}
	return s
}

func retryAfter(v string) time.Duration {
	s, err := strconv.ParseFloat(v, 64)
	if err != nil || !(s > 0) {
		return 0
	}
	return time.Duration(min(s, 3600) * float64(time.Second))
}
