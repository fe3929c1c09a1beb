package llm

import (
	"errors"
	"io"
	"net/http"
)

// maxBody bounds what is read of one answer: 16 MiB, far over the longest summary.
const maxBody = 16 << 20

// client follows no redirect: the key and the content are for the server that
// the configuration names, and the standard client would pass a key that is not
// in Authorization on to any other.
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

// bodyOf is what a library left of the body of an answer that is a fault. It
// may quote what was sent.
func bodyOf(r *http.Response) string {
	if r.Body == nil {
		return ""
	}
	b, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10)) // what came is read
	return string(b)
}
