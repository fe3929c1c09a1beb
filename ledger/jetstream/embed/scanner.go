package embed

import (
	"bytes"
	"encoding/json" // as the server reads a CONNECT: any case, and the last of two
	"strconv"
)

// scanner finds the messages in what a client sends: a line PUB or HPUB, whose last
// word is the size of what follows. It checks nothing; the server does.
type scanner struct {
	line []byte // the beginning of a line that is not complete
	rest int    // bytes of a message that are still to come
	long bool   // that message is long
	head int    // bytes of its headers that are still to come
	last byte   // of the headers so far
	bad  bool   // a line of headers ends with LF alone

	user  string // public NKey of the CONNECT line; the server checks it before it takes a message
	agent string // tenant and agent of the messages so far; "*" if there were several; "" if there was none
	owner string // shareOf both; "": not made since one changed
}

// share returns whose messages these are. A user's connections that speak for several
// agents are one share, so that a connection gains nothing by changing the agent's name.
// Several connections that name other agents have a share each, until the server refuses
// them. The user is in it, so that nobody spends the share of an agent that is not his.
func (s *scanner) share() string {
	if s.owner == "" {
		s.owner = shareOf(s.user, s.agent)
	}
	return s.owner
}

func shareOf(user, agent string) string { return user + " " + agent }

// maxLine bounds the line that the scanner keeps. The server takes lines of 4 KiB,
// and CONNECT lines, whose end does not matter here.
const maxLine = 4 << 10

// next returns how many bytes at the beginning of b belong together, and whether
// they are of a long message.
func (s *scanner) next(b []byte) (n int, long bool) {
	if s.rest > 0 && s.long {
		n = min(s.rest, len(b))
		s.check(b[:n])
		s.rest -= n
		return n, true
	}
	for n < len(b) {
		if s.rest > 0 {
			if s.long {
				return n, false // the line is passed on before its message
			}
			k := min(s.rest, len(b)-n)
			s.check(b[n : n+k])
			n, s.rest = n+k, s.rest-k
			continue
		}
		end := bytes.IndexByte(b[n:], '\n')
		if end < 0 {
			if len(s.line)+len(b)-n <= maxLine {
				s.line = append(s.line, b[n:]...)
			}
			return len(b), false
		}
		line := b[n : n+end]
		if len(s.line) > 0 {
			line = append(s.line, line...)
		}
		n, s.rest = n+end+1, s.read(line)
		s.long, s.line = s.rest >= longMessage, s.line[:0]
	}
	return n, false
}

// check looks at the next bytes of a message. The server removes a client's own
// [RequestHeader] from headers whose lines end with CRLF only, and readers of headers take
// LF alone, so a client could say which connection it is.
func (s *scanner) check(b []byte) {
	b = b[:min(s.head, len(b))]
	s.head -= len(b)
	for _, c := range b {
		s.bad = s.bad || c == '\n' && s.last != '\r'
		s.last = c
	}
}

// read reads a line of a client. It returns how many bytes follow it: a message and its
// line end; 0 if the line brings none.
func (s *scanner) read(line []byte) int {
	words := bytes.Fields(line)
	if len(words) < 2 {
		return 0
	}
	if bytes.EqualFold(words[0], []byte("CONNECT")) {
		var c struct {
			NKey string `json:"nkey"`
		}
		if json.Unmarshal(line[len("CONNECT"):], &c) == nil {
			s.user, s.owner = c.NKey, ""
		}
		return 0
	}
	if len(words) < 3 || !bytes.EqualFold(words[0], []byte("PUB")) && !bytes.EqualFold(words[0], []byte("HPUB")) {
		return 0
	}
	n, err := strconv.Atoi(string(words[len(words)-1]))
	if err != nil || n < 0 || n > MaxPayload {
		return 0 // the server closes the connection
	}
	if agent := agentOf(words[1]); len(agent) > 0 && s.agent != string(agent) && s.agent != severalAgents {
		if s.agent != "" {
			agent = []byte(severalAgents)
		}
		s.agent, s.owner = string(agent), ""
	}
	if s.head, s.last = 0, 0; bytes.EqualFold(words[0], []byte("HPUB")) {
		s.head, _ = strconv.Atoi(string(words[len(words)-2]))
	}
	return n + len("\r\n")
}

const severalAgents = "*"

// agentOf returns the tenant and agent in the subject of a request, nil if the subject is
// of none.
func agentOf(subject []byte) []byte {
	rest, ok := bytes.CutPrefix(subject, []byte("nexus.v1."))
	tenant := bytes.IndexByte(rest, '.')
	if !ok || tenant < 0 {
		return nil
	}
	agent := bytes.IndexByte(rest[tenant+1:], '.')
	if agent < 0 {
		return nil
	}
	return rest[:tenant+1+agent]
}
