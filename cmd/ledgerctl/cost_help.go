package main

// manualCost is the page of cost.
const manualCost = `ledgerctl cost [SESSION|TURN…] [--by …] [--since DAY] …

What model calls used and cost: tokens by kind, and dollars. Of a session, its
own calls and those of the sub-agents that it started; without arguments, of
all sessions. A fork and its parent share turns: those count once, where they
were said. So does a response that several files or turns repeat.

A cost is what the source recorded; else tokens times the price of the model,
from the table that comes with ledgerctl. Below are its sources and days. ≥
stands before a cost that is higher, and the lines below say why: the source
has no usage (or zeros only, as of a call that failed), or a wrong one, no price
of the model is known, the call was of a tier or a place that costs more, or
searched the web. – is unknown. What one answer used of several models, as of an
advisor, is a call of each. A day with ≤ or ≥ is a bound: the source does not
state the time of those calls.

Counted are answers, summaries of compactions, memory flushes, and extractions
of memories at resets; --by kind tells them apart. Of an answer of /v1 that was
lost no tokens are known: its call is named below the table. What a summarizer
used for a compaction that was then not stored is in the metrics of nexusd only,
and so are calls with "store": false. An answer that was appended to the history
of a program without a model and tokens (ledgerctl append) is no call of that
program: it is named below the table, and in no row.

The kinds of tokens do not overlap: input is neither read from the cache nor
written to it. Reasoning is a part of the output, where the source tells it.

  --by turn|session|day|model|project|agent|source|kind,…
                 a row for each (default: session). project is the working
                 folder, agent that of the ledger, source the program; several
                 with commas: day,model. Rows with a day or turn are in order of
                 time, the newest last, as in ledgerctl sessions; others the
                 costliest first
  --since DAY    calls from a day (2026-11-22, today, yesterday), a time or an
                 age (3d, 12h, 2w) on
  --until DAY    calls before it
  --zone ZONE    where days begin: UTC, Europe/Paris (else: as on this machine)
  --prices FILE  prices of your own: TOML with rows [[model]], as nexusd's
                 configuration has them
  --all          sessions that import --refresh replaced too
  -n, --limit N  at most N rows, the costliest or newest (20; 0: all), and one
                 for the rest: above the newest, below the costliest. With
                 --json all

With --json costs are in micro-dollars.

Examples
  ledgerctl cost
  ledgerctl cost --by day,model --since 30d
  ledgerctl cost --by project --zone Europe/Paris
  ledgerctl cost support-42 --by turn
  ledgerctl cost --by model --json | jq '.total.cost_micros / 1e6'
`
