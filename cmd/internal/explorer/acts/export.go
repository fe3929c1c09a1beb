package acts

import (
	"iter"
	"net/http"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
)

// exportTurns is the longest session that is exported as a page: the whole of one is in memory.
const exportTurns = 2000

// export sends a session as a file.
func export(v *visit.Visit) error {
	s, _, err := v.Place()
	if err != nil {
		return err
	}
	format := v.R.URL.Query().Get("format")
	kinds := map[string][2]string{"html": {".html", "text/html; charset=utf-8"}, "markdown": {".md", "text/markdown; charset=utf-8"}, "jsonl": {".jsonl", "application/jsonl"}}
	kind, ok := kinds[format]
	if !ok {
		return api.Errorf(api.Malformed, nil, "the format is html, markdown or jsonl")
	}
	name := "session-" + prose.Short(s.ID) + kind[0]
	begin := func() {
		h := v.W.Header()
		h.Set("Content-Type", kind[1])
		h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	}
	if format == "jsonl" {
		if !v.Who.MayExport() {
			return api.Errorf(api.Denied, nil, "the file has the keys of the content: only the operator exports it")
		}
		began := false
		for rec, err := range v.C.Export(v.R.Context(), s.ID) {
			if err != nil {
				if began { // the file must not look whole
					panic(http.ErrAbortHandler)
				}
				return err
			}
			if !began {
				begin()
				began = true
			}
			if err := json.MarshalWrite(v.W, rec); err != nil {
				return nil // nobody reads any more
			}
			_, _ = v.W.Write([]byte("\n"))
		}
		return nil
	}
	if s.Depth > exportTurns {
		return api.Errorf(api.TooLarge, nil, "the session has %d turns, a page of the browser's takes %d: ledgerctl export %s --format %s has no such limit", s.Depth, exportTurns, prose.Short(s.ID), format)
	}
	p, err := pages.New(s, whole(v, s), pages.Options{})
	if err != nil {
		return err
	}
	begin()
	if format == "html" {
		return p.HTML(v.W)
	}
	return p.Markdown(v.W)
}

func whole(v *visit.Visit, s *api.Session) iter.Seq2[api.Turn, error] {
	return v.C.Turns(v.R.Context(), s.ID, api.ListTurns{Full: true, Page: api.Page{Limit: 200}})
}
