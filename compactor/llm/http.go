package llm

import (
	"errors"
	"io"
	"net/http"
)

// maxBody bounds how much of an answer is read: 16 MiB, far more than the longest
// summary.
const maxBody = 16 << 20

// client follows no redirect. The key and the content are for the configured server
// only, but the standard client passes on every key that is not in Authorization.
func client() *http.Client {
	return &http.Client{
		Transport: bounded{},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("redirects are not followed")
		},
	}
}

// bounded is the standard transport with answers of at most maxBody bytes.
type bounded struct{}

func (bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxBody)
	}
	return res, err
}

// bodyOf returns what a library left of the body of an error answer. It may quote
// the request.
func bodyOf(r *http.Response) string {
	if r.Body == nil {
		return ""
	}
	b, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10)) // a partly read body is enough
	return string(b)
}
