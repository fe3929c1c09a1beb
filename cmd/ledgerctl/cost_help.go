package main

// manualCost is the page of cost.
const manualCost = `ledgerctl cost [SESSION|TURN…] [--by …] [--since DAY] …
ledgerctl cost --budget DOLLARS [--per day|week|month|block] …

Shows the tokens of model calls by kind, and their cost in dollars. Of a
session: its calls and those of the sub-agents that it started. Without
arguments: the calls of all sessions. A turn that a fork shares with its parent
counts once, where it was made. A response that several files or turns repeat
counts once, too.

The cost of a call is what its source recorded, otherwise its tokens at the
price of the model, from the table that comes with ledgerctl. The sources and
days of the prices are below the table. ≥ marks a cost that is a lower bound,
and the lines below give the reason: the source has no usage (or only zeros, as
for a failed call), or a wrong one; the price of the model is not known; the
call was of a more expensive tier or region; or it searched the web. – means
unknown. If one response used several models, such as an advisor, each model is
a call. ≤ or ≥ before a day means that the source does not record the time of
the calls.

Responses, summaries of compactions, memory flushes, and extractions of memories
at resets are counted; --by kind separates them. The tokens of a lost response
of /v1 are not known: the call is listed below the table. Not counted, but in
the metrics of nexusd, are summarizer calls for a compaction that was not
stored, and calls with "store": false. A response without model and tokens that
was added by ledgerctl append to the history of a program is not a call of that
program: it is listed below the table, and in no row.

The kinds of tokens do not overlap: input is neither read from the cache nor
written to it. Reasoning is a part of the output, if the source reports it.

  --by GROUP,…   a row for each turn, session, day, week, month, block, model,
                 project, folder, branch, agent, source or kind (default:
                 session); several with commas: day,model. A week begins on
                 Monday. A block is five hours from the full hour of its first
                 call on, as limits of subscriptions are counted. project is the
                 repository, folder the working folder, branch that of git,
                 agent the agent of the ledger, source the program. Rows by a
                 time or by turn are in order of time, the newest last, as in
                 ledgerctl sessions; others have the highest cost first
  --project PROJECT
                 only sessions of this repository: see ledgerctl help sessions
  --cwd DIR      only sessions in this folder or below
  --branch BRANCH
                 only sessions on this branch of git
  --tag TAG      only sessions with this tag
  --source SOURCE
                 only sessions of this program, such as claude-code or codex
  --model MODEL  only calls of this model
  --hidden       hidden sessions too
  --budget DOLLARS
                 compare the cost of the period that is running with this
                 amount, on one line; the exit status is 10 if it is higher
  --per day|week|month|block
                 the period (week), in the time zone of --zone
  --since DAY    calls from a day (2026-11-22, today, yesterday), a time or an
                 age (3d, 12h, 2w) on
  --until DAY    calls before it
  --zone ZONE    the time zone of days: UTC, Europe/Paris (default: that of this
                 machine)
  --prices FILE  your own prices: TOML with rows [[model]], as in the
                 configuration of nexusd
  --all          count sessions that import --refresh replaced, too
  -n, --limit N  at most N rows, those with the highest cost or the newest (20;
                 0: all; with --json all), and one row for the rest, above the
                 newest rows or below the others

With --json costs are in micro-dollars.

Examples
  ledgerctl cost
  ledgerctl cost --by day,model --since 30d
  ledgerctl cost --by project --zone Europe/Paris
  ledgerctl cost --by week --project .
  ledgerctl cost --budget 50 --per week
  ledgerctl cost support-42 --by turn
  ledgerctl cost --by model --json | jq '.total.cost_micros / 1e6'
`
