package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// allowed says, for each package of the module, which others of it production
// code may import. A package that is not listed may import none.
var allowed = map[string][]string{
	"turns/internal/cbor":                     {},
	"turns":                                   {"turns/internal/cbor"},
	"turns/pieces":                            {"turns"},
	"turns/seal/internal/crypt":               {"turns"},
	"turns/seal":                              {"turns", "turns/seal/internal/crypt"},
	"turns/seal/keyring":                      {"turns", "turns/seal", "turns/seal/internal/crypt"},
	"turns/seal/sealtest":                     {"turns", "turns/seal/keyring"},
	"turns/secrets":                           {},
	"turns/tokens":                            {"turns"},
	"turns/internal/values":                   {"turns"},
	"turns/internal/plain":                    {"turns"},
	"turns/render":                            {"turns", "turns/shared", "turns/tokens", "turns/internal/plain", "turns/internal/values"},
	"turns/shared":                            {},
	"turns/transcript":                        {"turns", "turns/internal/plain", "turns/internal/values"},
	"turns/transcript/otlp":                   {"turns", "turns/internal/values"},
	"turns/transcript/chat":                   {"turns", "turns/render", "turns/internal/values", "turns/transcript", "turns/transcript/otlp"},
	"turns/transcript/claude/record":          {"turns", "turns/internal/values"},
	"turns/transcript/claude/content":         {"turns", "turns/internal/values"},
	"turns/transcript/claude/write":           {"turns", "turns/internal/plain", "turns/internal/values", "turns/render", "turns/transcript"},
	"turns/transcript/claude":                 {"turns", "turns/internal/values", "turns/transcript", "turns/transcript/claude/content", "turns/transcript/claude/record", "turns/transcript/claude/write"},
	"turns/transcript/codex":                  {"turns", "turns/internal/plain", "turns/internal/values", "turns/transcript"},
	"turns/transcript/pi":                     {"turns", "turns/internal/plain", "turns/internal/values", "turns/transcript"},
	"turns/transcript/gemini":                 {"turns", "turns/internal/plain", "turns/internal/values", "turns/transcript"},
	"turns/transcript/formats":                {"turns/transcript", "turns/transcript/chat", "turns/transcript/claude", "turns/transcript/codex", "turns/transcript/gemini", "turns/transcript/pi"},
	"turns/transcript/transcripttest":         {"turns", "turns/internal/values", "turns/transcript"},
	"turns/render/strict":                     {"turns"},
	"lineage":                                 {"turns"},
	"ledger":                                  {"turns", "lineage"},
	"ledger/tlog":                             {"turns"},
	"ledger/memlog":                           {"turns", "ledger"},
	"ledger/ledgertest":                       {"turns", "ledger"},
	"ledger/jetstream/mark":                   {"turns"},
	"ledger/jetstream/groupsync":              {"ledger", "ledger/jetstream/blocks", "ledger/jetstream/mark"},
	"ledger/jetstream":                        {"turns", "ledger", "ledger/jetstream/blocks", "ledger/jetstream/groupsync", "ledger/jetstream/mark"},
	"ledger/jetstream/embed":                  {},
	"ledger/jetstream/blocks":                 {"ledger"},
	"ledger/jetstream/disk":                   {"turns", "ledger", "ledger/tlog", "ledger/jetstream", "ledger/jetstream/blocks", "ledger/jetstream/embed", "ledger/jetstream/mark"},
	"ledger/jetstream/collect":                {"turns", "ledger", "ledger/jetstream", "ledger/jetstream/blocks", "ledger/jetstream/disk", "ledger/jetstream/embed", "ledger/jetstream/mark"},
	"ledger/jetstream/backup":                 {"ledger/jetstream/disk", "turns", "ledger", "ledger/api", "ledger/jetstream", "ledger/jetstream/blocks", "ledger/jetstream/mark"},
	"ledger/api":                              {"turns", "ledger"},
	"ledger/api/client":                       {"turns", "ledger", "ledger/api", "ledger/tlog"},
	"ledger/api/mcp":                          {"ledger/api/client", "turns", "turns/secrets", "ledger/api"},
	"fork":                                    {"turns", "lineage"},
	"compactor/compactortest":                 {"turns", "turns/tokens", "lineage", "ledger", "compactor/summary", "compactor/policy", "compactor/view"},
	"compactor/overflow":                      {},
	"compactor/summary":                       {"turns", "turns/tokens"},
	"compactor/facts":                         {"turns", "compactor/summary"},
	"compactor/policy":                        {"turns", "turns/tokens", "compactor/summary"},
	"compactor/evidence":                      {"turns", "compactor/facts", "compactor/summary"},
	"compactor/quote":                         {"turns", "turns/tokens", "compactor/summary"},
	"compactor/view":                          {"turns", "turns/tokens", "lineage", "compactor/summary", "compactor/policy", "compactor/quote"},
	"compactor/plan":                          {"turns", "turns/tokens", "lineage", "compactor/summary", "compactor/policy", "compactor/quote", "compactor/view"},
	"compactor":                               {"turns", "turns/tokens", "lineage", "compactor/facts", "compactor/summary", "compactor/policy", "compactor/view", "compactor/plan"},
	"compactor/extractive":                    {"turns", "turns/tokens", "compactor/facts", "compactor/summary"},
	"compactor/llm":                           {"turns", "turns/tokens", "compactor/facts", "compactor/summary", "compactor/overflow"},
	"compactor/compare":                       {"turns", "turns/tokens", "compactor", "compactor/facts", "compactor/summary", "compactor/policy", "compactor/view", "compactor/plan"},
	"projections/rows":                        {"turns", "ledger", "lineage"},
	"projections/db":                          {"projections/rows", "ledger"},
	"projections/apply":                       {"projections/rows", "projections/db", "turns", "ledger", "ledger/tlog", "lineage"},
	"projections/compare":                     {"projections/rows", "projections/db", "projections/apply", "turns", "ledger", "ledger/tlog", "lineage"},
	"projections":                             {"projections/rows", "projections/db", "projections/apply", "projections/compare", "turns", "ledger", "ledger/tlog", "lineage"},
	"projections/search/words":                {},
	"projections/search/ranking":              {},
	"projections/search":                      {"projections/search/words", "projections/search/ranking", "turns", "ledger"},
	"cmd/internal/build":                      {},
	"cmd/internal/localserver":                {"cmd/internal/wholefile", "ledger/jetstream/embed"},
	"cmd/ledgerctl/internal/serve":            {"cmd/internal/daemon", "cmd/internal/daemon/config", "cmd/internal/localserver", "ledger/api", "ledger/api/client", "ledger/jetstream/embed"},
	"cmd/nexusd":                              {"cmd/internal/daemon/config", "cmd/internal/localserver", "ledger/jetstream/embed", "ledger/api/client", "cmd/internal/build", "cmd/internal/provider", "turns", "ledger/api", "ledger/jetstream/disk", "cmd/internal/daemon", "cmd/internal/daemon/folder", "cmd/internal/daemon/mend", "cmd/internal/agents", "cmd/internal/watch", "cmd/nexusd/internal/summaries"},
	"cmd/nexusd/internal/summaries":           {"turns", "turns/tokens", "compactor", "compactor/llm", "compactor/overflow", "cmd/internal/provider"},
	"cmd/internal/web":                        {"turns"},
	"cmd/internal/provider":                   {"turns", "turns/render", "compactor/overflow"},
	"cmd/internal/responses":                  {"ledger/api/client", "turns", "turns/seal", "turns/tokens", "ledger/api", "cmd/internal/provider", "cmd/internal/responses/wire", "cmd/internal/responses/stream", "cmd/internal/responses/place", "cmd/internal/responses/run", "cmd/internal/responses/socket", "cmd/internal/responses/window", "cmd/internal/web"},
	"cmd/nexusd/internal/faulttest":           {"turns"},
	"cmd/internal/natsapi":                    {"ledger/api/client", "turns", "ledger/api", "cmd/internal/engine", "cmd/internal/engine/reader", "cmd/internal/engine/request"},
	room("page"):                              []string{"ledger", "ledger/api", "turns"},
	room("cache"):                             {},
	room("content"):                           slices.Concat([]string{"ledger", "ledger/api", "lineage", "turns", "turns/pieces", "turns/seal", "turns/tokens"}, rooms("page", "cache")),
	room("metrics"):                           slices.Concat([]string{"projections", "turns"}, rooms("cache")),
	room("reader"):                            slices.Concat([]string{"compactor/policy", "compactor/view", "ledger", "ledger/api", "lineage", "projections", "projections/rows", "turns", "turns/seal", "turns/tokens"}, rooms("page", "cache", "content")),
	room("request"):                           {"ledger/api"},
	room("paths"):                             slices.Concat([]string{"compactor", "compactor/plan", "compactor/policy", "compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "turns", "turns/shared", "turns/tokens"}, rooms("request", "page", "cache", "content", "reader")),
	room("writer"):                            slices.Concat([]string{"ledger", "ledger/api", "lineage", "turns", "turns/seal"}, rooms("request", "page", "content", "metrics", "reader", "paths")),
	room("events"):                            slices.Concat([]string{"ledger", "ledger/api", "turns"}, rooms("page", "content", "reader", "writer")),
	room("resets"):                            slices.Concat([]string{"ledger"}, rooms("reader", "sessions")),
	room("extraction"):                        slices.Concat([]string{"compactor", "compactor/policy", "compactor/summary", "ledger", "ledger/api", "turns"}, rooms("paths", "reader", "writer", "events", "memories", "sessions")),
	room("episodes"):                          slices.Concat([]string{"compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "turns", "turns/tokens"}, rooms("paths", "reader", "memories")),
	room("policies"):                          slices.Concat([]string{"compactor/policy", "ledger", "ledger/api", "turns"}, rooms("page", "content", "reader", "writer")),
	room("memories"):                          slices.Concat([]string{"compactor/policy", "compactor/summary", "ledger", "ledger/api", "lineage", "projections", "projections/rows", "turns", "turns/seal"}, rooms("page", "cache", "content", "reader", "writer", "erasure/mark")),
	room("compactions"):                       slices.Concat([]string{"compactor", "compactor/plan", "compactor/policy", "compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "turns", "turns/tokens"}, rooms("request", "page", "cache", "content", "reader", "paths", "writer", "policies", "memories")),
	room("sessions"):                          slices.Concat([]string{"compactor/plan", "compactor/policy", "compactor/view", "ledger", "ledger/api", "lineage", "turns", "turns/seal", "turns/tokens"}, rooms("request", "page", "content", "reader", "paths", "writer", "policies", "compactions")),
	room("forks"):                             slices.Concat([]string{"compactor/plan", "compactor/policy", "fork", "ledger", "ledger/api", "lineage", "turns", "turns/tokens"}, rooms("content", "reader", "writer", "compactions", "sessions")),
	room("covered"):                           slices.Concat([]string{"compactor/evidence", "compactor/policy", "compactor/facts", "compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "projections/rows", "turns"}, rooms("page", "content", "reader", "paths", "search")),
	room("contexts"):                          slices.Concat([]string{"compactor", "compactor/overflow", "compactor/plan", "compactor/policy", "compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "turns", "turns/render", "turns/shared", "turns/tokens"}, rooms("page", "cache", "content", "reader", "paths", "writer", "memories", "compactions", "covered")),
	room("history"):                           slices.Concat([]string{"compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "projections", "projections/rows", "turns", "turns/secrets"}, rooms("page", "cache", "content", "reader")),
	room("transfer"):                          slices.Concat([]string{"compactor/policy", "compactor/view", "ledger", "ledger/api", "turns", "turns/seal"}, rooms("request", "page", "cache", "content", "reader", "paths", "writer", "policies", "sessions")),
	room("erasure"):                           slices.Concat([]string{"ledger", "ledger/api", "ledger/tlog", "projections", "turns"}, rooms("request", "page", "content", "reader", "writer", "erasure/mark")),
	room("erasure/mark"):                      {"turns"},
	room("proofs"):                            slices.Concat([]string{"ledger/api", "ledger/tlog", "turns", "turns/seal"}, rooms("page", "content", "reader")),
	room("audit"):                             slices.Concat([]string{"ledger", "ledger/api", "ledger/tlog", "lineage", "projections/compare", "projections/db", "turns", "turns/seal"}, rooms("page", "cache", "content", "reader", "paths")),
	room("backup"):                            slices.Concat([]string{"ledger/api", "turns", "turns/seal"}, rooms("page", "content", "reader")),
	room("archive"):                           slices.Concat([]string{"compactor/policy", "ledger", "ledger/api", "lineage", "projections/rows", "turns"}, rooms("content", "reader", "transfer", "memories")),
	"cmd/internal/files":                      slices.Concat([]string{"ledger", "ledger/api", "lineage", "turns", "turns/tokens"}, rooms("archive", "memories", "reader")),
	"cmd/internal/engine":                     slices.Concat([]string{"compactor", "ledger", "ledger/api", "projections", "projections/search", "turns/tokens"}, rooms("page", "cache", "content", "metrics", "reader", "paths", "writer", "policies", "compactions", "sessions", "forks", "covered", "contexts", "history", "transfer", "audit", "backup", "erasure", "proofs", "archive", "events", "memories", "resets", "extraction", "episodes", "search")),
	room("enginetest"):                        slices.Concat([]string{"compactor", "compactor/summary", "ledger/api", "ledger/memlog", "projections", "projections/search", "turns", "turns/seal/keyring", "turns/tokens"}, rooms("", "reader")),
	room("search"):                            slices.Concat([]string{"compactor/facts", "ledger", "ledger/api", "lineage", "projections/rows", "projections/db", "projections/search", "turns", "turns/seal", "turns/secrets"}, rooms("page", "cache", "content", "reader", "memories")),
	"cmd/internal/daemon/config":              {"ledger/jetstream/mark", "ledger/jetstream/embed", "cmd/internal/wholefile", "cmd/internal/natsapi", "cmd/internal/web", "turns/tokens", "ledger/jetstream", "ledger/api/client", "compactor", "cmd/internal/provider", "cmd/internal/engine/cache", "turns"},
	"cmd/internal/daemon/folder":              slices.Concat([]string{"cmd/internal/checkpoint", "cmd/internal/wholefile", "ledger", "ledger/jetstream", "ledger/jetstream/embed", "ledger/jetstream/groupsync", "ledger/jetstream/mark", "turns"}, rooms("erasure")),
	"cmd/internal/daemon/mend":                slices.Concat([]string{"cmd/internal/checkpoint", "cmd/internal/daemon/config", "cmd/internal/daemon/folder", "cmd/internal/wholefile", "ledger", "ledger/jetstream", "ledger/jetstream/backup", "ledger/jetstream/blocks", "ledger/jetstream/disk", "ledger/jetstream/embed", "ledger/jetstream/mark", "ledger/tlog", "projections", "turns", "turns/seal", "turns/seal/keyring"}, rooms("erasure")),
	"cmd/internal/daemon/outage":              slices.Concat([]string{"cmd/internal/daemon/folder", "ledger", "ledger/api", "ledger/jetstream", "projections", "turns", "turns/seal"}, rooms("content", "reader")),
	"cmd/internal/daemon/storage":             slices.Concat([]string{"cmd/internal/daemon/config", "cmd/internal/daemon/folder", "cmd/internal/daemon/outage", "ledger", "ledger/api", "ledger/jetstream", "ledger/jetstream/backup", "ledger/jetstream/blocks", "ledger/jetstream/collect", "ledger/jetstream/disk", "ledger/jetstream/embed", "ledger/jetstream/groupsync", "ledger/jetstream/mark", "projections", "projections/db", "turns", "turns/seal", "turns/seal/keyring"}, rooms("content")),
	"cmd/internal/daemon":                     nil, // the wiring: everything
	"docs/examples/go/verify":                 {},
	"docs/examples/go":                        {}, // what any client may use
	"cmd/internal/cost":                       {"ledger/api/client", "turns", "turns/tokens", "ledger/api"},
	"docs/examples/go/core":                   {},
	"cmd/ledgerctl/internal/contextview":      {"cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "cmd/ledgerctl/internal/turnview", "compactor/policy", "ledger/api", "turns", "cmd/ledgerctl/internal/cli"},
	"cmd/internal/kinds":                      {"turns", "ledger/api"},
	"cmd/internal/highlight":                  {},
	"cmd/internal/explorer":                   {"cmd/internal/explorer/acts", "cmd/internal/explorer/compare", "cmd/internal/explorer/costs", "cmd/internal/explorer/live", "cmd/internal/explorer/login", "cmd/internal/explorer/views", "cmd/internal/explorer/visit", "cmd/internal/highlight", "cmd/internal/web", "cmd/internal/page", "ledger/api", "ledger/api/client", "turns", "turns/tokens"},
	"cmd/internal/explorer/login":             {},
	"cmd/internal/explorer/visit":             {"cmd/internal/explorer/login", "cmd/internal/highlight", "cmd/internal/kinds", "cmd/internal/page", "cmd/internal/prose", "ledger/api", "ledger/api/client", "turns", "turns/tokens"},
	"cmd/internal/explorer/live":              {"cmd/internal/explorer/login", "cmd/internal/explorer/visit", "ledger/api", "turns"},
	"cmd/internal/explorer/costs":             {"cmd/internal/cost", "cmd/internal/explorer/visit", "cmd/internal/page", "ledger/api", "turns", "turns/tokens"},
	"cmd/internal/explorer/views":             {"cmd/internal/cost", "cmd/internal/explorer/costs", "cmd/internal/explorer/visit", "cmd/internal/highlight", "cmd/internal/kinds", "cmd/internal/page", "cmd/internal/prose", "ledger/api", "turns"},
	"cmd/internal/explorer/compare":           {"cmd/internal/explorer/costs", "cmd/internal/explorer/views", "cmd/internal/explorer/visit", "cmd/internal/page", "cmd/internal/prose", "ledger/api", "turns"},
	"cmd/internal/explorer/acts":              {"cmd/internal/explorer/views", "cmd/internal/explorer/visit", "cmd/internal/page", "cmd/internal/prose", "ledger/api", "ledger/api/client", "turns"},
	"cmd/internal/explorer/explorertest":      {"cmd/internal/daemon", "cmd/internal/daemon/config", "ledger/api", "ledger/api/client", "turns"},
	"cmd/internal/agents":                     {"turns/transcript", "turns/transcript/gemini"},
	"cmd/internal/handover":                   {"cmd/internal/engine/erasure/mark", "turns", "turns/render", "turns/transcript", "turns/transcript/formats", "cmd/internal/agents"},
	"cmd/ledgerctl/internal/picker":           {},
	"cmd/ledgerctl/internal/bisect":           {"cmd/internal/prose", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/codetree", "cmd/ledgerctl/internal/codeview", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "cmd/ledgerctl/internal/turnview", "turns"},
	"cmd/ledgerctl/internal/codetree":         {"ledger/api/client", "turns", "turns/secrets", "ledger/api"},
	"cmd/internal/page":                       {"turns", "turns/secrets", "ledger/api", "compactor/summary", "cmd/internal/prose"},
	"cmd/internal/repository":                 {"turns"},
	"cmd/internal/transcripts/alike":          {"ledger/api", "turns", "turns/transcript"},
	"cmd/internal/transcripts/transcriptfile": {"turns", "turns/transcript", "turns/transcript/formats", "turns/transcript/claude", "turns/transcript/gemini", "ledger/jetstream/backup"},
	"cmd/internal/transcripts/tally":          {"ledger/api", "turns", "turns/transcript"},
	"cmd/internal/transcripts/sessionmeta":    {"ledger/api", "turns", "turns/transcript/formats"},
	"cmd/internal/transcripts/rawexport":      {"cmd/internal/transcripts/tally", "ledger/api", "ledger/api/client", "turns"},
	"cmd/internal/transcripts/written":        {"cmd/internal/handover", "ledger/api", "ledger/api/client", "turns", "turns/transcript"},
	"cmd/internal/transcripts/steps":          {"cmd/internal/handover", "cmd/internal/repository", "cmd/internal/transcripts/alike", "cmd/internal/transcripts/sessionmeta", "cmd/internal/transcripts/tally", "cmd/internal/transcripts/written", "ledger/api", "ledger/api/client", "turns", "turns/transcript", "turns/transcript/formats"},
	"cmd/internal/transcripts/changes":        {"cmd/internal/transcripts/alike", "cmd/internal/transcripts/sessionmeta", "cmd/internal/transcripts/steps", "cmd/internal/transcripts/tally", "cmd/internal/transcripts/written", "ledger/api", "ledger/api/client", "turns", "turns/transcript"},
	"cmd/internal/transcripts":                {"cmd/internal/repository", "cmd/internal/transcripts/changes", "cmd/internal/transcripts/rawexport", "cmd/internal/transcripts/steps", "cmd/internal/transcripts/tally", "cmd/internal/transcripts/transcriptfile", "ledger/api", "ledger/api", "ledger/api/client", "turns", "turns/transcript", "turns/transcript/formats"},
	"cmd/internal/watch":                      {"cmd/internal/transcripts", "cmd/internal/transcripts/steps", "cmd/internal/transcripts/tally", "cmd/internal/transcripts/transcriptfile", "cmd/internal/repository", "ledger/api/client", "cmd/internal/agents", "turns", "turns/transcript", "ledger/api", "cmd/internal/wholefile"},
	"cmd/ledgerctl/internal/hooks":            {"cmd/internal/wholefile", "cmd/internal/agents", "cmd/internal/prose", "cmd/internal/repository", "cmd/internal/watch", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/codetree", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/doctor", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/follow", "cmd/ledgerctl/internal/pi", "cmd/ledgerctl/internal/terminal", "ledger/api/client", "ledger/api/mcp", "turns"},
	"cmd/ledgerctl/internal/pi":               {"ledger/api/client", "turns", "turns/transcript", "turns/transcript/pi", "ledger/api", "cmd/internal/wholefile"},
	"cmd/internal/service":                    {"cmd/internal/wholefile"},
	"cmd/internal/wholefile":                  {},
	"cmd/internal/checkpoint":                 {"cmd/internal/wholefile", "ledger", "ledger/tlog"},
	"cmd/ledgerctl/internal/cli":              {"cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "cmd/ledgerctl/internal/terminal", "ledger/api", "ledger/api/client", "turns"},
	"cmd/ledgerctl/internal/follow":           {"cmd/internal/agents", "cmd/internal/prose", "cmd/internal/watch", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/codetree", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/doctor", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/terminal", "ledger/api/client", "turns"},
	"cmd/ledgerctl/internal/services":         {"cmd/internal/agents", "cmd/internal/localserver", "cmd/internal/prose", "cmd/internal/service", "cmd/internal/watch", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/follow"},
	"cmd/ledgerctl/internal/sessions":         {"cmd/internal/prose", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "cmd/ledgerctl/internal/searchview", "cmd/ledgerctl/internal/sessionview", "cmd/ledgerctl/internal/terminal", "ledger/api", "ledger/api/client", "turns", "cmd/ledgerctl/internal/codeview", "cmd/ledgerctl/internal/export", "cmd/ledgerctl/internal/plot", "cmd/ledgerctl/internal/turnview"},
	"cmd/ledgerctl/internal/erasure":          {"cmd/internal/agents", "cmd/internal/engine/erasure/mark", "cmd/internal/prose", "cmd/internal/transcripts/sessionmeta", "cmd/ledgerctl/internal/audit", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/fault", "ledger/api", "ledger/api/client", "turns", "cmd/internal/transcripts", "cmd/internal/watch", "cmd/internal/wholefile", "cmd/ledgerctl/internal/codetree", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/follow", "cmd/ledgerctl/internal/services"},
	"cmd/ledgerctl/internal/codeview":         {"cmd/internal/prose", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/codetree", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "ledger/api", "turns"},
	"cmd/ledgerctl/internal/imports":          {"cmd/internal/agents", "cmd/internal/transcripts", "cmd/internal/transcripts/sessionmeta", "cmd/internal/transcripts/transcriptfile", "cmd/internal/prose", "cmd/internal/repository", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/follow", "cmd/ledgerctl/internal/importreport", "cmd/ledgerctl/internal/services", "cmd/ledgerctl/internal/sessions", "cmd/ledgerctl/internal/terminal", "ledger/api", "ledger/api/client", "turns", "cmd/internal/watch"},
	"cmd/ledgerctl/internal/completion":       {"cmd/internal/cost", "cmd/internal/prose", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/export", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/help", "cmd/ledgerctl/internal/names", "cmd/ledgerctl/internal/turnview", "compactor/policy", "ledger/api", "ledger/api/client", "turns"},
	"cmd/ledgerctl/internal/continuation":     {"cmd/internal/agents", "cmd/internal/prose", "cmd/internal/transcripts/written", "cmd/internal/watch", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/follow", "cmd/ledgerctl/internal/names", "ledger/api", "ledger/api/client", "turns", "turns/transcript"},
	"cmd/ledgerctl/internal/backups":          {"cmd/internal/daemon/mend", "cmd/internal/prose", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/terminal", "ledger/api", "ledger/jetstream/backup", "turns"},
	"cmd/ledgerctl/internal/history":          {"cmd/internal/prose", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/contextview", "cmd/ledgerctl/internal/eventview", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "cmd/ledgerctl/internal/searchview", "cmd/ledgerctl/internal/turnview", "ledger/api", "ledger/api/client", "turns"},
	"cmd/ledgerctl/internal/policies":         {"cmd/internal/prose", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "cmd/ledgerctl/internal/terminal", "ledger/api", "turns"},
	"cmd/ledgerctl/internal/fault":            {"cmd/internal/transcripts/transcriptfile", "ledger/api/client", "compactor/policy", "ledger/api", "turns"},
	"cmd/internal/prose":                      {"compactor/summary", "ledger/api", "turns"},
	"cmd/ledgerctl/internal/terminal":         {"cmd/ledgerctl/internal/fault", "cmd/internal/prose", "turns"},
	"cmd/ledgerctl/internal/connect":          {"cmd/internal/localserver", "ledger/api/client", "cmd/ledgerctl/internal/fault", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "ledger/api"},
	"cmd/ledgerctl/internal/names":            {"cmd/internal/agents", "cmd/internal/repository", "ledger/api/client", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/fault", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "ledger/api", "turns"},
	"cmd/ledgerctl/internal/plot":             {"cmd/internal/kinds", "ledger/api/client", "cmd/ledgerctl/internal/contextview", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "ledger/api", "turns"},
	"cmd/ledgerctl/internal/importreport":     {"cmd/ledgerctl/internal/fault", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "cmd/internal/transcripts/tally", "turns", "turns/transcript"},
	"cmd/ledgerctl/internal/local":            {"cmd/internal/daemon/config", "ledger/api/client", "cmd/internal/build", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/terminal", "cmd/internal/daemon", "ledger/api", "turns"},
	"cmd/ledgerctl/internal/comparison":       {"cmd/internal/transcripts/rawexport", "cmd/internal/transcripts/tally", "cmd/internal/transcripts/transcriptfile", "cmd/internal/transcripts/written", "ledger/api/client", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/importreport", "cmd/ledgerctl/internal/local", "cmd/ledgerctl/internal/names", "cmd/ledgerctl/internal/plot", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "compactor", "compactor/compare", "compactor/extractive", "compactor/policy", "ledger/api", "turns", "turns/transcript", "turns/tokens"},
	"cmd/ledgerctl/internal/export":           {"ledger/api/client", "cmd/ledgerctl/internal/fault", "cmd/internal/page", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "cmd/internal/transcripts/written", "cmd/internal/wholefile", "ledger/api", "turns", "turns/transcript/formats", "turns/secrets", "cmd/ledgerctl/internal/cli"},
	"cmd/ledgerctl/internal/archive":          {"cmd/internal/transcripts/rawexport", "cmd/internal/transcripts/transcriptfile", "cmd/ledgerctl/internal/fault", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "ledger/api", "turns", "cmd/ledgerctl/internal/cli"},
	"cmd/ledgerctl/internal/audit":            {"ledger/api/client", "cmd/ledgerctl/internal/export", "cmd/ledgerctl/internal/fault", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "ledger/api", "ledger/jetstream/backup", "turns", "turns/secrets", "cmd/internal/wholefile", "cmd/ledgerctl/internal/cli", "ledger/tlog"},
	"cmd/ledgerctl/internal/doctor":           {"ledger/api/client", "cmd/internal/build", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/fault", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "ledger/api"},
	"cmd/ledgerctl/internal/bench":            {"cmd/internal/daemon/config", "ledger/api/client", "cmd/internal/build", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/fault", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "cmd/internal/daemon", "ledger/api", "ledger/jetstream/embed", "turns"},
	"cmd/ledgerctl/internal/turnview":         {"ledger/api/client", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "ledger/api", "turns", "turns/secrets"},
	"cmd/ledgerctl/internal/expansion":        {"cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "cmd/ledgerctl/internal/turnview", "ledger/api", "turns", "cmd/ledgerctl/internal/cli"},
	"cmd/ledgerctl/internal/eventview":        {"ledger/api/client", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "ledger/api", "turns", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/export"},
	"cmd/ledgerctl/internal/sessionview":      {"ledger/api/client", "cmd/ledgerctl/internal/contextview", "cmd/ledgerctl/internal/fault", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "compactor/policy", "ledger/api", "turns", "turns/secrets"},
	"cmd/ledgerctl/internal/searchview":       {"cmd/ledgerctl/internal/names", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "ledger/api", "turns", "cmd/ledgerctl/internal/cli"},
	"cmd/ledgerctl/internal/help":             {},
	"cmd/ledgerctl/internal/quickstart":       {"ledger/api/client", "cmd/ledgerctl/internal/audit", "cmd/ledgerctl/internal/contextview", "cmd/ledgerctl/internal/importreport", "cmd/ledgerctl/internal/local", "cmd/ledgerctl/internal/names", "cmd/internal/prose", "cmd/ledgerctl/internal/sessionview", "cmd/ledgerctl/internal/terminal", "cmd/internal/transcripts", "cmd/internal/transcripts/rawexport", "cmd/internal/transcripts/tally", "ledger/api", "turns"},
	"cmd/ledgerctl/internal/textdiff":         {"cmd/ledgerctl/internal/export", "cmd/ledgerctl/internal/names", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "cmd/ledgerctl/internal/turnview", "ledger/api", "turns", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/contextview", "cmd/ledgerctl/internal/fault"},
	"cmd/ledgerctl/internal/costview":         {"cmd/internal/cost", "cmd/internal/prose", "cmd/ledgerctl/internal/sessionview", "cmd/ledgerctl/internal/terminal", "ledger/api", "turns", "turns/tokens", "cmd/internal/daemon/config", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/names", "cmd/ledgerctl/internal/searchview"},
	"cmd/ledgerctl/internal/memoryview":       {"cmd/ledgerctl/internal/fault", "cmd/internal/prose", "cmd/ledgerctl/internal/terminal", "ledger/api", "turns", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/names", "ledger/api/client"},
	"cmd/ledgerctl":                           {"cmd/internal/transcripts", "cmd/internal/transcripts/transcriptfile", "cmd/internal/transcripts/written", "cmd/internal/localserver", "cmd/ledgerctl/internal/serve", "cmd/internal/daemon/config", "ledger/api/client", "cmd/internal/build", "compactor/policy", "ledger/api/mcp", "ledger/api", "turns", "cmd/internal/agents", "cmd/ledgerctl/internal/archive", "cmd/ledgerctl/internal/audit", "cmd/ledgerctl/internal/bench", "cmd/ledgerctl/internal/bisect", "cmd/ledgerctl/internal/comparison", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/contextview", "cmd/ledgerctl/internal/costview", "cmd/ledgerctl/internal/doctor", "cmd/ledgerctl/internal/eventview", "cmd/ledgerctl/internal/expansion", "cmd/ledgerctl/internal/export", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/help", "cmd/ledgerctl/internal/hooks", "cmd/ledgerctl/internal/memoryview", "cmd/ledgerctl/internal/names", "cmd/ledgerctl/internal/picker", "cmd/ledgerctl/internal/plot", "cmd/internal/prose", "cmd/ledgerctl/internal/quickstart", "cmd/ledgerctl/internal/searchview", "cmd/ledgerctl/internal/sessionview", "cmd/ledgerctl/internal/terminal", "cmd/ledgerctl/internal/textdiff", "cmd/internal/watch", "cmd/internal/daemon/mend", "cmd/ledgerctl/internal/cli", "cmd/ledgerctl/internal/follow", "cmd/ledgerctl/internal/services", "cmd/ledgerctl/internal/sessions", "cmd/ledgerctl/internal/erasure", "cmd/ledgerctl/internal/codeview", "cmd/ledgerctl/internal/imports", "cmd/ledgerctl/internal/completion", "cmd/ledgerctl/internal/continuation", "cmd/ledgerctl/internal/backups", "cmd/ledgerctl/internal/history", "cmd/ledgerctl/internal/policies"},

	"cmd/internal/provider/providertest": {"turns/render/strict"},
	"cmd/internal/responses/wire":        {"turns", "ledger/api", "cmd/internal/provider"},
	"cmd/internal/responses/stream":      {"turns", "turns/seal", "ledger/api", "cmd/internal/provider", "cmd/internal/responses/wire"},
	"cmd/internal/responses/place":       {"ledger/api/client", "turns", "turns/tokens", "ledger/api", "cmd/internal/responses/wire", "cmd/internal/responses/window", "cmd/internal/web"},
	"cmd/internal/responses/run":         {"ledger/api/client", "turns", "ledger/api", "cmd/internal/provider", "cmd/internal/responses/wire", "cmd/internal/responses/stream", "cmd/internal/responses/place"},
	"cmd/internal/responses/socket":      {},
	"cmd/internal/responses/window":      {"ledger/api/client", "turns", "turns/seal", "ledger/api"},
}

// room returns the import path of a room of the engine; "" means that of package engine.
func room(name string) string { return strings.TrimSuffix("cmd/internal/engine/"+name, "/") }

// rooms lists the rooms that one may call: each is lower than it.
func rooms(names ...string) (out []string) {
	for _, name := range names {
		out = append(out, room(name))
	}
	return out
}

// only says which packages may import something from outside.
var only = map[string][]string{
	"github.com/cockroachdb/pebble":       {"projections/db", "cmd/internal/engine/enginetest", "cmd/ledgerctl/internal/bench"},
	"github.com/blevesearch":              {"projections/search", "projections/search/ranking"},
	"github.com/fsnotify/fsnotify":        {"cmd/internal/watch"},
	"github.com/nats-io/nats-server":      {"ledger/jetstream/embed"},
	"github.com/nats-io/nats.go":          {"cmd/ledgerctl/internal/bench", "cmd/ledgerctl/internal/connect", "cmd/ledgerctl/internal/fault", "cmd/ledgerctl/internal/history", "cmd/ledgerctl/internal/completion", "cmd/ledgerctl/internal/eventview", "cmd/ledgerctl/internal/services", "cmd/ledgerctl/internal/hooks", "cmd/ledgerctl/internal/follow", "ledger/jetstream", "ledger/jetstream/embed", "ledger/api/client", "cmd/internal/daemon", "cmd/internal/explorer/live", "cmd/internal/natsapi", "cmd/ledgerctl", "docs/examples/go", "docs/examples/go/core", "cmd/internal/daemon/mend", "cmd/internal/daemon/storage"},
	"github.com/prometheus/client_golang": {"cmd/internal/daemon", "cmd/internal/engine", "cmd/internal/engine/metrics", "cmd/internal/files", "cmd/internal/daemon/outage", "cmd/internal/daemon/storage"},
	"github.com/modelcontextprotocol":     {"ledger/api/mcp"},
	"github.com/google/jsonschema-go":     {"ledger/api/mcp"},
	"github.com/yuin/goldmark":            {"cmd/internal/page"},
	"github.com/coder/websocket":          {"cmd/internal/responses/socket"},
	"charm.land/bubbletea":                {"cmd/ledgerctl/internal/picker"},
	"encoding/json":                       {"docs/examples/go", "docs/examples/go/core", "docs/examples/go/verify", "ledger/jetstream/embed"}, // repairs what it should refuse: duplicate keys, bad UTF-8; embed reads a CONNECT as the server does
	"golang.org/x/mod":                    {"ledger/tlog"},
	"math/rand":                           {},
	"net/http":                            {"cmd/internal/responses/wire", "cmd/internal/responses/stream", "cmd/internal/responses/place", "cmd/internal/responses/run", "cmd/internal/responses/socket", "cmd/internal/responses", "cmd/internal/daemon", "cmd/internal/explorer", "cmd/internal/explorer/visit", "cmd/internal/explorer/live", "cmd/internal/explorer/views", "cmd/internal/explorer/acts", "cmd/internal/explorer/explorertest", "cmd/internal/web", "cmd/internal/provider", "cmd/internal/provider/providertest", "cmd/ledgerctl/internal/doctor", "docs/examples/go", "ledger/api/mcp"},
}

// pure packages touch no network, disk or clock.
var pure = []string{"cmd/internal/transcripts/alike", "turns", "turns/internal/cbor", "turns/pieces", "turns/tokens", "turns/internal/values", "turns/internal/plain", "turns/render", "turns/shared", "turns/transcript", "turns/transcript/otlp", "turns/transcript/chat", "turns/transcript/claude", "turns/transcript/codex", "turns/transcript/pi", "turns/transcript/gemini", "turns/transcript/formats", "turns/render/strict", "lineage", "ledger", "ledger/tlog", "fork", "projections/rows", "cmd/internal/transcripts/sessionmeta", "cmd/internal/transcripts/tally", "turns/transcript/claude/record", "turns/transcript/claude/content", "turns/transcript/claude/write",
	"compactor", "compactor/overflow", "compactor/summary", "compactor/policy", "compactor/evidence", "compactor/quote", "compactor/view", "compactor/plan", "compactor/extractive", "compactor/compare", "compactor/facts"}

func TestImports(t *testing.T) {
	walk(t, func(path string, production bool) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if !production {
			return
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if own, ok := strings.CutPrefix(name, "nexus/"); ok {
				may, known := allowed[pkg]
				if !known {
					t.Errorf("%s: package %s is not in the table of imports", path, pkg)
				} else if may != nil && !slices.Contains(may, own) {
					t.Errorf("%s: %s may not import %s", path, pkg, own)
				}
			}
			for prefix, may := range only {
				if (name == prefix || strings.HasPrefix(name, prefix+"/")) && name != "math/rand/v2" && !slices.Contains(may, pkg) {
					t.Errorf("%s: only %v may import %s", path, may, name)
				}
			}
			if slices.Contains(pure, pkg) && (name == "os" || name == "net" || strings.HasPrefix(name, "net/")) {
				t.Errorf("%s: %s is pure and may not import %s", path, pkg, name)
			}
		}
	})
}

// A pure package takes its clock as an argument.
func TestPurePackagesReadNoClock(t *testing.T) {
	clock := regexp.MustCompile(`(^|[^.\w])time\.(Now|Since|Sleep|After|Tick)\(`)
	walk(t, func(path string, production bool) {
		if !production || !slices.Contains(pure, filepath.ToSlash(filepath.Dir(path))) {
			return
		}
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if m := clock.Find(b); m != nil {
			t.Errorf("%s reads the clock: %s", path, m)
		}
	})
}

func TestTopLevelFolders(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	may := []string{"ledger", "turns", "lineage", "compactor", "fork", "projections", "cmd", "docs", ".ci", ".git", "nexus-data"}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(may, e.Name()) {
			t.Errorf("%s is not one of the top-level folders %v", e.Name(), may)
		}
	}
}

// The tables of docs/ARCHITECTURE.md name every package: the rooms of the engine in rows of
// their own, the others by their path or, in the row of their folder, by their last element.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs/ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string) // by the name that the row begins with
	for l := range strings.SplitSeq(string(b), "\n") {
		if m := regexp.MustCompile("^\\| `([^`]+)` \\|").FindStringSubmatch(l); m != nil {
			rows[m[1]] = l
		}
	}
	engine := room("") + "/"
	for pkg := range allowed {
		if name, isRoom := strings.CutPrefix(pkg, engine); isRoom {
			if rows[name] == "" {
				t.Errorf("room %s of the engine has no row", name)
			}
			continue
		}
		named := false
		for at := pkg; at != "." && !named; at = filepath.ToSlash(filepath.Dir(at)) {
			named = rows[at] != "" && (at == pkg || strings.Contains(rows[at], "`"+filepath.Base(pkg)+"`"))
		}
		if !named {
			t.Errorf("package %s is in no row", pkg)
		}
	}
	for name := range rows {
		_, isPackage := allowed[name]
		if _, isRoom := allowed[engine+name]; !isPackage && !isRoom {
			t.Errorf("row %s names no package", name)
		}
	}
}

// Every relative link of a Markdown page leads to a file.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllSubmatch(b, -1) {
			to := string(m[1])
			if strings.Contains(to, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), to)); err != nil {
				t.Errorf("%s links to %s, which is not there", path, to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func walk(t *testing.T, visit func(path string, production bool)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".ci" || d.Name() == "testdata" || d.Name() == "nexus-data") {
			return filepath.SkipDir
		}
		if d.IsDir() && path != root {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil { // another module: docs/benchmarks
				return filepath.SkipDir
			}
		}
		if strings.HasSuffix(path, ".go") {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			visit(rel, !strings.HasSuffix(path, "_test.go"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
