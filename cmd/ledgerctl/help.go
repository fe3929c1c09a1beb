package main

// manual is the help of a verb: what it is for, what it takes, and examples
// that can be typed. A test holds every flag against the text.
var manual = map[string]string{
	"continue": continueHelp,
	"bisect":   bisectManual,
	"": `ledgerctl reads, changes and audits a ledger of AI agents' conversations.

Begin
  quickstart [FILE]         the main job on a real transcript: no daemon, no key
  import FILE…              bring transcripts in; again stores nothing twice
  watch                     bring them in while agents write; status, doctor
  hooks                     let agents call ledgerctl: install, uninstall
  hook EVENT                what they call
  service                   run nexusd and watch as services of your log-in
  export SESSION            take a session out: raw events, a page to show, a
                            transcript, or a provider's form

Read
  sessions                  list them; also new, show, set, reset, close
  log SESSION               the turns of a session, newest first
  tail SESSION [-f]         the newest turns, and those that come
  show TURN                 one turn, whole
  tree SESSION              its forks and compactions, drawn
  path SESSION|TURN         turn ids from the root
  merge-base A B            where two sessions or turns part
  diff A B                  what each has since they parted
  context SESSION|TURN      what the model would see, or was given for a turn
  search TEXT               turns, memories and events by words
  cost [SESSION|TURN…]      tokens and dollars, by session, day, model, project

Change
  append SESSION|new        add a turn
  compact SESSION           let a summary stand for the older turns
  expand COMPACTION|TURN    the turns behind what a context shows
  rewind SESSION TURN       move the head, back or forward
  fork SESSION|TURN         a new session from the head of another, or any turn
  continue SESSION|TURN     go on from there with another agent
  bisect SESSION -- COMMAND the turn after which a command fails

Beside the turns
  memory                    what an agent remembers across its sessions: save,
                            list, search, document, withdraw, promote
  events                    what reached an agent from outside: append, list,
                            get, channels, tail, export
  mcp                       tools for agents, on stdio (docs/MCP.md)

Policies
  policies                  the compaction policies
  policy show NAME[@N]      one of them, with its settings; put FILE: your own
  compare FILE|SESSION…     policies side by side on real history: no daemon

Audit
  verify [SESSION…]         check every event, hash, parent and blob
  archive verify FILE…      check an archive's hashes: no daemon
  backup FILE               everything, into one file; verify FILE: check it
  restore FILE              make a data folder of a backup: no daemon
  doctor                    connection, user, versions, disk, clock: what fails
  bench                     appends a second, beside bare NATS: no daemon

Also: nats-context, completion SHELL, version, help VERB. --version is version.

Every verb takes
  --server URL   the NATS server (NEXUS_URL, else nats://127.0.0.1:4222)
  --creds FILE   who speaks: the seed of an NKey (NEXUS_CREDS, else the operator
                 that nexusd made, on this machine)
  --tls-ca FILE  trust the certificates in FILE (PEM) only: a private authority,
                 or the server's own (NEXUS_TLS_CA, else the system's)
  --nats-context NAME
                 server and credentials of that context of the nats command
  --tenant NAME  the tenant (default)
  --agent NAME   speak for it (else: main to create, the operator to read)
  --json         one JSON object, or one a line
  --quiet        no talk on stderr
  --no-color     no colour (NO_COLOR does it too)
  --no-pager     log, tree and context go to a terminal as they are, not through
                 $PAGER (else less, with LESS=FRX)

In a terminal, ledgerctl alone lists the sessions to pick from: type to filter;
enter shows the log, ctrl+t the tree, ctrl+o the context, esc leaves.

A session is named by its id, the beginning or end of one, its label, or the
id that its transcript gives it, or four characters or more of either end of it.
A turn is named by its id or the beginning or end of one, or as
SESSION@head, SESSION@head~3, SESSION/TURN, or by its number, which log
shows: SESSION@30. Summaries cite turns as [t30]: SESSION@t30, or t30 alone
where the session is named apart. Tables show the ends of ids.

Exit status: 0 done, 1 internal error, 2 wrong use, 3 conflict, 4 not found,
5 unavailable or busy, 6 corrupt, 7 unknown outcome, 8 denied, 9 nothing to do.
`,
	"quickstart": `ledgerctl quickstart [FILE] [--data DIR]

Starts a daemon of its own, imports a real transcript (FILE, or the one that
ships with the project), compacts it, forks it in the middle, rewinds and goes
forward, copies all of it into a second ledger, and verifies both. It reaches
no network and needs no key.

  --data DIR   keep the ledger in DIR (else: a temporary folder, removed)

Examples
  ledgerctl quickstart
  ledgerctl quickstart --data ./ledger ~/.claude/projects/shelf/session.jsonl
`,
	"cost": manualCost,
	"bench": `ledgerctl bench [--writers N] [--agents N] [--turn-bytes N]
                [--seconds S] [--rounds N] [--dir DIR]

Measures appends on this machine, in rounds: turns of a nexusd of its own;
messages of the same size on a NATS stream that does an fsync for each; rows of
the same size in Pebble, in this process. Each writer waits for its answer
before it sends the next. The two servers are processes of their own, with
their files in a temporary folder. Figures are medians of the rounds; trust the
ratios, and only those of one run: disks and machines differ.

  --writers N     writers, each with a session of its own (64)
  --agents N      agents, each with a connection of its own (4)
  --turn-bytes N  bytes of text in a turn (2048)
  --seconds S     how long each system is measured in a round (5)
  --rounds N      rounds (3)
  --dir DIR       a folder on the disk to measure (else: the temporary folder)

CPU each is that of the server's process. fsyncs each counts those of the log
and the blobs; two a second for the mark come on top. disk/byte is what the
files grew by for each byte of text, projections included.

Examples
  ledgerctl bench
  ledgerctl bench --writers 512 --dir /var/lib/nexus
  ledgerctl bench --writers 1 --rounds 5 --json
`,
	"mcp": `ledgerctl mcp [--read-only]

Serves the Model Context Protocol on stdin and stdout: an agent that starts it
gets the tools search, expand, brief, remember, fork and status for its ledger.
It speaks for one agent (--agent NAME, else main) with the usual credentials,
connects when the first tool is called, and ends with its input. Nothing but
the protocol goes to stdout; problems go to stderr, never content. nexusd
serves the same tools over HTTP at /mcp. docs/MCP.md shows how Claude Code,
Codex and other clients are told of it.

  --read-only   without remember and fork

Examples
  claude mcp add nexus -- ledgerctl mcp
  ledgerctl mcp --agent ci --read-only
`,
	"watch":   watchManual,
	"hooks":   hooksManual,
	"hook":    hookManual,
	"service": serviceManual,
	"import": `ledgerctl import [--format F] [--final] [--losses] FILE|DIR…

Brings transcripts in: their turns, rewinds as forks, recorded compactions as
compactions. Ids come from the transcript itself, whatever its file is called,
so doing it again stores nothing twice, an interrupted import is resumed by
repeating it, and a file that grew adds only what is new. Chat messages without
an id are told apart by all that they say: a longer copy is another session. A
session gets the title that its transcript gives it. A folder is searched for
*.jsonl and *.json; pipes, sockets and devices in it are skipped. - is standard
input. A file is a line; what could not be kept exactly as it stood is counted
at the end. A file that fails does not stop the others: those that failed are
listed, and the exit status is not 0. What was stored of such a file before the
error stays stored.

The ids of a transcript are the same for all agents, and an id names one session
of a ledger, whatever its tenants. The first agent that imports a transcript has
its sessions; the import of another agent, of any tenant, is refused (exit
status 3). In another ledger (--server) it can be imported again.

A file that was not written to for an hour is finished, and all of it is taken.
Of another, a turn at the end that may still grow is not stored yet: one without
a response, and one whose response may go on in the next line. A response is
finished when something follows it, and also when Claude Code wrote that the
model stopped for another reason than a tool call, or Codex wrote its usage.
Gemini CLI and older versions of Claude Code do not mark the end of a response.
Where a turn goes on after it was stored, the rest is a turn after it, with the
output tokens that were counted since. Usage that no turn can take is a loss.

A part of a turn may have up to 100 MiB. Content of large parts that a message
of NATS has no room for is stored first, in pieces, and the turn refers to it;
over 32 MiB a context shows only its beginning. A turn that is larger all the
same ends the import of its file, and the error says which turn it is.

  --format F   auto (default: told from the content), claude-code, codex, pi,
               gemini-cli, openai, anthropic, otel (chat messages as JSON;
               spans too), jsonl (an export of ours)
  --final      the files will not grow: take the turns at their ends too;
               --final=false waits for more, however old a file is
  --losses     list each loss with its line, below its file, and all files that
               are no transcripts

Examples
  ledgerctl import ~/.claude/projects
  ledgerctl import --json --final session.jsonl | jq .losses
`,
	"export": `ledgerctl export SESSION [--format F] [-o FILE] [--before-loss]
ledgerctl export --all DIR

Takes a session out. jsonl holds its raw events and those of its ancestors up
to each fork point, with the content keys: whoever has the file can read it.
Imported into another ledger every hash is the same. html is a page to show: one
file that loads nothing and runs no script, with folds for what tools did, for
long texts and for what a compaction replaced. markdown is the same for a wiki.
claude-code, codex, pi and gemini-cli are the path of the head as a transcript
of that agent, every turn of it. The other formats are the context of the head,
as a provider takes it.

  --format F         jsonl (default), html, markdown, claude-code, codex, pi,
                     gemini-cli, otel, openai, anthropic or gemini
  -o, --output FILE  write to FILE, whole or not at all (else: stdout)
  --before-loss      of a session that lost an event: what is before it (jsonl)
  --show-secrets     show credentials of known shapes; else they are asterisks.
                     jsonl has every byte in any case
  --all              everything of the tenant (--tenant), into a folder:
                     sessions/AGENT/ID.jsonl, each as above; to read,
                     events/AGENT/CHANNEL.jsonl, memories/AGENT.jsonl and
                     policies.jsonl. Again, it writes only files of chains that
                     grew. What can't be read is listed, the rest is written

ledgerctl import --agent _ DIR/sessions brings the sessions into another ledger
with the same hashes. For memories and channels use ledgerctl backup.

Examples
  ledgerctl export 01J8 -o session.jsonl
  ledgerctl export 01J8 --format html -o session.html
  ledgerctl export --all ./exported
  ledgerctl export support-42 --format openai | jq '.messages | length'
`,
	"archive": `ledgerctl archive verify FILE…

Checks archives that nexusd wrote beside the ledger (OPERATIONS.md, files of the
designs), exports of sessions and of channels, without a server: the hash of
each event is computed from its bytes, events that follow each other must name
each other's hash, and what is shown must have the id and the hash of its event.

It can't check what is sealed: that a turn or a body is shown as it is stored,
and the content of blobs. For that, ledgerctl import the archive of a session
where its keys are.

Examples
  ledgerctl archive verify nexus-data/files/agents/main/sessions/*.jsonl.gz
  ledgerctl archive verify --json session.jsonl
`,
	"backup": `ledgerctl backup FILE [--keys KEYS]
ledgerctl backup verify FILE [--digest D]

Writes every record of the ledger, blobs included, into FILE while nexusd runs:
what was acknowledged when it began, byte for byte, checked on the way. With the
same FILE again, it checks FILE and adds what is new. FILE gets its name when it
is complete; until then it is FILE.partial. One that was interrupted goes on
where it stopped. Another file is never written over.

The content keys are not in FILE. Keep KEYS, which only its owner can read, away
from it: who has both reads everything. KEYS is written anew each time. It takes
the operator of every tenant (users/operator.nk of the data folder).

verify needs no daemon and no keys. It says complete, incomplete (the last run
did not end) or damaged, and computes every hash and chain again. Exit status 6
unless the file is complete.

  --keys FILE  write the content keys into FILE
  --digest D   verify: the digest that the newest run printed. Without it, a
               file that was cut off at the end of an earlier run is complete

Examples
  ledgerctl backup nexus.backup --keys nexus.keys
  ledgerctl backup verify nexus.backup --json
`,
	"restore": `ledgerctl restore FILE --data DIR [--keys KEYS] [--accept-incomplete]
                  [--accept-missing-keys]

Makes a data folder for nexusd of a backup, without a daemon, as nexusd restore
does. Each record has the bytes, the position and the time that it had. All of
FILE is checked on the way, and what was written is read back. No nexusd starts
in DIR until that is done; after a crash, run the same command again.

The restored ledger has the id of the original and is another one: it takes no
position and no backup of the original that came after FILE. Let agents write
to one of them only. Users get new credentials at its first start.

  --data DIR           the folder to make: empty or missing
  --keys FILE          the content keys; needed unless the ledger does not seal
  --accept-incomplete  of a file that is incomplete or damaged, restore what its
                       complete runs hold
  --accept-missing-keys  restore without content keys that KEYS lacks: their
                       content can't be read

Examples
  ledgerctl restore nexus.backup --keys nexus.keys --data ./restored
`,
	"sessions": `ledgerctl sessions [list|show|new|set|reset|close] …

  sessions [list]           the sessions, oldest first: when the newest turn was
                            said, turns, how full, and the label, the title,
                            or the first words of a user
  sessions show SESSION     one session, with its settings
  sessions new              open one, print its id
  sessions set SESSION      change settings
  sessions reset SESSION    close it and go on in a fresh successor
  sessions close SESSION    take no more turns; reading stays

For the list:
  --all            list sessions of an import that have no turn, too
  --grep TEXT      those with these words, best first, each with its best turn;
                   TEXT as search takes it
  --limit N, -n N  with --grep, at most so many sessions (else 20; 0: all)
  --since DAY      with a turn from a day, time or age (3d, 12h, 2w) on
  --cwd DIR        those in a folder or below
  --branch NAME    those on a branch of git
  --model NAME     those of a model
  --source NAME    those of a program, such as claude-code or codex

For new:
  --kind KIND      peer (else), task, or main: a session of the agent's owner,
                   which sees all of its memories. Only agents that the
                   configuration of nexusd grants it ([[agent]], main = true)
                   open main sessions. A reset and a fork keep the kind.

For new and set:
  --label NAME     a name of your own; a reset takes it along
  --model NAME     the model
  --system FILE    the system text (- is stdin)
  --tools FILE     the tools, a JSON array
  --policy NAME    the compaction policy, see ledgerctl policies; with settings:
                   balanced{"keep_tokens":8000}
  --reset JSON     when it is reset by itself: {"mode": "daily", "hour": 4,
                   "time_zone": "Europe/Paris"}, {"mode": "idle",
                   "idle_minutes": 60} or {"mode": "manual"}. sessions show has
                   the time; a turn without an answer delays it, an hour at most
  --window N       the model's context window, in tokens
  --output N       what of it is kept free for the answer, in tokens

For reset and close:
  --cause TEXT     why, for the record

Examples
  ledgerctl sessions
  ledgerctl sessions --grep "nil pointer" --since 30d
  ledgerctl sessions new --label support-42 --window 200000
  ledgerctl sessions new --label home --kind main --agent owner
  ledgerctl sessions set support-42 --system prompt.md --tools tools.json
  ledgerctl sessions set support-42 --reset '{"mode":"daily","time_zone":"UTC"}'
  ledgerctl sessions reset support-42 --cause "new topic"
`,
	"append": `ledgerctl append SESSION|new [--user TEXT] [--assistant TEXT] [--policy P]

Adds a turn after the head. Without the flags it reads a turn.append request
as JSON on stdin: {"messages": […], "response": {…}}. Parts of it may have up to
100 MiB, whatever a message holds. new opens a session.

  --user TEXT        what the user says
  --assistant TEXT   what the model answers; without it the turn is pending
  --policy P         for new: the compaction policy, as sessions new takes it

Examples
  ledgerctl append new --user "What is 6 times 7?" --assistant 42
  ledgerctl append 01J8 < turn.json
`,
	"log": `ledgerctl log SESSION|TURN [-n N] [--grep TEXT]

The turns on the path of the head, or of a turn, newest first, through forks
and compactions: nothing that was ever said is missing here.

  -n, --limit N   at most N turns
  --grep TEXT     those of a session with these words, as search finds them
  --show-secrets  show credentials of known shapes; else they are asterisks

Examples
  ledgerctl log support-42 -n 20
  ledgerctl log 01J8 --json | jq -r .hash
`,
	"tail": `ledgerctl tail SESSION [-f] [-n N] [--after TURN]

The newest turns, oldest of them first. With -f it goes on with what is
appended, through lost connections and head moves, until interrupted.

  -f, --follow      go on until interrupted
  -n, --lines N     how many turns to begin with (10)
  --after TURN      begin after this turn (id, t30): go on where you stopped

Examples
  ledgerctl tail support-42 -f
  ledgerctl tail 01J8 -n 1 --json
`,
	"show": `ledgerctl show TURN [--part N]

One turn, whole: every message, tool call and result, its hash and that of the
event before it. A compaction shows what it covers and what stands for it.

  --part N   only the content of part N, byte for byte: a picture, a large
             result, the arguments of a call

Examples
  ledgerctl show support-42@head
  ledgerctl show support-42@30
  ledgerctl show 01J8/4XK2PQRS --json | jq .usage
  ledgerctl show 01J8/4XK2PQRS --part 2 > picture.png
`,
	"tree": `ledgerctl tree SESSION [--svg]

The tree of forks that a session belongs to, with each session's compactions,
and where it was rewound its branches with the turn that each ends with:
rewind SESSION TURN goes there.

  --svg   print a picture, as SVG: forks as branches, compactions with the turns
          that their summaries stand for, heads

Examples
  ledgerctl tree support-42
  ledgerctl tree support-42 --svg > tree.svg
`,
	"path": `ledgerctl path SESSION|TURN

The ids of the turns from the root to the head or the turn, with depth.

Examples
  ledgerctl path support-42
  ledgerctl path 01J8@head~10 --json
`,
	"merge-base": `ledgerctl merge-base A B

The last turn that two sessions or turns have in common. Exit status 4 where
they have none.

Examples
  ledgerctl merge-base support-42 support-42-b
`,
	"diff": `ledgerctl diff A B [--text|--context] [--show-secrets]

What A and B, two sessions or turns, each have since they parted: a line a turn.

  --text     their texts instead, compared line by line as diff -u does. A large
             part is compared by its beginning
  --context  what the model sees at A and at B, compared line by line: what a
             compaction, another policy or a turn more changed. It is a look
  --show-secrets  show credentials of known shapes; else they are asterisks

Examples
  ledgerctl diff support-42 support-42-b
  ledgerctl diff support-42 support-42-b --text
  ledgerctl diff support-42@head~1 support-42@head --context
  ledgerctl diff 01J8@head 01J8/4XK2PQRS --json
`,
	"context": manualContext,
	"compact": `ledgerctl compact SESSION [--dry-run] [--policy P] [--focus TEXT]
                          [--from-originals]
ledgerctl compact SESSION|COMPACTION --lost [--kind K,…] [--limit N]

Lets a summary stand for the older turns. They stay in the ledger: expand
shows them, log never leaves them out.

  --dry-run          only say what would be done
  --policy P         by another policy than the session's, with settings as
                     sessions set takes them
  --focus TEXT       what the summary should keep in view
  --from-originals   from the turns themselves, not from the summary in force
  --lost             compact nothing; list the facts that the context does not
                     hold any more, and the turn that has each: errors,
                     commands, paths, then identifiers, of each kind the most
                     used first.
                     Of a compaction: what it covered, and the context it left
  --kind K           with --lost: paths, identifiers, numbers, commands, errors
                     (default: all but numbers, which listings are full of)
  -n, --limit N      with --lost: at most so many; 0: all (default 50)

Examples
  ledgerctl compact support-42 --dry-run
  ledgerctl compact support-42 --focus "the failing migration"
  ledgerctl compact support-42 --lost --kind paths,errors
`,
	"expand": `ledgerctl expand COMPACTION [--all | --line N | --lines]
ledgerctl expand TURN
ledgerctl expand SESSION [--call ID]

From what a context shows to the turns as they were said. Of a compaction the
turns that its summary stands for, oldest first; a session stands for its
newest compaction. Of another turn, as search,
context and summaries name it, the turn itself, and what the context shows of
it: a summary that says [t12] cites SESSION@t12.

  --all      through every older compaction inside it, down to the originals
  --lines    each line of what stands for the turns, with the turns it rests on
  --line N   what one of these lines rests on: which turns hold its words and
             facts, where, and what of it stands in none
  --call ID  the turns with a tool call and its results

Examples
  ledgerctl expand support-42@head
  ledgerctl expand 01J8/4XK2PQRS --all
  ledgerctl expand support-42@head --lines
  ledgerctl expand support-42@t12
`,
	"rewind": `ledgerctl rewind SESSION TURN

Moves the head of a session to another of its turns, back or forward. Nothing
is deleted; what follows is appended from there.

Examples
  ledgerctl rewind support-42 support-42@head~3
  ledgerctl rewind support-42 t30
`,
	"fork": `ledgerctl fork SESSION|TURN [--mode M] [--label NAME] [--policy P]
               [--worktree DIR] [--repo DIR]

A new session that begins at the head of another, or at any of its turns, and
shares its history.

  --mode M       as_seen (default): it sees what that turn's next call would see
                 full: every turn, compactions above left aside
                 summary: as_seen, and begins with a summary at the fork point
  --label NAME   a label for the new session
  --policy P     another policy than that of the other session, with settings as
                 sessions set takes them
  --worktree DIR put the files that were there after the turn into DIR, which
                 must not be there or be empty: a git worktree of the commit
                 that was checked out then, with what differed as changes. They
                 are known if watch --code or a hook recorded them
  --repo DIR     the git repository that has the files (else: where they were
                 recorded)

Examples
  ledgerctl fork support-42
  ledgerctl fork support-42@head~3
  ledgerctl fork 01J8/4XK2PQRS --mode full --label second-try
  ledgerctl fork support-42@30 --worktree ../second-try
`,
	"events": `ledgerctl events append|list|get|channels|tail|export …

The Events Ledger: mails, webhook calls, alarms and whatever else reached an
agent from outside. A channel is a hash chain of one agent (main, unless --agent
names another), and is never compacted. A turn names the event that it answers
in its meta: {"event": {"channel": C, "id": EVENT}}; show TURN shows the event.
An event is named by its whole id, or by its number, which list shows.

  events append CHANNEL     store an event; the body is JSON, of --body or stdin
  events list CHANNEL       the events, oldest first
  events get CHANNEL EVENT  one event, whole, and the turns that name it
  events channels           the channels, of all agents unless --agent names one
  events tail CHANNEL [-f]  the newest events, and those that come, through lost
                            connections and restarts of the daemon
  events export CHANNEL     JSON lines, each with the stored bytes (payload) and
                            their hash, which export checks

For append:
  --kind K         what the event is, such as mail.received; required
  --body JSON      the body (else: stdin)
  --time T         when it happened: a day, or a time as 2026-02-03T10:20:30Z
  --meta JSON      an object of your own
  --id ID          the same id stores one event, however often it is sent

For list, tail and export:
  --kind K         only events of this kind
  --from T         from a day or time on: that of the event, else when it was
                   stored
  --to T           before a day or time

  -n, --limit N    list: at most N events
  --newest-first   list: the newest events first
  -f, --follow     tail: go on until interrupted
  -n, --lines N    tail: how many events to begin with (10)
  --after EVENT    tail: begin after this event: go on where you stopped
  -o, --output F   export: write to the file F, whole or not at all

Examples
  ledgerctl events append mail --kind mail.received --body '{"text":"Hi"}'
  ledgerctl events list mail --from 2026-02-01
  ledgerctl events get mail 0
  ledgerctl append support-42 <turn.json   # with "meta": {"event": …}
  ledgerctl events channels
  ledgerctl events tail mail -n 1 --json
  ledgerctl events export mail -o mail.jsonl
  ledgerctl archive verify mail.jsonl
`,
	"policies": `ledgerctl policies

The compaction policies that a session can be given, sessions set --policy, and
what each does. A session that names none has balanced.

Examples
  ledgerctl policies
`,
	"policy": `ledgerctl policy show NAME[@VERSION]|DIGEST [--version N]
ledgerctl policy put FILE [--name NAME]

show: a policy with every setting that is neither zero nor off, in its newest
version unless one is named. Each can be overridden by its name, for a session
or for a look: --policy 'balanced{"keep_tokens":8000}'. An export takes along
the content of a policy, not its name: in another ledger show takes the digest,
which sessions show has.

put: stores the next version of a policy of your own, for all agents of the
tenant. FILE has the settings as JSON, as policy show --json prints them; - is
the standard input. A session keeps the version that it was given. One agent
puts all versions of a name. A setting that is left out is zero or off. These
can't be, so the smallest FILE is:

  {"mode": "background", "target_ratio": 0.5, "keep_tokens": 2000,
   "summary_max_ratio": 0.2, "max_strikes": 2, "replacement_role": "user",
   "context_window": 200000}

Its contexts are due at nine tenths of the budget. "trigger_ratio" and
"reserve_tokens" make them due earlier.

  --version N   show: the version N of a name, as NAME@N does
  --name NAME   put: name of the policy (else: that of the file)

Examples
  ledgerctl policy show balanced
  ledgerctl policy show mine@1
  ledgerctl policy show balanced --json >mine.json
  ledgerctl policy put mine.json --name mine
`,
	"search": `ledgerctl search TEXT [--session S] [--covered] [--since DAY] …

Finds what is stored by its words: turns, tool calls and their outputs,
summaries, memories and external events, also where a compaction covers them or
they lie on another branch. TEXT has words, "phrases" and beginnings (pars*);
a hit has all of them. Identifiers and paths are found by their parts, too.

Each line says where it is (SESSION@N is a turn, as show takes it), and what
the model sees of it: live, elided (shortened), compacted (a summary stands for
it), other_branch, archived (the session was closed or reset; the memory was
withdrawn or replaced). Matches are in brackets.

  --session S    in this session's turns, those it inherited, and its memories
  --branch-only  only what the session's head descends from
  --covered      only what the model no longer sees, or sees shortened
  --since DAY    from a day, a time or an age (3d, 12h, 2w) on
  --until DAY    before it
  --as-of POS    only what was stored up to a position
  --cwd DIR      turns in this folder or below
  --branch NAME  turns on this branch of git
  --source NAME  turns of this program, such as claude-code or codex
  --model NAME   turns of this model
  --tool NAME    turns that call this tool
  --role ROLE    what user, assistant, tool or system says
  --kind K       turn, memory or event; may be given again
  --show-secrets show credentials of known shapes; else they are asterisks
  --limit N      at most N, up to 100 (20)

ledgerctl sessions --grep TEXT answers with sessions.

Examples
  ledgerctl search "package manager"
  ledgerctl search parseHTTPRequest --kind turn --json
`,
	"memory": `ledgerctl memory save TEXT|- [--kind K] [--session S] [--source TURN]
                      [--trust WHO] [--visibility V] [--supersedes MEMORY]
ledgerctl memory list [--kind K] [--state S] [--trust WHO] [--session S]
                      [--since DAY] [--limit N]
ledgerctl memory search TEXT [--kind K] [--session S] [--half-life DAYS]
ledgerctl memory document [--replace FILE --if VERSION]
ledgerctl memory withdraw MEMORY [--reason TEXT]
ledgerctl memory promote MEMORY [--visibility V]

What an agent remembers across its sessions. Each memory names the turns that
it comes from and who states it. The same text again is the same memory, with
more evidence. A memory is named by its id, or the beginning or end of it.
Without --agent, list shows the memories of all agents; search and document are
of the agent main; withdraw and promote take what list shows.

A context shows memories under the policies gsv (the daily ones of today and
yesterday, and in main sessions the document) and wolffish (those that have
words of the user's newest text); under others, with settings of "memory".
context SESSION --explain lists them.

save: TEXT, or the standard input for -. The memory comes from the head of
--session, or from --source turns. What a tool states is proposed: it is in no
context until it is promoted. A memory of a fork stays on its branch until
then. Without --session and --source, only main sessions see it.

list: its column turn has the turn that a memory comes from, as show takes it.

search: the memories in force that have one of the words, the best first. It
finds words, not what they mean.

document: prints the agent's MEMORY.md, with its version on stderr, or replaces
the version that you read. If another writer was faster, nothing is stored and
the exit status is 3. An edited file of --files is taken in like this, too.

withdraw: the memory, and what derives from it, is in no later context.
Nothing is deleted: list shows it as withdrawn.

  --kind K           daily, long_term, episodic or semantic (save: semantic)
  --session S        save: the session that it comes from; list, search: what
                     that session sees
  --source TURN      save: a turn that it comes from; may be given again
  --supersedes MEMORY
                     save: the memory that it replaces
  --trust WHO        person, agent or tool states it (save: person)
  --state S          save: proposed, accepted; list: also superseded, withdrawn
  --visibility V     main: main sessions only; all; save: also branch
  --since DAY        list: from a day or time on
  --limit N          list: at most N (100); search: at most N (10)
  --half-life DAYS   search: when a memory counts half (30 days; 0: never)
  --replace FILE     document: the new text; - is the standard input
  --if VERSION       document: the version or digest replaced; 0: none yet
  --reason TEXT      withdraw: why

Examples
  ledgerctl memory save "The project uses pnpm." --session support-42
  ledgerctl memory save "CI is on port 80." --trust tool --source support-42@1
  ledgerctl memory list --state proposed
  ledgerctl memory search "who uses pnpm" --json
  ledgerctl memory document
  ledgerctl memory document --replace MEMORY.md --if 0
  ledgerctl memory promote MEMORY --visibility all
  ledgerctl memory withdraw MEMORY --reason "it was a joke"
`,
	"compare": `ledgerctl compare FILE|DIR|SESSION… [--policy A,B] [--window N] [--svg FILE]
                                     [--markdown]

Replays transcripts, each model call of them, through compaction policies, and
shows what each policy would have sent, what that costs, and what it keeps. It
needs no daemon for files, in any format that import reads; what names no file
is a session. Of a session and its forks the longest path is replayed. The
policies pass over the compactions of its own agent; the row "recorded" makes
those alone, and so shows what the agent had in view as far as the file tells.

  --policy A,B   these policies (else: every one, and recorded); with settings
                 of your own: --policy 'balanced{"keep_tokens":8000},nexus';
                 "masking" is a baseline beside the policies: it shows a line
                 in place of each tool result that ten assistant messages follow
  --window N     the model's context window, in tokens (200000)
  --prices FILE  prices of your own, as cost takes them
  --svg FILE     plot the context at each call of the longest transcript
  --markdown     the tables for a Markdown page

The first table: calls; those before which a compaction came into force, or
parts were shortened; those that do not fit the budget; the context, mean and
largest; all that was sent; what of it went to the cache again; what the
summarizer read (a model would be paid for it besides); the cost with a prefix
cache, by the price of the transcript's model where the table has it (else that
of Sonnet); that over the cheapest. Below: what a policy that compacts where
that pays expected of it, and what came of it.

The second: of the paths, identifiers, numbers, error lines and whole lines
of 30 characters or more that the agent writes again and that stand in a
covered or shortened turn, how many are in the context before it writes them.
"summary" leaves out those that the turns still shown say too. "reachable" are
in the context or one expand away. "earlier" are all facts of earlier turns,
the same ones for every policy. The third shows these by kind. Its row "oracle"
picks facts with hindsight, within the size that the context of balanced has at
that call; "of oracle" is a row's share of what the oracle holds. Below: how
many tokens those facts take.

What is compared is what policies cut, prune and extract: no model writes a
summary, and the agent says what it said.

Examples
  ledgerctl compare ~/.claude/projects --window 200000
  ledgerctl compare session.jsonl --policy nexus,balanced --svg contexts.svg
  ledgerctl compare support-42 --json | jq '.policies[] | {policy, cost}'
`,
	"verify": `ledgerctl verify [SESSION…] [--report FILE | --secrets]

Reads every event of the ledger, or of some sessions, and checks its bytes,
hash, predecessor, parent, coverage, content key and blobs. Exit status 0 where
all is sound, 6 where anything is wrong. Any other status says that it was not
verified, and no report is written: 2 wrong use, 4 no such session, 5 no
daemon, or another verification runs, 8 not the operator.

  --report FILE  write what was found as JSON (API.md, verification reports):
                 counts, problems by session, what is lost. - is stdout, in
                 place of the text

  --secrets   list credentials of known shapes in the turns instead: where each
              is and of what kind, never itself. Each turn is read once, on all
              branches; memories, documents and events are not read

Examples
  ledgerctl verify
  ledgerctl verify --report verified.json
  ledgerctl verify support-42 --json
`,
	"nats-context": `ledgerctl nats-context [NAME]

Prints the command that makes a context for the nats command: this server, and
the credentials of an agent, or those of --creds. NAME is nexus if it is left
out. Other NATS clients take the file itself.

Examples
  ledgerctl nats-context
  ledgerctl nats-context | sh
  ledgerctl nats-context work --server nats://ledger.example:4222 --creds bob.nk
`,
	"doctor": `ledgerctl doctor [--http URL]

Checks the way to the ledger and the daemon behind it, changes nothing, and says
what to do: the context that nexusd wrote, the permissions of the credentials,
the connection and its TLS, the size of messages, as whom you may act; and over
HTTP whether nexusd is ready, its version, how it keeps events, fsync, disk,
scrub, and the clocks. What can't be known from here is "skipped". It works
while nexusd is down, and says so. Beyond loopback HTTP wants a token:
NEXUS_TOKEN.

Each line is ok, skipped, warn or fail. The exit status is 0 without a fail,
else that of the worst one: 6 damaged, 5 not reachable or not ready, 8 denied,
1 other.

  --http URL   HTTP of nexusd (else: as nexusd wrote it on this machine)

Examples
  ledgerctl doctor
  ledgerctl doctor --server tls://ledger.example:4222 --creds ./alice.nk
`,
	"version": `ledgerctl version

Examples
  ledgerctl version --json
`,
	"completion": `ledgerctl completion bash|zsh|fish|powershell

A script that completes verbs, flags, policies and the names of open sessions.

Examples
  source <(ledgerctl completion bash)
  ledgerctl completion zsh > "${fpath[1]}/_ledgerctl"
`,
}
